"""The built-in resources as declarations for an API server.

The inventory (`api.builtin`), the schemas and protobuf tables (`api.builtin_schema`) and the rules of each kind
(`controlplane.kinds`) come together here. Everything about a kind is read when it is first used: a server that
is asked for config maps never looks at a StatefulSet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from kubewright.api.builtin import BuiltinResource, resources
from kubewright.api.builtin_schema import as_typed, definition_name, schema_for
from kubewright.api.gvk import GroupVersionKind, version_priority
from kubewright.apiserver.protobuf import builtin_codec
from kubewright.apiserver.resource import (
    PATCH_TYPES,
    Object,
    Resource,
    ScaleSubresource,
    StatusSubresource,
    Subresource,
    Version,
)
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node
from kubewright.schema.version import TooDeepError, Verdict

from .kinds import Kind, KindStrategy, rules_of
from .kinds.printing import CREATED_AT

_ROOT_PREFIXES = frozenset(("apiextensions.k8s.io", "apiregistration.k8s.io"))
"""Groups whose objects are stored under their group; the others' under the bare resource name."""


class TypedChecks:
    """What a typed server does to an object of a built-in kind instead of what a schema would do.

    Stands where `SchemaVersion` stands for custom resources: unknown fields are named and dropped, values are
    brought into canonical form, wrong types raise `TypedError`. Rules beyond types are the strategy's.
    """

    __slots__ = ("__dict__", "gvk")

    def __init__(self, gvk: GroupVersionKind) -> None:
        self.gvk = gvk

    @cached_property
    def node(self) -> Node:
        """The schema, for patches, apply and OpenAPI."""
        return Node(*schema_for(self.gvk))

    @cached_property
    def empty(self) -> Object:
        """What an object without any fields shows: the top-level fields that are never left out."""
        shown: Object = as_typed(self.gvk, {})
        shown.pop("metadata", None)
        return shown

    def decode(self, obj: Object, *, repair: bool = False) -> list[str]:
        """Read an object in place; returns the paths of unknown fields. Raises `TypedError`."""
        try:
            unknown = prune(obj, self.node)
            read = as_typed(self.gvk, obj)
        except RecursionError:
            raise TooDeepError from None
        obj.clear()
        obj.update(read)
        return unknown

    def prune(self, obj: Object) -> list[str]:
        """The same, for objects that came back from admission."""
        return self.decode(obj)

    def default(self, obj: Object) -> None:
        """Defaults of built-in kinds are code: the strategy's."""

    def validate(self, obj: Object, old: Object | None = None) -> Verdict:
        """Types are checked by reading; everything else is the strategy's."""
        return Verdict([], [])

    def validate_status(self, obj: Object, old: Object) -> Verdict:
        """The same for a status."""
        return Verdict([], [])


class BuiltinVersion(Version):
    """A version whose schema is read when somebody asks for it."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Nothing is compiled ahead."""

    @property
    def schema(self) -> Node | None:  # type: ignore[override]
        """The schema of the kind."""
        checks: Any = self.checks
        return checks.node if checks is not None else None

    @schema.setter
    def schema(self, value: Node | None) -> None:
        """Schemas come from the table."""

    @property
    def shown(self) -> Mapping[str, Any]:
        """Fields that objects of the kind never leave out."""
        checks: Any = self.checks
        shown: Object = checks.empty
        return shown

    @property
    def wire(self) -> Any:  # type: ignore[override]
        """The protobuf form of the kind."""
        return builtin_codec()

    @wire.setter
    def wire(self, value: Any) -> None:
        """So do wire formats."""


def builtin_resources(
    kinds: Iterable[BuiltinResource] | None = None,
    *,
    extra_handlers: Mapping[tuple[str, str], Any] | None = None,
) -> list[Resource]:
    """Every built-in resource that is served by default, in discovery order.

    `extra_handlers` gives whole verbs of a resource to functions: (group, plural) to verb to handler.
    """
    rows = [row for row in (kinds if kinds is not None else resources()) if row.served_by_default]
    grouped: dict[tuple[str, str], list[BuiltinResource]] = {}
    for row in rows:
        grouped.setdefault((row.gvk.group, row.plural), []).append(row)
    groups = list(dict.fromkeys(row.gvk.group for row in rows))
    return [
        _resource(
            versions, 17_900 - 50 * groups.index(group), (extra_handlers or {}).get((group, plural)) or {}
        )
        for (group, plural), versions in grouped.items()
    ]


def _resource(rows: list[BuiltinResource], priority: int, handlers: Mapping[str, Any]) -> Resource:
    row = rows[0]
    group = row.gvk.group
    kind = rules_of(group, row.plural) or Kind()
    handlers = {**kind.verbs, **handlers}
    versions = [_version(each, kind) for each in rows]
    hub = kind.hub_version or (
        min((each.name for each in versions), key=version_priority) if len(rows) > 1 else ""
    )
    return Resource(
        group=group,
        kind=row.gvk.kind,
        plural=row.plural,
        versions=versions,
        namespaced=row.namespaced,
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        handlers=handlers,
        patch_types=PATCH_TYPES,
        custom=False,
        strategy=kind.strategy or KindStrategy(),
        converter=kind.converter,
        hub_version=hub,
        storage_version=hub,
        storage_prefix=f"{group}/{row.plural}"
        if group in _ROOT_PREFIXES
        else kind.storage_prefix or row.plural,
        group_priority=priority,
        storage_version_hash="list" in row.verbs,
    )


def _version(row: BuiltinResource, kind: Kind) -> BuiltinVersion:
    version = BuiltinVersion(
        name=row.gvk.version,
        checks=TypedChecks(row.gvk),  # type: ignore[arg-type]
        validates=False,
        published_as=definition_name(row.gvk).rpartition(".")[0],
        columns=kind.columns if kind.columns is not None else CREATED_AT,
        cells=kind.cells,
        subresources=_subresources(row, kind),
        field_selectors=kind.field_selectors,
    )
    adjust = kind.versions.get(version.name)
    if adjust is not None:
        adjust(version)
    return version


def with_checks(declared: Subresource) -> Subresource:
    """A subresource that speaks a built-in kind of its own reads bodies of that kind, in JSON and protobuf."""
    if declared.kind is None or declared.connects or not declared.decodes or declared.checks is not None:
        return declared
    return replace(declared, checks=TypedChecks(declared.kind), wire=builtin_codec())


def _subresources(row: BuiltinResource, kind: Kind) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    for part in row.subresources:
        given = kind.subresources.get(part.name)
        if given is not None:
            found[part.name] = with_checks(given)
        elif part.name == "status":
            found["status"] = StatusSubresource(keeps_metadata=False)
        elif part.name == "scale":
            found["scale"] = ScaleSubresource(wire=builtin_codec())
    return found
