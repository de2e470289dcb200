"""The forms in which a verb accepts a kind, and the type of objects each form returns.

| form | objects |
|---|---|
| a class: `Deployment` | of that class |
| a `GroupVersionKind`, a `GroupVersionResource`, an `APIResource` from discovery | `Unstructured` |
| a `GroupResource`, in the version that the server prefers | `Unstructured` |
| a name as on the command line: `"deploy"`, `"deployments.apps"` | `Unstructured` |
| `metadata_of(...)` one of these | `PartialObjectMetadata` |
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

import msgspec

from kubewright.api.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.unstructured import Unstructured

from .discovery.api_resource import APIResource

TypedT = TypeVar("TypedT", bound=MetaObject)
ObjectT = TypeVar("ObjectT", bound="MetaObject | Unstructured")
ObjectT_co = TypeVar("ObjectT_co", bound="MetaObject | Unstructured", covariant=True)


class KindReference(Protocol[ObjectT_co]):
    """A value that identifies a kind, with the class that objects of the kind are read as."""

    @property
    def object_class(self) -> type[ObjectT_co]:
        """The class of the objects."""


KindOf = type[ObjectT] | KindReference[ObjectT]
"""Every form of a kind but its name, by the type of its objects: `KindOf[Deployment]`."""
UnstructuredKind = GroupVersionKind | GroupVersionResource | GroupResource | APIResource | str

ALL_NAMESPACES = "*"
"""As a namespace: every namespace, also for a client that has a default namespace."""


class MetadataKind(msgspec.Struct, frozen=True):
    """A kind whose objects are read as `PartialObjectMetadata`; created by `metadata_of`."""

    kind: type[MetaObject] | UnstructuredKind

    @property
    def object_class(self) -> type[PartialObjectMetadata]:
        """The class of the objects."""
        return PartialObjectMetadata


def metadata_of(kind: type[MetaObject] | UnstructuredKind) -> MetadataKind:
    """Request objects of this kind as `PartialObjectMetadata`: less to transfer and to hold in memory."""
    return MetadataKind(kind)


AnyKind = type[MetaObject] | UnstructuredKind | MetadataKind
KIND_FORMS: Final = (
    type,
    GroupVersionKind,
    GroupVersionResource,
    GroupResource,
    APIResource,
    str,
    MetadataKind,
)
"""What a kind is an instance of; everything else is an object."""
AnyObject = MetaObject | Unstructured | dict[str, Any]
ObjectOrKind = MetaObject | Unstructured | dict[str, Any] | AnyKind
