"""Declaration of resources: names, versions, columns, and what serves them.

A `Resource` is one kind of object in all its versions; its `Strategy` has the hooks, its `Subresource`s the
further endpoints. Objects are plain dicts (decoded JSON). A create or update passes these steps:

    body in the requested version
      -> prune unknown fields, apply defaults                    (the version's schema)
      -> managedFields, mutating admission, defaults again       (requested version)
      -> conversion to the hub version, if the resource has one
      -> Strategy.prepare_for_create / prepare_for_update
      -> schema and metadata validation, Strategy.validate...    (hub version)
      -> Strategy.canonicalize
      -> validating admission                                    (requested version)
      -> conversion to the storage version, stored

Without a hub version, hooks and validation see the requested version, as for CustomResourceDefinitions. With
one, they are written once, for the hub, as in Go API servers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubewright import patch
from kubewright.api.errors import APIError, BadRequest
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind, version_priority
from kubewright.client.discovery.api_resource import APIResource
from kubewright.schema.structural import Node
from kubewright.schema.version import SchemaVersion
from kubewright.storage.contract import Storage

from .conversion import NoConversion, VersionConverter
from .objects import Object
from .strategy import Strategy
from .subresource import Subresource, SubresourceRequest

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPResponse
    from kubewright.apiserver.rest.store import ResourceStore

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (*patch.PATCH_TYPES, APPLY_PATCH)
CUSTOM_PATCH_TYPES = tuple(each for each in PATCH_TYPES if each != STRATEGIC_PATCH)

VerbFunction = Callable[[SubresourceRequest], Awaitable["HTTPResponse | Object"]]
"""Serves a verb; see `Resource.handlers`."""


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
    """Structural schema, for pruning, defaulting, validation, patches and apply; `None` accepts anything."""
    checks: SchemaVersion | None = None
    """The compiled schema; compiled from `schema` if not given."""
    validates: bool = True
    """Whether the schema's rules are enforced; false for kinds that only the strategy validates."""
    type: type | None = None
    """The Python class that declares this version, if any."""
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    """Warning of every request to a deprecated version; generated if empty."""
    columns: Sequence[TableColumn] | None = None
    """Table columns after the name; `None`: the age only."""
    cells: Callable[[Object], list[Any]] | None = None
    """Returns a whole row, including the name; `columns` must then include the name's."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    field_selectors: Mapping[str, str | Callable[[Object], str]] = field(default_factory=dict)
    """Selectable fields besides `metadata.name` and `metadata.namespace`: label to dotted path or
    function."""
    wire: Any = None
    """Protobuf codec of the kind, if clients can use protobuf; `resource_of` sets it for classes with field
    numbers."""
    published_as: str = ""
    """Prefix of the OpenAPI definition names of a built-in version (`io.k8s.api.apps.v1`)."""

    @property
    def shown(self) -> Mapping[str, Any]:
        """Top-level fields that are never omitted, with their empty values; built-in kinds have them."""
        return _NO_FIELDS

    def __post_init__(self) -> None:
        if self.checks is None and self.schema is not None:
            self.checks = SchemaVersion(self.schema)
        elif self.schema is None and self.checks is not None:
            self.schema = self.checks.node


_NO_FIELDS: Mapping[str, Any] = {}


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
    """The version that hooks and validation see; the requested one if empty."""
    converter: VersionConverter | None = None
    strategy: Strategy = field(default_factory=Strategy)
    verbs: tuple[str, ...] = ALL_VERBS
    discovery_verbs: tuple[str, ...] | None = None
    """The verbs in discovery, if not `verbs` (a custom resource that is being removed accepts more)."""
    patch_types: tuple[str, ...] = CUSTOM_PATCH_TYPES
    custom: bool = True
    """Behave like a custom resource where built-in resources differ: list items have a kind, bodies must name
    theirs, unknown subresources respond like unknown objects."""
    storage_prefix: str = ""
    """Storage prefix of the objects, below that of the server; `<group>/<plural>` by default."""
    message_prefix: str = ""
    """Storage prefix in error messages, if not `storage_prefix`."""
    schema_revision: int = 0
    """Objects last written at or before this revision may follow an earlier schema: they are pruned and
    defaulted when they are read. Later ones are served as stored."""
    group_priority: int = 1000
    version_priority: int = 100
    handlers: Mapping[str, VerbFunction] = field(default_factory=dict)
    """Functions that serve verbs instead of storage, such as `create` of a review: verb to function.

    A verb must also be in `verbs`. The function receives a `SubresourceRequest`: `object` is what a `create`,
    `update` or `patch` function stores, pruned, defaulted, admitted and validated, `old_object` the current
    one, which the `get` function or, without one, storage returns. `body` is the decoded body: the object,
    the patch, or the DeleteOptions of a deletion. A dry run of these verbs returns the object without a call;
    dry runs of deletions are rejected. The function returns an object or an `HTTPResponse`; `watch` returns
    an async iterator of `(type, object)`. Without a `watch` function, watches are served from storage. A
    `patch` function requires the verb `get`."""
    backend: Callable[[Resource, Storage, str], Storage] | None = None
    """Returns the storage of the objects if they are in another system: called with the resource, the storage
    of the server and the prefix of the keys of the objects. Watches are served from the storage of the
    server."""
    body_limit: int = 0
    """Maximum size of a body in bytes; 0: the server's limit."""
    accepting_writes: Callable[[], Exception | None] | None = None
    """Called before every create; an exception that it returns is raised (a CRD that is being deleted)."""
    storage_version_hash: bool = True
    """Whether discovery contains the hash of the storage version."""
    hashed_group_version: str = ""
    """The group version in that hash, where kube-apiserver stores another one."""
    kind_error: Callable[[GroupVersionKind, GroupVersionKind], APIError] | None = None
    """Returns the error for a body of another kind: the given and the expected kind. Built-in kinds only."""

    def __post_init__(self) -> None:
        if not self.versions:
            raise ValueError(f"resource {self.plural}.{self.group} has no versions")
        names = [version.name for version in self.versions]
        if len(set(names)) != len(names):
            raise ValueError(f"resource {self.plural}.{self.group} has a duplicate version: {names}")
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or self.kind + "List"
        self.storage_version = self.storage_version or min(names, key=version_priority)
        for role, name in (("storage", self.storage_version), ("hub", self.hub_version)):
            if name and name not in names:
                raise ValueError(
                    f"{role} version {name!r} of {self.plural}.{self.group} is not one of {names}"
                )
        if self.custom and "patch" in self.handlers and "get" not in self.verbs:
            raise ValueError(
                f"the patch function of {self.plural}.{self.group} requires the verb get: patches are "
                "applied to the current object"
            )
        if not self.storage_prefix:
            self.storage_prefix = f"{self.group}/{self.plural}" if self.group else self.plural
        self.message_prefix = self.message_prefix or self.storage_prefix
        if self.converter is None:
            self.converter = NoConversion(self.group)

    def on_attach(self, store: ResourceStore) -> None:
        """Called when a server starts to serve the resource."""
        self.strategy.on_attach(store)

    def kind_mismatch(self, given: GroupVersionKind, wanted: GroupVersionKind) -> APIError:
        """Return the 400 for a body of another kind than `wanted`."""
        if self.kind_error is not None:
            return self.kind_error(given, wanted)
        return BadRequest(
            f'{given.kind} in version "{given.version}" cannot be handled as a {wanted.kind}: '
            f'no kind "{given.kind}" is registered for version "{given.api_version}"'
        )

    @property
    def group_resource(self) -> GroupResource:
        """Group and plural."""
        return GroupResource(self.group, self.plural)

    @property
    def group_kind(self) -> GroupKind:
        """Group and kind."""
        return GroupKind(self.group, self.kind)

    def api_resource(self) -> APIResource:
        """Return the resource as clients address it, in its storage version."""
        gvk = GroupVersionKind(self.group, self.storage_version, self.kind)
        return APIResource(gvk, self.plural, self.namespaced, singular=self.singular, verbs=self.verbs)

    def version(self, name: str) -> Version | None:
        """Return a version by name, served or not."""
        for version in self.versions:
            if version.name == name:
                return version
        return None

    def gvk(self, version: str) -> GroupVersionKind:
        """Return the kind at one version."""
        return GroupVersionKind(self.group, version, self.kind)
