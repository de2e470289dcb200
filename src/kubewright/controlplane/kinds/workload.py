"""Shared parts of kinds that run pods: replica counts, an immutable selector, a pod template."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import TableColumn
from kubewright.apiserver.resources.subresource import ScaleSubresource
from kubewright.schema import field_errors as fe

from .core.podspec.defaults import default_template
from .printing import column, container_cells, field, label_selector_text, labels_text, selector_text, shown
from .validation import NOT_NEGATIVE, Errors, Rules, UpdateRules


def scale_subresource(*, plain_selector: bool = False) -> ScaleSubresource:
    """Return the `scale` subresource of a workload; `plain_selector`: its selector is a map."""

    def selector(obj: Object) -> str:
        found = (obj.get("spec") or {}).get("selector")
        if plain_selector:
            return labels_text(found) if found else ""
        return selector_text(found)

    return ScaleSubresource(selector=selector, default_replicas=0)


def ready_replicas(obj: Object) -> str:
    """Return the ready and the desired replicas for the column `Ready`."""
    return f"{field(obj, 'status.readyReplicas', 0)}/{field(obj, 'spec.replicas', 0)}"


def count_column(name: str, path: str, description: str, *, type: str = "integer") -> TableColumn:
    """Return a column that shows a number, 0 if it is missing."""
    return column(name, shown(path, 0), type=type, description=description)


def template_columns(path: str = "spec.template", *, wide: bool = True) -> tuple[TableColumn, TableColumn]:
    """Return the columns of the containers and images of a pod template."""

    def cell(index: int) -> Callable[[Object], str]:
        return lambda obj: container_cells(field(obj, path))[index]

    names = column("Containers", cell(0), description="Names of each container in the template.", wide=wide)
    text = "Images referenced by each container in the template."
    return names, column("Images", cell(1), description=text, wide=wide)


def selector_column(
    path: str = "spec.selector", format_selector: Callable[[Object | None], str] = label_selector_text
) -> TableColumn:
    """Return the wide column of a label selector."""
    text = "Label selector of the pods."
    return column("Selector", lambda obj: format_selector(field(obj, path)), description=text, wide=True)


def format_strategy(strategy: Object) -> fe.GoStruct:
    """Format an update strategy as Go does in error messages."""
    return fe.GoStruct({"Type": strategy.get("type") or "", "RollingUpdate": strategy.get("rollingUpdate")})


def workload_defaults(default_spec: Callable[[Object], None]) -> Callable[[Object], None]:
    """Return a function that applies the defaults of the pod template, then those of the spec."""

    def default(obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        default_spec(spec)

    return default


def template_warnings(*, host_names: bool = False) -> Callable[[Object, Object | None], Iterator[str]]:
    """Return a function for the warnings about a pod template that is new or has changed.

    `host_names`: also warn about names that are not DNS labels, since pods use them as host names.
    """

    def warnings(obj: Object, old: Object | None) -> Iterator[str]:
        if old is not None and old["spec"] == obj["spec"]:
            return
        from .core.podspec.warnings import host_name_warnings, pod_warnings

        if host_names and old is None:
            yield from host_name_warnings(obj)
        yield from pod_warnings(obj["spec"].get("template") or {}, "spec.template")

    return warnings


def replica_status_rules(
    *counts: str, unbounded: tuple[str, ...] = (), ready: str = "readyReplicas"
) -> Callable[[Object, Object], Errors]:
    """Return the rules of a status: `counts` must not exceed `replicas`, nor `availableReplicas` `ready`."""

    def bounds(status: Object, path: str) -> Errors:
        total, available = status.get("replicas") or 0, status.get("availableReplicas") or 0
        errors = [
            fe.invalid(f"{path}.{field}", status.get(field) or 0, "cannot be greater than status.replicas")
            for field in counts
            if (status.get(field) or 0) > total
        ]
        if "availableReplicas" in counts and available > (status.get("readyReplicas") or 0):
            errors.append(
                fe.invalid(f"{path}.availableReplicas", available, f"cannot be greater than {ready}")
            )
        return errors

    fields = ("replicas", *counts, *unbounded, "observedGeneration", "collisionCount")
    rules = Rules({"status": [dict.fromkeys(fields, NOT_NEGATIVE), bounds]})
    return UpdateRules(rules, {"status.collisionCount": not_decremented})


def not_decremented(new: int | None, old: int | None, path: str) -> Errors:
    """A counter that must not decrease; removing it counts as a decrease."""
    if old is None or (new is not None and new >= old):
        return []
    return [fe.invalid(path, new or 0, "cannot be decremented")]


def selected_template(*, noun: str, owner: str, unusable: str) -> Callable[[Object, str], Errors]:
    """Return a check of `selector` and `template` of a spec, which must match.

    `noun` is the kind in the message about empty selectors, `owner` the one in the message about deadlines,
    `unusable` the message about an invalid selector, after which the template is not validated.
    """

    def check(spec: Object, path: str) -> Errors:
        from .core.podspec.template import selector_and_template_errors

        return selector_and_template_errors(
            spec.get("selector"), spec["template"], path, noun=noun, always=owner, unusable=unusable
        )

    return check


def immutable_label_selector(new: Object | None, old: Object | None, path: str) -> Errors:
    """A label selector that must not change."""
    if new == old:
        return []
    from .core.podspec.scheduling import format_selector

    return [fe.invalid(path, format_selector(new), "field is immutable")]


def update_strategy(*types: str) -> Callable[[Object, str], Errors]:
    """Return a check of the `type` of an update strategy; the error shows the whole strategy."""

    def check(strategy: Object, path: str) -> Errors:
        if strategy.get("type") in types:
            return []
        return [fe.not_supported(path, format_strategy(strategy), types)]

    return check
