"""Build the resources of an API server from the built-in kinds.

Combines the inventory (`api.builtin_resources`), the schemas and protobuf tables (`api.builtin_schemas`) and
the declarations (`controlplane.kinds`). The schema and the declaration of a kind are loaded at their first
use, to keep startup short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

from kubewright.api.builtin.resources import BuiltinResource, resources
from kubewright.api.builtin.schemas import as_typed, definition_name, schema_for
from kubewright.api.builtin.types import types_of
from kubewright.api.gvk import GroupVersionKind, version_priority
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.resources.conversion import NoConversion, VersionConverter
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import PATCH_TYPES, Resource, Version
from kubewright.apiserver.resources.strategy import Strategy
from kubewright.apiserver.resources.subresource import ScaleSubresource, Subresource
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.schema.pruning import Removed, declares, prune
from kubewright.schema.structural import Node
from kubewright.schema.version import TooDeepError, Verdict

from .kinds import Kind, find_kind
from .kinds.core.podspec.clearable_lists import CLEARABLE, keep_empty_list
from .kinds.core.podspec.disabled_features import dropped_features
from .kinds.kind import STATUS
from .kinds.retired_versions import kind_mismatch

_ROOT_PREFIXES = frozenset(("apiextensions.k8s.io", "apiregistration.k8s.io"))
"""Groups whose storage prefix contains the group; that of other groups is the plural name alone."""


class TypedChecks:
    """Decoding of built-in kinds, in place of the `SchemaVersion` of custom resources.

    Removes and reports unknown fields, brings values into canonical form and raises `TypedDecodeError` for
    wrong types. Everything else is validated by the strategy.
    """

    __slots__ = ("__dict__", "gvk", "kubernetes")

    def __init__(self, gvk: GroupVersionKind, kubernetes: KubernetesVersion = NEWEST) -> None:
        self.gvk = gvk
        self.kubernetes = kubernetes

    @cached_property
    def node(self) -> Node:
        """The schema, for patches, apply and OpenAPI."""
        return Node(*schema_for(self.gvk, self.kubernetes))

    @cached_property
    def enabled(self) -> Node:
        """The schema without the fields whose feature gates are disabled."""
        definitions = types_of(self.kubernetes).enabled_definitions
        return Node(definitions[definition_name(self.gvk)], definitions)

    @cached_property
    def clearable(self) -> tuple[tuple[str, ...], ...]:
        """Paths of lists whose absence is not the same as an empty list."""
        return CLEARABLE if self.gvk.kind == "Pod" and not self.gvk.group else ()

    @cached_property
    def drop_features(self) -> Callable[[Object], None] | None:
        """Drops disabled features that are more than a field."""
        return dropped_features(self.gvk.kind, self.kubernetes)

    @cached_property
    def empty(self) -> Object:
        """The top-level fields that an object without any fields has: those that are never omitted."""
        shown: Object = as_typed(self.gvk, {}, self.kubernetes)
        shown.pop("metadata", None)
        return shown

    def decode(self, obj: Object, *, repair: bool = False) -> list[str]:
        """Decode an object in place; return the paths of unknown fields. Raises `TypedDecodeError`."""
        try:
            removed: Removed = []
            unknown = prune(obj, self.enabled, removed=removed)
            has_disabled = any(declares(self.node, path) for path in unknown)
            if has_disabled:  # they must have the right types, and are dropped without a warning
                for holder, name, value in removed:
                    holder[name] = value
                unknown = prune(obj, self.node)
            read = as_typed(self.gvk, obj, self.kubernetes)
            for path in self.clearable:
                keep_empty_list(obj, read, path)
            if self.drop_features is not None:
                self.drop_features(read)
            if has_disabled:
                prune(read, self.enabled)
        except RecursionError:
            raise TooDeepError from None
        obj.clear()
        obj.update(read)
        return unknown

    def prune(self, obj: Object) -> list[str]:
        """Decode an object that admission has changed."""
        return self.decode(obj)

    def default(self, obj: Object) -> None:
        """Do nothing: the strategy applies the defaults of built-in kinds."""

    def validate(self, obj: Object, old: Object | None = None) -> Verdict:
        """Accept everything: decoding checks types, the strategy everything else."""
        return Verdict([], [])

    def validate_status(self, obj: Object, old: Object) -> Verdict:
        """Accept everything, as `validate`."""
        return Verdict([], [])


class _Declaration:
    """The `Kind` of one resource, imported at its first use."""

    def __init__(
        self, row: BuiltinResource, subresources: Mapping[str, Subresource], kubernetes: KubernetesVersion
    ) -> None:
        self.row = row
        self.kubernetes = kubernetes
        self._subresources = subresources

    @cached_property
    def kind(self) -> Kind:
        """The declaration of the kind."""
        return find_kind(self.row.gvk.group_kind, self.row.plural).in_version(self.kubernetes)

    @cached_property
    def converter(self) -> VersionConverter:
        """The conversion between versions."""
        return self.kind.converter or NoConversion(self.row.gvk.group)

    def subresources(self, row: BuiltinResource) -> dict[str, Subresource]:
        """Return the subresources of one version."""
        declared = {**self.kind.subresources, **self._subresources}
        found: dict[str, Subresource] = {}
        for part in row.subresources:
            subresource = declared.get(part.name)
            if subresource is not None:
                found[part.name] = with_checks(subresource, self.kubernetes)
            elif part.name == "status":
                found["status"] = STATUS
            elif part.name == "scale":
                found["scale"] = ScaleSubresource(wire=builtin_codec(self.kubernetes))
        return found


class _OnDemand:
    """Fields that are computed when they are first read, unless they have been assigned.

    The slot of such a field is empty until then, and Python calls `__getattr__` for an empty slot.
    """

    __slots__ = ()
    on_demand: ClassVar[Mapping[str, Callable[[Any], Any]]]

    def defer(self) -> None:
        """Empty the slots of these fields."""
        for name in self.on_demand:
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        compute = self.on_demand.get(name)
        if compute is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = compute(self)
        setattr(self, name, value)
        return value


class BuiltinVersion(_OnDemand, Version):
    """A version whose schema and declaration are loaded at their first use."""

    __slots__ = ("declaration", "row")
    on_demand = MappingProxyType(
        {
            "schema": lambda version: version.checks.node,
            "wire": lambda version: builtin_codec(version.declaration.kubernetes),
            "subresources": lambda version: version.declaration.subresources(version.row),
            "field_selectors": lambda version: version.declaration.kind.field_selectors,
            "cells": lambda version: version.declaration.kind.cells,
            "columns": lambda version: version.declaration.kind.columns,
            "deprecated": lambda version: bool(version.declaration.kind.deprecation),
            "deprecation_warning": lambda version: version.declaration.kind.deprecation,
        }
    )

    def __init__(self, row: BuiltinResource, declaration: _Declaration) -> None:
        self.row = row
        self.declaration = declaration
        super().__init__(
            name=row.gvk.version,
            checks=TypedChecks(row.gvk, declaration.kubernetes),  # type: ignore[arg-type] # has the methods that are called
            validates=False,
            published_as=definition_name(row.gvk).rpartition(".")[0],
        )
        self.defer()

    def __post_init__(self) -> None:
        """Compile nothing in advance."""

    @property
    def shown(self) -> Mapping[str, Any]:
        """Top-level fields that are never omitted, with their empty values."""
        checks: Any = self.checks
        shown: Object = checks.empty
        return shown


class BuiltinDeclaration(_OnDemand, Resource):
    """A built-in resource; its declaration is loaded by the first request that needs it."""

    __slots__ = ("declaration", "extra_handlers", "store")
    on_demand = MappingProxyType(
        {
            "strategy": lambda resource: resource._build_strategy(),
            "converter": lambda resource: resource.declaration.converter,
            "handlers": lambda resource: {**resource.declaration.kind.verbs, **resource.extra_handlers},
            "message_prefix": lambda resource: (
                resource.declaration.kind.display_prefix or resource.storage_prefix
            ),
            "hashed_group_version": lambda resource: resource.declaration.kind.hashed_group_version,
        }
    )

    def __init__(self, declaration: _Declaration, extra_handlers: Mapping[str, Any], **settings: Any) -> None:
        self.declaration = declaration
        self.extra_handlers = extra_handlers
        self.store: ResourceStore | None = None
        super().__init__(**settings)
        self.defer()

    def on_attach(self, store: ResourceStore) -> None:
        """Store the reference for the strategy."""
        self.store = store

    def _build_strategy(self) -> Strategy:
        strategy = self.declaration.kind.build_strategy()
        if self.store is not None:
            strategy.on_attach(self.store)
        return strategy


def builtin_resources(
    kinds: Iterable[BuiltinResource] | None = None,
    *,
    extra_handlers: Mapping[tuple[str, str], Any] | None = None,
    extra_subresources: Mapping[tuple[str, str], Mapping[str, Subresource]] | None = None,
    runtime_config: Mapping[str, bool] | None = None,
    version: KubernetesVersion = NEWEST,
) -> list[Resource]:
    """Return the built-in resources that a version of Kubernetes serves, in discovery order.

    `extra_handlers` replaces verbs of a resource: (group, plural) to verb to handler; `extra_subresources`
    adds subresources to it. `runtime_config` enables or disables versions; see `RuntimeConfig`.
    """
    rows = list(kinds if kinds is not None else resources(version))
    if runtime_config:
        from .configuration.runtime_config import RuntimeConfig

        rows = RuntimeConfig(runtime_config, rows).served()
    else:
        rows = [row for row in rows if row.served_by_default]
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
            version,
        )
        for key, versions in grouped.items()
    ]


def _resource(
    rows: list[BuiltinResource],
    priority: int,
    handlers: Mapping[str, Any],
    subresources: Mapping[str, Subresource],
    kubernetes: KubernetesVersion,
) -> Resource:
    row = rows[0]
    group = row.gvk.group
    declaration = _Declaration(row, subresources, kubernetes)
    hub = ""
    if len(rows) > 1:
        hub = min((each.gvk.version for each in rows), key=version_priority)
    return BuiltinDeclaration(
        declaration,
        handlers,
        group=group,
        kind=row.gvk.kind,
        plural=row.plural,
        versions=[BuiltinVersion(each, declaration) for each in rows],
        namespaced=row.namespaced,
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        patch_types=PATCH_TYPES,
        custom=False,
        hub_version=hub,
        storage_version=hub,
        storage_prefix=_storage_prefix(group, row.plural),
        group_priority=priority,
        storage_version_hash={"list", "watch"} <= set(row.verbs),
        kind_error=kind_mismatch,
    )


def _storage_prefix(group: str, plural: str) -> str:
    return f"{group}/{plural}" if group in _ROOT_PREFIXES else plural


def storage_prefixes() -> dict[str, tuple[str, str]]:
    """Return group and plural name of the built-in resources, by storage prefix."""
    names = [(row.gvk.group, row.plural) for row in resources()]
    # Events and bindings are in two groups; the first one is that of the stored objects.
    return {_storage_prefix(*name): name for name in reversed(names)}


def with_checks(declared: Subresource, kubernetes: KubernetesVersion) -> Subresource:
    """Add decoding of bodies, in JSON or protobuf, to a subresource that has a built-in kind of its own."""
    if declared.kind is None or declared.connects or not declared.decodes or declared.checks is not None:
        return declared
    checks = TypedChecks(declared.kind, kubernetes)
    return replace(declared, checks=checks, wire=builtin_codec(kubernetes))
