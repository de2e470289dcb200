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

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, version_priority
from kubewright.api.names import check_dns_subdomain
from kubewright.schema.structural import Node
from kubewright.schema.version import SchemaVersion

if TYPE_CHECKING:
    from .request import Request, Response
    from .store import Store
    from .user import User

Object = dict[str, Any]

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
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


@dataclass(slots=True)
class Operation:
    """One write as hooks see it."""

    verb: Literal["create", "update", "patch", "delete"]
    """`patch` covers all four kinds of patches; a create through PUT or apply is `create`."""
    resource: Resource
    version: Version
    """The version that the client speaks."""
    namespace: str
    name: str
    """The name in the URL, or that of the object; empty while a generated name is outstanding."""
    subresource: str
    user: User
    dry_run: bool
    options: Object
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    request: Request | None
    warnings: list[str]
    field_manager: str = ""
    collective: bool = False
    """Part of deleting many, a request that names no object."""
    _undoings: list[Callable[[], Awaitable[object]]] | None = None

    def warn(self, text: str) -> None:
        """Send a `Warning` header, once."""
        if text and text not in self.warnings:
            self.warnings.append(text)

    def undo_with(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Call this if the write comes to nothing after all."""
        self._undoings = [*(self._undoings or ()), undo]

    async def undo(self) -> None:
        """Take back what was done for a write that has come to nothing."""
        undoings, self._undoings = self._undoings or (), None
        for undo in undoings:
            await undo()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that `kubectl get` prints.

    The value comes from `json_path` (first match, printed according to `type`) or from `value(obj)`.
    """

    name: str
    type: str = "string"
    json_path: str = ""
    value: Callable[[Object], Any] | None = None
    format: str = ""
    description: str = ""
    priority: int = 0


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
    columns: Sequence[Column] | None = None
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


class Converter(Protocol):
    """Converts between versions of one resource. Implement `convert` as a plain or an async function."""

    def convert(
        self, objects: list[Object], from_version: str, to_version: str
    ) -> list[Object] | Awaitable[list[Object]]:
        """New objects in `to_version`, in order. The given ones belong to the callee."""


class NoConversion:
    """All versions share one shape; only `apiVersion` differs."""

    def __init__(self, group: str) -> None:
        self.group = group

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Rewrite `apiVersion`."""
        api_version = str(GroupVersion(self.group, to_version))
        for obj in objects:
            obj["apiVersion"] = api_version
        return objects


class HubConverter:
    """Converts through a hub: each other version says how to get to the hub and back.

    `to_hub` and `from_hub` map a version to a function from dict to dict. `apiVersion`, `kind` and
    `metadata` need not be touched: they are carried over.
    """

    def __init__(
        self,
        group: str,
        hub: str,
        to_hub: Mapping[str, Callable[[Object], Object]],
        from_hub: Mapping[str, Callable[[Object], Object]],
    ) -> None:
        self.group = group
        self.hub = hub
        self.to_hub = dict(to_hub)
        self.from_hub = dict(from_hub)

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Convert by way of the hub."""
        steps = []
        if from_version != self.hub:
            steps.append(self.to_hub[from_version])
        if to_version != self.hub:
            steps.append(self.from_hub[to_version])
        api_version = str(GroupVersion(self.group, to_version))
        converted = []
        for obj in objects:
            kind, metadata = obj.get("kind"), obj.get("metadata")
            for step in steps:
                obj = step(obj)
            rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
            converted.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest})
        return converted


