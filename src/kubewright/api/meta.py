"""Metadata that every object shares, and the small types that travel with it.

These mirror `k8s.io/apimachinery` `meta/v1`. Every field may be absent; what is absent is `None`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from .gvk import GroupVersionKind
from .objects import Object, Struct, field
from .times import Time


class OwnerReference(Struct):
    """The object that this one belongs to; the garbage collector follows it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Struct):
    """Which fields one manager owns."""

    manager: str | None = None
    operation: str | None = None
    api_version: str | None = None
    time: Time | None = None
    fields_type: str | None = None
    fields_v1: dict[str, Any] | None = field(default=None, name="fieldsV1")
    subresource: str | None = None


class ObjectMeta(Struct):
    """Identity and bookkeeping of an object."""

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


class ShardInfo(Struct):
    """Which part of a sharded list this is."""

    selector: str | None = None


class ListMeta(Struct):
    """Bookkeeping of a list."""

    self_link: str | None = None
    resource_version: str | None = None
    continue_: str | None = field(default=None, name="continue")
    remaining_item_count: int | None = None
    shard_info: ShardInfo | None = None


class Condition(Struct):
    """One observed aspect of an object's state."""

    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = field(default_factory=str)
    """Always sent, empty or not: definitions and API servers ask for it (a factory is never left out)."""


class LabelSelectorRequirement(Struct):
    """One `matchExpressions` entry: key, operator (In, NotIn, Exists, DoesNotExist), values."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class FieldSelectorRequirement(Struct):
    """One requirement on a field: key, operator (In, NotIn, Exists, DoesNotExist), values."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class GroupResourceRef(Struct):
    """Names a resource inside an object; `gvk.GroupResource` is the same as a value of ours."""

    group: str = ""
    resource: str = ""


class LabelSelector(Struct):
    """A structured label selector; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class ObjectReference(Struct):
    """Points at an object, or at a field inside one."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class StatusCause(Struct):
    """One reason for a failure, with the field it is about."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(Struct):
    """What a failure is about."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class APIStatus(Object):
    """The body of a failure (kind `Status`)."""

    gvk = GroupVersionKind("", "v1", "Status")

    metadata: ListMeta = field(default_factory=ListMeta)
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetails | None = None
    code: int | None = None


class Preconditions(Struct):
    """What must hold for a deletion to happen."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Object):
    """The body of a DELETE."""

    gvk = GroupVersionKind("", "v1", "DeleteOptions")

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class MetaObject(Object):
    """An object with ordinary metadata: every kind that is stored."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """The name in the metadata; empty where there is none yet."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """The namespace in the metadata; empty for objects of the cluster."""
        return self.metadata.namespace or ""


class PartialObjectMetadata(MetaObject):
    """Any object reduced to its metadata; `api_version` and `kind` are those of this representation."""

    gvk = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")


SpecT = TypeVar("SpecT")
StatusT = TypeVar("StatusT")
ItemT = TypeVar("ItemT", bound=Object)
MetaObjectT = TypeVar("MetaObjectT", bound=MetaObject)


class CustomResource(MetaObject, Generic[SpecT, StatusT]):
    """Base of your own kinds: `class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus])`."""

    spec: SpecT
    status: StatusT | None = None


class ObjectList(Object, Generic[ItemT]):
    """A list of objects of one kind."""

    metadata: ListMeta = field(default_factory=ListMeta)
    items: list[ItemT] = field(default_factory=list)
