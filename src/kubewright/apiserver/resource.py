"""How a resource is declared: names, versions, conversion, hooks and subresources.

A `Resource` is one kind of stored object in all its versions. Objects are plain dicts (decoded JSON).
A write walks through it like this:

    body in the requested version
      -> prune unknown fields, apply defaults                    (the version's schema)
      -> managedFields, mutating admission, defaults again       (requested version)
      -> the hub version, if the resource names one
      -> Strategy.prepare_for_create / prepare_for_update
      -> schema and metadata validation, Strategy.validate...    (hub version)
      -> Strategy.canonicalize
      -> validating admission                                    (requested version)
      -> the storage version, stored

Without a hub version, hooks and validation see the requested version, which is what custom resource
definitions do. With one, they are written once, for the hub, as in Go API servers.

Every hook may be a plain or an async function. Hooks may change the object they are given in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind, version_priority
from kubewright.schema.structural import Node
from kubewright.schema.version import SchemaVersion

from .conversion import NoConversion, VersionConverter
from .objects import Object
from .strategy import Strategy
from .subresource import Subresource

if TYPE_CHECKING:
    from .http.messages import HTTPResponse
    from .rest.store import ResourceStore


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a Table, as `kubectl get` prints it.

    The fields are those of `kubewright.api.Column`, in the same order. The cell comes from `json_path` (first
    match, formatted according to `type`) or from `value(obj)`.
    """

    name: str
    json_path: str = ""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    value: Callable[[Object], Any] | None = None


@dataclass(slots=True, kw_only=True)
class Version:
    """One version of a resource."""

    name: str
    schema: Node | None = None
    """What objects look like: decides pruning, defaults, validation, patches and apply. `None`: anything
    goes."""
    checks: SchemaVersion | None = None
    """The compiled form of `schema`; made from it when not given."""
    validates: bool = True
    """Whether the schema's own rules are enforced; kinds that are validated by code say no."""
    type: type | None = None
    """The Python class this version was declared with, if any."""
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    """Sent with every request to a deprecated version; made up when empty."""
    columns: Sequence[TableColumn] | None = None
    """Table columns after the name; `None` means just the age."""
    cells: Callable[[Object], list[Any]] | None = None
    """Makes a whole row at once (with the name); `columns` then must include the name's."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    field_selectors: Mapping[str, str | Callable[[Object], str]] = field(default_factory=dict)
    """Selectable fields beyond `metadata.name` and `metadata.namespace`: a label to its dotted path or
    function."""
    wire: Any = None
    """The protobuf table of this kind, where clients may send protobuf."""
    published_as: str = ""
    """What the names of its schemas begin with in OpenAPI (`io.k8s.api.apps.v1`), where they are built in."""

    @property
    def shown(self) -> Mapping[str, Any]:
        """Top-level fields that objects always show, with their empty values; typed kinds have them."""
        return _NOTHING

    def __post_init__(self) -> None:
        if self.checks is None and self.schema is not None:
            self.checks = SchemaVersion(self.schema)
        elif self.schema is None and self.checks is not None:
            self.schema = self.checks.node


_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True, kw_only=True)
class Resource:
    """One kind of object in all its versions."""

    group: str
    kind: str
    plural: str
    versions: Sequence[Version]
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version: str = ""
    """The version that is stored; the preferred one if not given."""
    hub_version: str = ""
    """The version that hooks and validation see; empty: the one requested."""
    converter: VersionConverter | None = None
    strategy: Strategy = field(default_factory=Strategy)
    verbs: tuple[str, ...] = ALL_VERBS
    shown_verbs: tuple[str, ...] | None = None
    """What discovery says instead of `verbs` (a resource on its way out takes more than it shows)."""
    patch_types: tuple[str, ...] = CUSTOM_PATCH_TYPES
    custom: bool = True
    """Follow the manners of custom resources where Kubernetes' own kinds differ: list items carry their kind,
    bodies must name it, unknown subresources answer as unknown objects."""
    storage_prefix: str = ""
    """Where in storage the objects are, after the server's own prefix; `<group>/<plural>` by default."""
    shown_prefix: str = ""
    """What messages say instead of `storage_prefix`."""
    schema_revision: int = 0
    """Objects last written at or before this revision may follow an older schema: they are pruned and
    defaulted when read. Later ones are served as they are stored."""
    group_priority: int = 1000
    version_priority: int = 100
    handlers: Mapping[str, Callable[[Any], Awaitable[HTTPResponse | Object]]] = field(default_factory=dict)
    """Whole verbs answered by a function instead of storage (reviews): verb to handler of a
    SubresourceRequest."""
    body_limit: int = 0
    """Bytes that a body may have; 0: the server's limit."""
    accepting_writes: Callable[[], Exception | None] | None = None
    """Asked before every create; an exception that it returns is raised (a definition being removed)."""
    storage_version_hash: bool = True

    def __post_init__(self) -> None:
        if not self.versions:
            raise ValueError(f"resource {self.plural}.{self.group} has no versions")
        names = [version.name for version in self.versions]
        if len(set(names)) != len(names):
            raise ValueError(f"resource {self.plural}.{self.group} names a version twice: {names}")
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or self.kind + "List"
        self.storage_version = self.storage_version or min(names, key=version_priority)
        for role, name in (("storage", self.storage_version), ("hub", self.hub_version)):
            if name and name not in names:
                raise ValueError(
                    f"{role} version {name!r} of {self.plural}.{self.group} is not among {names}"
                )
        if not self.storage_prefix:
            self.storage_prefix = f"{self.group}/{self.plural}" if self.group else self.plural
        self.shown_prefix = self.shown_prefix or self.storage_prefix
        if self.converter is None:
            self.converter = NoConversion(self.group)

    def attached(self, store: ResourceStore) -> None:
        """Called when a server begins to serve the resource."""
        self.strategy.attached(store)

    @property
    def group_resource(self) -> GroupResource:
        """Group and plural."""
        return GroupResource(self.group, self.plural)

    @property
    def group_kind(self) -> GroupKind:
        """Group and kind."""
        return GroupKind(self.group, self.kind)

    def version(self, name: str) -> Version | None:
        """The version of that name, served or not."""
        for version in self.versions:
            if version.name == name:
                return version
        return None

    def gvk(self, version: str) -> GroupVersionKind:
        """The kind at one version."""
        return GroupVersionKind(self.group, version, self.kind)
