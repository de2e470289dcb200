"""The built-in resources as declarations for an API server.

The inventory (`api.builtin_resources`), the schemas and protobuf tables (`api.builtin_schemas`) and the rules
of each kind (`controlplane.kinds`) are combined here. Everything about a kind is loaded at its first use: a
server that only serves config maps never loads StatefulSet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from kubewright.api.builtin_resources import BuiltinResource, resources
from kubewright.api.builtin_schemas import as_typed, definition_name, schema_for
from kubewright.api.gvk import GroupVersionKind, version_priority
from kubewright.apiserver.protobuf import builtin_codec
from kubewright.apiserver.resource import (
    PATCH_TYPES,
    Converter,
    NoConversion,
    Object,
    Resource,
    ScaleSubresource,
    StatusSubresource,
    Strategy,
    Subresource,
    Version,
)
from kubewright.apiserver.store import Store
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node
from kubewright.schema.version import TooDeepError, Verdict

from .kinds import Kind, KindStrategy, rules_of

_ROOT_PREFIXES = frozenset(("apiextensions.k8s.io", "apiregistration.k8s.io"))
"""Groups whose objects are stored under their group; the others' under the bare resource name."""


_SHOWN_PREFIXES: Final = {
    "replicationcontrollers": "controllers",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "services": "services/specs",
    "ingresses": "ingress",
}
"""What messages call the place of objects that Kubernetes keeps under an older name."""


class TypedChecks:
    """What a typed server does to an object of a built-in kind instead of what a schema would do.

    Stands where `SchemaVersion` stands for custom resources: unknown fields are named and dropped, values are
    brought into canonical form, wrong types raise `TypedDecodeError`. Rules beyond types are the strategy's.
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
        """Read an object in place; returns the paths of unknown fields. Raises `TypedDecodeError`."""
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


class _Rules:
    """The rules of one kind and what follows from them, loaded at the first question."""

    def __init__(self, row: BuiltinResource, subresources: Mapping[str, Subresource]) -> None:
        self.row = row
        self._given = subresources

    def subresources(self, row: BuiltinResource) -> dict[str, Subresource]:
        """The subresources of one version."""
        return _subresources(row, {**self.kind.subresources, **self._given})

    @cached_property
    def kind(self) -> Kind:
        """The kind's rules; an empty set where there are none."""
        return rules_of(self.row.gvk.group, self.row.plural) or Kind()

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy of the kind."""
        strategy = self.kind.strategy or KindStrategy()
        plural = self.row.plural
        strategy.checks_whole_on_update = plural in _CHECKED_WHOLE_ON_UPDATE
        strategy.rechecks_metadata = plural not in _NOT_RECHECKED
        if isinstance(strategy, KindStrategy):
            strategy.any_finalizer = plural in _ANY_FINALIZER
        return strategy

    @cached_property
    def converter(self) -> Converter:
        """Between versions."""
        return self.kind.converter or NoConversion(self.row.gvk.group)


_CHECKED_WHOLE_ON_UPDATE: Final = frozenset(
    (
        *("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
        *("configmaps", "endpoints", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes"),
        *("pods", "secrets", "serviceaccounts", "controllerrevisions", "jobs", "ingressclasses", "ingresses"),
        *("csistoragecapacities", "storageclasses", "volumeattributesclasses", "runtimeclasses"),
        *("deviceclasses", "resourceclaims", "resourceclaimtemplates"),
    )
)
"""Kinds whose update runs through the rules for new objects as well."""
_NOT_RECHECKED: Final = frozenset(("events", "poddisruptionbudgets"))
"""Kinds whose own rules do not look at metadata."""
_ANY_FINALIZER: Final = _NOT_RECHECKED | frozenset(
    (
        *("leases", "runtimeclasses", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    )
)
"""Kinds whose finalizers need no domain."""

_DEPRECATED: Final = {
    ("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Kinds whose every use is answered with a warning."""