class Strategy:
    """What is particular about a resource. Override what differs; the defaults suit custom resources.

    Methods may be async where the signature says `MaybeAwait`.
    """

    allow_create_on_update = False
    """PUT of a missing object creates it."""
    allow_unconditional_update = False
    """PUT without a resourceVersion overwrites whatever is there."""
    checks_whole_on_update = False
    """An update is checked by the rules for new objects, too, which then name bad metadata once more."""
    rechecks_metadata = True
    """The rules of the kind look at the metadata of an update again, and name what is bad about it again."""
    returns_deleted_object = False
    """DELETE answers with the object instead of a Status."""
    row_order: Callable[[Object], Any] | None = None
    """What the rows of tables are sorted by, where that is not the name."""
    annotation_of_whole = ""
    """An annotation that stands for a field of one version: tables, which show no version, leave it out."""
    checks_deletion_itself = False
    """Preconditions of a deletion that fail are told in the words of kinds with a deletion of their own."""
    default_propagation: Literal["Background", "Orphan", "Foreground", "Unsupported"] = "Background"
    """What happens to dependents where nobody says; objects of some kinds have none (`Unsupported`)."""
    ttl: int | None = None
    """Seconds after which objects vanish (events)."""
    track_managed_fields = True
    error_group: str | None = None
    """The group that errors name, where it is not the resource's own."""
    status_fields: tuple[str, ...] = ("status",)
    """Top-level fields that belong to the `status` subresource where the version has one."""
    status_subresources: tuple[str, ...] = ("status",)
    """Subresources through which those fields may be written."""
    status_on_create = False
    """Whether a new object may bring its status along (nodes do)."""

    def attached(self, store: Store) -> None:
        """Called when a server begins to serve the resource, for strategies that look at other objects."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """What is wrong with a name (`prefix`: with a generateName); DNS-1123 subdomains by default."""
        return check_dns_subdomain(name, prefix=prefix)

    def validate_finalizers(self, finalizers: Sequence[str]) -> Iterable[FieldError]:
        """What is wrong with finalizers, beyond that they are qualified names."""
        return ()

    def prepare_for_create(self, op: Operation, obj: Object) -> MaybeAwait:
        """Drop what clients may not set, fill in what the server decides."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> MaybeAwait:
        """The same for an update. `status` is already taken from `old` where it has its own subresource."""

    def initial_generation(self, obj: Object) -> int | None:
        """The generation of a new object; `None` leaves what the client sent."""
        return 1

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whether this update is a new generation: anything outside metadata and status, by default."""
        skip = {"metadata", "apiVersion", "kind"}
        if "status" in op.version.subresources:
            skip.update(self.status_fields)
        keys = (obj.keys() | old.keys()) - skip
        return any(obj.get(key) != old.get(key) for key in keys)

    def default(self, version: Version, obj: Object) -> None:
        """Defaults that a schema cannot express; runs after the schema's, on an object of that version."""

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Errors of a new object, beyond its schema."""
        return ()

    def validate_update(
        self, op: Operation, obj: Object, old: Object
    ) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Errors of an update, beyond the schema."""
        return ()

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Warnings about a valid object."""
        return ()

    def canonicalize(self, obj: Object) -> None:
        """Bring a valid object into its stored form."""

    graceful = False
    """Whether DELETE may leave the object for a while (`grace_period`)."""

    def row_conditions(self, obj: Object) -> list[Object]:
        """What tables say about an object beside its cells."""
        return []

    def grace_period(self, op: Operation, obj: Object, requested: int | None) -> int:
        """Seconds between DELETE and removal; 0 removes at once. Pods are why this exists."""
        return 0

    def deletion_asked(self, op: Operation) -> None:
        """Before anything is looked for: somebody asks to delete one object or many (then without a name)."""

    def before_delete(self, op: Operation, obj: Object) -> MaybeAwait:
        """Change an object that stays for finalizers or grace; may also add finalizers."""

    def may_vanish(self, obj: Object) -> bool:
        """Whether an object that is being deleted may go once its finalizers are gone (namespaces have
        more)."""
        return True

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Fields, as dotted paths, that managers never own through this endpoint."""
        return ("metadata", "spec") if subresource == "status" else ("status",)

    def stored(self, op: Operation, obj: Object, old: Object | None) -> MaybeAwait:
        """Called after a write has been stored (`obj` with its resourceVersion); not on dry runs."""

    def deleted(self, op: Operation, obj: Object) -> MaybeAwait:
        """Called after an object has been removed from storage."""


MaybeAwait = Awaitable[None] | None


@dataclass(slots=True)
class SubresourceRequest:
    """A request to a custom subresource. `store` reads and writes the parent."""

    request: Request
    resource: Resource
    version: Version
    store: Store
    namespace: str
    name: str
    subresource: str
    path: str
    """What follows the subresource in the URL, for handlers that proxy."""
    body: Object | None
    """The decoded body of POST and PUT, if `Subresource.decodes` is set and there is one."""
    operation: Operation

    async def get(self) -> Object:
        """The parent in the requested version; raises `NotFound`."""
        return await self.store.get_object(self.version, self.namespace, self.name)


SubresourceHandler = Callable[[SubresourceRequest], Awaitable["Response | Object"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A custom subresource: `handler` answers with an object, or with a `Response` (stream, WebSocket).

    `kind` is what it speaks, for discovery; `None` means the parent's own kind.
    """

    handler: SubresourceHandler | None = None
    verbs: tuple[str, ...] = ("get",)
    kind: GroupVersionKind | None = None
    decodes: bool = True
    connects: bool = False
    """Whether admission sees it as CONNECT (exec, proxy) and the request may run for long."""
    status_code: int = 200
    """Of an object answered to POST; 201 where it is a creation."""
    wire: Any = None
    checks: Any = None
    """Reads bodies of `kind` (as `SchemaVersion.decode` does); without it, they are taken as they come."""
    prepare: Callable[[SubresourceRequest], Awaitable[None]] | None = None
    """Fills in what admission is to see of a POST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSubresource(Subresource):
    """`/status`: reads the object, writes only its status. `preserve` names what an update keeps from the old
    object besides; by default everything outside the status fields and managedFields."""

    verbs: tuple[str, ...] = ("get", "patch", "update")
    keeps_metadata: bool = True
    """Whether labels, annotations and the rest of metadata stay as they were (custom resources)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSubresource(Subresource):
    """`/scale`: an `autoscaling/v1` Scale read from and written to dotted paths of the parent."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ""
    selector: Callable[[Object], str] | None = None
    """The selector as text, where it is not simply a string at `label_selector_path`."""
    default_replicas: int | None = None
    """What an absent replica count means; `None` makes reading it an error, as for custom resources."""
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = SCALE


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
    converter: Converter | None = None
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
    handlers: Mapping[str, Callable[[Any], Awaitable[Response | Object]]] = field(default_factory=dict)
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

    def attached(self, store: Store) -> None:
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
