"""The resource of a definition: versions, schemas, subresources, columns, conversion.

Schemas are compiled at the first request that needs them: a server with hundreds of definitions compiles only
those that are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kubewright.api.errors import forbidden
from kubewright.api.values.go_format import quote
from kubewright.api.values.names import check_qualified_name
from kubewright.apiserver.resources.conversion import VersionConverter
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import ALL_VERBS, Resource, TableColumn, Version
from kubewright.apiserver.resources.strategy import Operation, Strategy
from kubewright.apiserver.resources.subresource import ScaleSubresource, StatusSubresource, Subresource
from kubewright.schema.crd.scale import ScalePaths
from kubewright.schema.structural import Node
from kubewright.schema.version import SchemaVersion

from . import conditions
from .conditions import Definition

SERVED_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""Verbs of a custom resource in discovery."""
TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
"""Verbs in discovery of a resource whose definition is being deleted."""
_STANDARD_FINALIZERS: Final = frozenset(("orphan", "foregroundDeletion", "kubernetes"))


class CustomVersion(Version):
    """A version of a custom resource, compiled at first use."""

    __slots__ = ("_compiled", "_declared", "_preserve_unknown")

    def __init__(self, declared: dict[str, Any], *, preserve_unknown: bool = False) -> None:
        self._declared = declared
        self._preserve_unknown = preserve_unknown
        self._compiled: SchemaVersion | None = None
        super().__init__(
            name=declared["name"],
            served=bool(declared.get("served")),
            deprecated=bool(declared.get("deprecated")),
            deprecation_warning=declared.get("deprecationWarning") or "",
            columns=_columns(declared),
            subresources=_subresources(declared),
            field_selectors={
                entry["jsonPath"].removeprefix("."): entry["jsonPath"]
                for entry in declared.get("selectableFields") or ()
            },
        )

    def __post_init__(self) -> None:
        """Compile at first use only."""

    @property
    def checks(self) -> SchemaVersion:
        """The compiled schema."""
        compiled = self._compiled
        if compiled is None:
            schema = (self._declared.get("schema") or {}).get("openAPIV3Schema") or {}
            scale = (self._declared.get("subresources") or {}).get("scale")
            compiled = self._compiled = SchemaVersion(
                schema,
                scale=ScalePaths.of(scale) if scale is not None else None,
                preserve_unknown=self._preserve_unknown or not schema,
            )
        return compiled

    @checks.setter
    def checks(self, value: SchemaVersion | None) -> None:
        """The definition decides."""

    @property
    def schema(self) -> Node:
        """The schema as a graph."""
        return self.checks.node

    @schema.setter
    def schema(self, value: Node | None) -> None:
        """The definition decides."""


def _columns(declared: dict[str, Any]) -> list[TableColumn] | None:
    return [
        TableColumn(
            column.get("name") or "",
            column.get("jsonPath") or "",
            column.get("type") or "",
            format=column.get("format") or "",
            description=column.get("description") or "",
            priority=column.get("priority") or 0,
        )
        for column in declared.get("additionalPrinterColumns") or ()
    ] or None


def _subresources(declared: dict[str, Any]) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    wanted = declared.get("subresources") or {}
    if wanted.get("status") is not None:
        found["status"] = StatusSubresource()
    scale = wanted.get("scale")
    if scale is not None:
        found["scale"] = ScaleSubresource(
            spec_replicas_path=scale.get("specReplicasPath") or "",
            status_replicas_path=scale.get("statusReplicasPath") or "",
            label_selector_path=scale.get("labelSelectorPath") or "",
        )
    return found


class CustomResourceStrategy(Strategy):
    """Strategy of custom resources; rejects creates while the definition is being deleted."""

    runs_in_worker = True

    def __init__(self) -> None:
        self.terminating = False

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Reject creates while the definition is being deleted."""
        if self.terminating:
            text = "create not allowed while custom resource definition is terminating"
            raise forbidden(op.resource.group_resource, op.name, text)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Warn about finalizers without a domain."""
        finalizers = obj["metadata"].get("finalizers")
        if not finalizers:
            return
        known = set((old or {"metadata": {}})["metadata"].get("finalizers") or ())
        for name in sorted(set(finalizers) - known):
            start = f"metadata.finalizers: {quote(name)}: "
            for problem in check_qualified_name(name):
                yield start + problem
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in name else ""
                yield (
                    f"{start}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
                    "with other finalizer writers"
                )


def resource_of_definition(
    crd: Definition, *, schema_revision: int, converter: Callable[[Definition], VersionConverter | None]
) -> Resource:
    """Return the resource of a definition, with its accepted names.

    Objects written up to `schema_revision` are brought up to the present schema when they are read.
    """
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    preserve = bool(spec.get("preserveUnknownFields"))
    versions = [CustomVersion(version, preserve_unknown=preserve) for version in spec["versions"]]
    strategy = CustomResourceStrategy()
    strategy.terminating = conditions.is_terminating(crd)
    return Resource(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec.get("scope") == "Namespaced",
        versions=versions,
        storage_version=next(version["name"] for version in spec["versions"] if version.get("storage")),
        converter=converter(crd),
        strategy=strategy,
        verbs=ALL_VERBS,
        discovery_verbs=SERVED_VERBS,
        schema_revision=schema_revision,
    )
