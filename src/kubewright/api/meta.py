"""Types of `meta/v1`: object metadata, lists, conditions, label selectors, status, options.

They correspond to `k8s.io/apimachinery/pkg/apis/meta/v1`. Absent fields are `None`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec import field

from .declaring.status_descriptor import StatusDescriptor
from .gvk import GroupVersionKind
from .objects import Object, Struct
from .presence import always_sent
from .values.times import Time


class OwnerReference(Struct, presence=True):
    """Reference to an owner; an object is garbage collected when none of its owners exists."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Struct):
    """Fields that one manager owns, for server-side apply."""

    manager: str | None = None
    operation: str | None = None
    api_version: str | None = None
    time: Time | None = None
    fields_type: str | None = None
    fields_v1: dict[str, Any] | None = field(default=None, name="fieldsV1")
    subresource: str | None = None


class ObjectMeta(Struct):
    """Metadata of an object."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[ManagedFieldsEntry] | None = None


def revision_number(resource_version: str | None) -> int:
    """Return a resource version as a number; 0 if it is not decimal and so cannot be ordered."""
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0


class ShardInfo(Struct):
    """The shard that a list contains."""

    selector: str | None = None


class ListMeta(Struct):
    """Metadata of a list."""

    self_link: str | None = None
    resource_version: str | None = None
    continue_: str | None = field(default=None, name="continue")
    remaining_item_count: int | None = None
    shard_info: ShardInfo | None = None


class Condition(Struct, presence=True):
    """One aspect of the observed state of an object."""

    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = always_sent("")
    """Required, also if it is empty."""


class LabelSelectorRequirement(Struct, presence=True):
    """One `matchExpressions` entry: key, operator (In, NotIn, Exists, DoesNotExist), values."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class FieldSelectorRequirement(Struct, presence=True):
    """One requirement on a field: key, operator (In, NotIn, Exists, DoesNotExist), values."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class GroupResourceRef(Struct, presence=True):
    """Group and resource as part of an object; `gvk.GroupResource` is the hashable value."""

    group: str = ""
    resource: str = ""


class LabelSelector(Struct):
    """A structured label selector; an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class ObjectReference(Struct):
    """Reference to an object, or to a field of it."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class StatusCause(Struct):
    """One cause of a failure, such as an invalid field."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(Struct):
    """Details of a failure."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class APIStatus(Object):
    """Body of a failed response (kind `Status`)."""

    gvk = GroupVersionKind("", "v1", "Status")

    metadata: ListMeta = field(default_factory=ListMeta)
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetails | None = None
    code: int | None = None


class Preconditions(Struct):
    """Preconditions of a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Object):
    """Body of a DELETE request."""

    gvk = GroupVersionKind("", "v1", "DeleteOptions")

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class MetaObject(Object):
    """An object with `ObjectMeta`: every kind that can be stored."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """The name, or an empty string."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """The namespace, or an empty string."""
        return self.metadata.namespace or ""


class PartialObjectMetadata(MetaObject):
    """An object of any kind, reduced to its metadata; `api_version` and `kind` are those of this type."""

    gvk = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")


SpecT = TypeVar("SpecT")
StatusT = TypeVar("StatusT")
ItemT = TypeVar("ItemT", bound=Object)
MetaObjectT = TypeVar("MetaObjectT", bound=MetaObject)


class CustomResource(MetaObject, Generic[SpecT, StatusT]):
    """Base of custom resources: `class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus])`.

    Reading `status` of an object without one creates an empty status, so its fields can be assigned without a
    check. Declare `CustomResource[GuestbookSpec, GuestbookStatus | None]` to read `None` instead; a status
    type with required fields needs this, because it has no empty value. `None` declares a kind without
    status.
    """

    spec: SpecT
    if TYPE_CHECKING:
        status: StatusT = cast(Any, None)
    else:
        status: StatusT | None = None


setattr(CustomResource, "status", StatusDescriptor(vars(CustomResource)["status"], CustomResource))  # noqa: B010


class ObjectList(Object, Generic[ItemT]):
    """A list of objects of one kind."""

    metadata: ListMeta = field(default_factory=ListMeta)
    items: list[ItemT] = field(default_factory=list)
