"""The forms in which a verb accepts a kind, and the type of objects each form returns.

| form | objects |
|---|---|
| a class: `Deployment` | of that class |
| a `GroupVersionKind` or a `GroupVersionResource` | `Unstructured` |
| a name as on the command line: `"deploy"`, `"deployments.apps"` | `Unstructured` |
| `metadata_of(...)` one of these | `PartialObjectMetadata` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

TypedT = TypeVar("TypedT", bound=MetaObject)
ObjectT = TypeVar("ObjectT", bound="MetaObject | Unstructured")

UnstructuredKind = GroupVersionKind | GroupVersionResource | str

ALL_NAMESPACES = "*"
"""As a namespace: every namespace, also for a client that has a default namespace."""


@dataclass(frozen=True, slots=True)
class MetadataKind:
    """A kind whose objects are read as `PartialObjectMetadata`; created by `metadata_of`."""

    kind: type[MetaObject] | UnstructuredKind


def metadata_of(kind: type[MetaObject] | UnstructuredKind) -> MetadataKind:
    """Request objects of this kind as `PartialObjectMetadata`: less to transfer and to hold in memory."""
    return MetadataKind(kind)


AnyKind = type[MetaObject] | UnstructuredKind | MetadataKind
AnyObject = MetaObject | Unstructured | dict[str, Any]
ObjectOrKind = MetaObject | Unstructured | dict[str, Any] | AnyKind

__all__ = [
    "ALL_NAMESPACES",
    "AnyKind",
    "AnyObject",
    "MetadataKind",
    "ObjectOrKind",
    "ObjectT",
    "TypedT",
    "UnstructuredKind",
    "metadata_of",
]
