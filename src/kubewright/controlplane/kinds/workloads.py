"""What workloads have in common: replicas, a selector that never changes, a template, a status of counts."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resource import ScaleSubresource
from kubewright.schema import fielderrors as fe

from .podspec.names_and_numbers import Errors, non_negative
from .rows import labels_text, selector_text

Object = dict[str, Any]


def scale_subresource(*, plain_selector: bool = False) -> ScaleSubresource:
    """`/scale` of a workload; replication controllers have a plain map as selector."""

    def selector(obj: Object) -> str:
        found = (obj.get("spec") or {}).get("selector")
        if plain_selector:
            return labels_text(found) if found else ""
        return selector_text(found)

    return ScaleSubresource(selector=selector, default_replicas=0)


def count_errors(status: Object, fields: tuple[str, ...], bounded: tuple[str, ...], ready: str) -> Errors:
    """Counts: not negative, `bounded` ones at most `replicas`, available ones at most ready ones."""
    errors: Errors = []
    for field in ("replicas", *fields, "observedGeneration", "collisionCount"):
        errors += non_negative(status.get(field), f"status.{field}")
    total = status.get("replicas") or 0
    for field in bounded:
        if (status.get(field) or 0) > total:
            text = "cannot be greater than status.replicas"
            errors.append(fe.invalid(f"status.{field}", status.get(field) or 0, text))
    if "availableReplicas" in bounded and (status.get("availableReplicas") or 0) > (
        status.get("readyReplicas") or 0
    ):
        text = f"cannot be greater than {ready}"
        errors.append(fe.invalid("status.availableReplicas", status.get("availableReplicas") or 0, text))
    return errors


def immutable_selector(new: Object | None, old: Object | None) -> Errors:
    """Which pods are its own, a workload never changes."""
    if new == old:
        return []
    from .podspec.scheduling import shown_selector

    return [fe.invalid("spec.selector", shown_selector(new), "field is immutable")]


def collision_errors(new: Object, old: Object) -> Errors:
    """The count of collisions never goes down."""
    after = (new.get("status") or {}).get("collisionCount")
    before = (old.get("status") or {}).get("collisionCount")
    if before is not None and (after or 0) < before:
        return [fe.invalid("status.collisionCount", after or 0, "cannot be decremented")]
    return []
