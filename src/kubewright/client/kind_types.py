"""What a verb acts on: a kind of objects, and where a server has it.

Wherever a verb takes a kind, that may be

- a class (`Deployment`): objects are of that class;
- a `GroupVersionKind`, or the text that a person types (`"deploy"`, `"deployments.apps"`): `Unstructured`;
- `metadata_of(...)` one of these: `PartialObjectMetadata`, whatever the kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from kubewright.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

ObjectT = TypeVar("ObjectT", bound="MetaObject | Unstructured")
UnstructuredKind = GroupVersionKind | str

ALL_NAMESPACES = "*"
"""As a namespace: every namespace, also for a client that has a namespace of its own."""


@dataclass(frozen=True, slots=True)
class MetadataKind:
    """A kind of which only metadata is wanted; made by `metadata_of`."""

    kind: type[MetaObject] | GroupVersionKind | str


def metadata_of(kind: type[MetaObject] | GroupVersionKind | str) -> MetadataKind:
    """Ask for objects of this kind as `PartialObjectMetadata`: small on the wire and in memory."""
    return MetadataKind(kind)


AnyKind = type[MetaObject] | GroupVersionKind | str | MetadataKind


@dataclass(frozen=True)
class APIResource:
    """A resource as a server serves it."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    group_version: GroupVersion | None = None
    """Where it is served, if that is not the group and version of its kind."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    def matches_name(self, name: str) -> bool:
        """Whether a person may mean it by this name (in lower case)."""
        return name in (self.plural, self.singular, self.gvk.kind.lower()) or name in self.short_names

    @cached_property
    def gvr(self) -> GroupVersionResource:
        """Group, version and plural."""
        group, version = self.group_version or self.gvk.group_version
        return GroupVersionResource(group, version, self.plural)

    @cached_property
    def _root(self) -> str:
        return self.gvr.path

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of an object, or of the collection when there is no name."""
        path = self._root
        if namespace and self.namespaced:
            path = f"{path}/namespaces/{quote(namespace, safe='')}"
        path = f"{path}/{self.plural}"
        if name:
            path = f"{path}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return str(self.gvr.group_resource)


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[ObjectT]):
    """A change: `ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK` where those were asked for."""

    type: str
    object: ObjectT


AnyObject = MetaObject | Unstructured | dict[str, Any]

__all__ = [
    "ALL_NAMESPACES",
    "APIResource",
    "AnyKind",
    "AnyObject",
    "MetadataKind",
    "ObjectT",
    "UnstructuredKind",
    "WatchEvent",
    "metadata_of",
]
