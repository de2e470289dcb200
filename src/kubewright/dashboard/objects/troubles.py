"""What an object reports about itself that someone should look at, besides its health.

A trouble has a type: `container` (a container cannot start), `unschedulable` (the scheduler's reason),
`quota` (a quota that is used up), `disruption` (a PodDisruptionBudget that allows no eviction) and
`certificate` (the time at which a certificate expires, whether soon or not; who asks compares it with the
clock).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from kubewright.api.gvk import GroupKind
from kubewright.api.values.quantity import Quantity

_NOT_STARTING: Final = frozenset(
    (
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    )
)
_ADMISSION: Final = "admissionregistration.k8s.io"
CERTIFICATE_KINDS: Final = frozenset(
    (
        GroupKind(_ADMISSION, "MutatingWebhookConfiguration"),
        GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"),
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    )
)
"""Kinds with certificates of certificate authorities (`caBundle`)."""


class Trouble(NamedTuple):
    """One trouble of an object. Times are milliseconds since 1970."""

    type: str
    message: str
    since: float | None = None
    expires: float | None = None


def troubles_of(kind: GroupKind, data: dict[str, Any]) -> tuple[Trouble, ...]:
    """Return the troubles of an object."""
    find = _RULES.get(kind)
    if find is not None:
        return tuple(find(data))
    expires = milliseconds_of((data.get("status") or {}).get("notAfter"))
    if expires is not None:  # the field of cert-manager, which other issuers use as well
        return (Trouble("certificate", "the certificate", None, expires),)
    return ()


def milliseconds_of(text: Any) -> float | None:
    """Return a timestamp in milliseconds; `None` if it is not one."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except ValueError:
        return None


def _pod(pod: dict[str, Any]) -> Iterator[Trouble]:
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = condition.get("message") or condition.get("reason") or "not scheduled"
            yield Trouble("unschedulable", text, milliseconds_of(condition.get("lastTransitionTime")))
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(field) or ():
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _NOT_STARTING:
                reason, message = waiting["reason"], waiting.get("message") or ""
                text = f"container {each.get('name')}: {reason}{': ' if message else ''}{message}"
                yield Trouble("container", text, milliseconds_of(status.get("startTime")))


def _quota(quota: dict[str, Any]) -> Iterator[Trouble]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    full = []
    for name, limit in hard.items():
        if name in used and Quantity(limit) > Quantity(0) and Quantity(used[name]) >= Quantity(limit):
            full.append(f"{name} {used[name]} of {limit}")
    if full:
        yield Trouble("quota", f"used up: {', '.join(sorted(full))}")


def _disruption_budget(budget: dict[str, Any]) -> Iterator[Trouble]:
    status = budget.get("status") or {}
    if status.get("expectedPods") and status.get("disruptionsAllowed") == 0:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        yield Trouble("disruption", f"allows no eviction: {healthy} healthy pods, {desired} required")


def _bundles(data: dict[str, Any]) -> Iterator[str]:
    for webhook in data.get("webhooks") or ():
        yield (webhook.get("clientConfig") or {}).get("caBundle") or ""
    spec = data.get("spec") or {}
    yield spec.get("caBundle") or ""
    conversion = (spec.get("conversion") or {}).get("webhook") or {}
    yield (conversion.get("clientConfig") or {}).get("caBundle") or ""


def _authorities(data: dict[str, Any]) -> Iterator[Trouble]:
    from cryptography import x509

    ends = []
    for bundle in set(_bundles(data)) - {""}:
        try:
            certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle))
        except (ValueError, binascii.Error):
            yield Trouble("certificate", "its caBundle is not a PEM certificate", None, 0.0)
            continue
        # A bundle works as long as one of its certificates is valid.
        ends.append(max(each.not_valid_after_utc.timestamp() * 1000 for each in certificates))
    if ends:
        yield Trouble("certificate", "its caBundle", None, min(ends))


_RULES: Final[dict[GroupKind, Callable[[dict[str, Any]], Iterator[Trouble]]]] = {
    GroupKind("", "Pod"): _pod,
    GroupKind("", "ResourceQuota"): _quota,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    **dict.fromkeys(CERTIFICATE_KINDS, _authorities),
}