class _Late:
    """An attribute of a declaration that is worked out when it is first read, unless it has been set.

    While the declaration is being made it is neither.
    """

    def __init__(self, work_out: Callable[[Any], Any]) -> None:
        self._work_out = work_out

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        late = instance.late
        if not getattr(instance, "ready", False):
            return late
        if self._name not in late:
            late[self._name] = self._work_out(instance)
        return late[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        if getattr(instance, "ready", False):
            instance.late[self._name] = value


class BuiltinVersion(Version):
    """A version whose schema and rules are read when somebody asks for them."""

    __slots__ = ("late", "ready", "row", "rules")

    def __init__(self, row: BuiltinResource, rules: _Rules) -> None:
        self.late: dict[str, Any] = {}
        self.row = row
        self.rules = rules
        super().__init__(
            name=row.gvk.version,
            checks=TypedChecks(row.gvk),  # type: ignore[arg-type]
            validates=False,
            published_as=definition_name(row.gvk).rpartition(".")[0],
        )
        self.deprecation_warning = _DEPRECATED.get((row.gvk.group, row.plural), "")
        self.deprecated = bool(self.deprecation_warning)
        self.ready = True

    def __post_init__(self) -> None:
        """Nothing is compiled ahead."""

    schema = _Late(lambda version: version.checks.node)
    wire = _Late(lambda version: builtin_codec())
    subresources = _Late(lambda version: version.rules.subresources(version.row))
    field_selectors = _Late(lambda version: version.rules.kind.field_selectors)
    cells = _Late(lambda version: version.rules.kind.cells)
    columns = _Late(lambda version: version.rules.kind.columns)

    @property
    def shown(self) -> Mapping[str, Any]:
        """Fields that objects of the kind never leave out."""
        checks: Any = self.checks
        shown: Object = checks.empty
        return shown


class BuiltinDeclaration(Resource):
    """A built-in resource; its rules are loaded with the first request that needs them."""

    __slots__ = ("given", "late", "ready", "rules", "store")

    def __init__(self, rules: _Rules, given: Mapping[str, Any], **settings: Any) -> None:
        self.late: dict[str, Any] = {}
        self.rules = rules
        self.given = given
        self.store: Store | None = None
        super().__init__(**settings)
        self.ready = True

    strategy = _Late(lambda resource: resource._attach())
    converter = _Late(lambda resource: resource.rules.converter)
    handlers = _Late(lambda resource: {**resource.rules.kind.verbs, **resource.given})

    def attached(self, store: Store) -> None:
        """The strategy is told when it is loaded."""
        self.store = store

    def _attach(self) -> Strategy:
        strategy: Strategy = self.rules.strategy
        if self.store is not None:
            strategy.attached(self.store)
        return strategy


def builtin_resources(
    kinds: Iterable[BuiltinResource] | None = None,
    *,
    extra_handlers: Mapping[tuple[str, str], Any] | None = None,
    extra_subresources: Mapping[tuple[str, str], Mapping[str, Subresource]] | None = None,
) -> list[Resource]:
    """Every built-in resource that is served by default, in discovery order.

    `extra_handlers` gives whole verbs of a resource to functions: (group, plural) to verb to handler;
    `extra_subresources` adds subresources to it.
    """
    rows = [row for row in (kinds if kinds is not None else resources()) if row.served_by_default]
    grouped: dict[tuple[str, str], list[BuiltinResource]] = {}
    for row in rows:
        grouped.setdefault((row.gvk.group, row.plural), []).append(row)
    groups = list(dict.fromkeys(row.gvk.group for row in rows))
    return [
        _resource(
            versions,
            17_900 - 50 * groups.index(key[0]),
            (extra_handlers or {}).get(key) or {},
            (extra_subresources or {}).get(key) or {},
        )
        for key, versions in grouped.items()
    ]


def _resource(
    rows: list[BuiltinResource],
    priority: int,
    handlers: Mapping[str, Any],
    subresources: Mapping[str, Subresource],
) -> Resource:
    row = rows[0]
    group = row.gvk.group
    rules = _Rules(row, subresources)
    hub = ""
    if len(rows) > 1:
        hub = min((each.gvk.version for each in rows), key=version_priority)
    return BuiltinDeclaration(
        rules,
        handlers,
        group=group,
        kind=row.gvk.kind,
        plural=row.plural,
        versions=[BuiltinVersion(each, rules) for each in rows],
        namespaced=row.namespaced,
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        patch_types=PATCH_TYPES,
        custom=False,
        hub_version=hub,
        storage_version=hub,
        storage_prefix=f"{group}/{row.plural}" if group in _ROOT_PREFIXES else row.plural,
        shown_prefix=_SHOWN_PREFIXES.get(row.plural, ""),
        group_priority=priority,
        storage_version_hash={"list", "watch"} <= set(row.verbs),
    )


def with_checks(declared: Subresource) -> Subresource:
    """A subresource that speaks a built-in kind of its own reads bodies of that kind, in JSON or protobuf."""
    if declared.kind is None or declared.connects or not declared.decodes or declared.checks is not None:
        return declared
    return replace(declared, checks=TypedChecks(declared.kind), wire=builtin_codec())


def _subresources(row: BuiltinResource, declared: Mapping[str, Subresource]) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    for part in row.subresources:
        given = declared.get(part.name)
        if given is not None:
            found[part.name] = with_checks(given)
        elif part.name == "status":
            found["status"] = StatusSubresource(keeps_metadata=False)
        elif part.name == "scale":
            found["scale"] = ScaleSubresource(wire=builtin_codec())
    return found
