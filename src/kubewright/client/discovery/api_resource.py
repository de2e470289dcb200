"""`APIResource`: a resource as a server serves it, and its URL paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from kubewright.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource

if TYPE_CHECKING:
    from kubewright.api.unstructured import Unstructured

_DOTS = (".", "..")


@dataclass(frozen=True)
class APIResource:
    """A resource of an API server, from discovery or from the declaration of its class."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    group_version: GroupVersion | None = None
    """The group and version of the path, where they differ from those of the kind."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def object_class(self) -> type[Unstructured]:
        """The class that clients read objects as."""
        return self.gvk.object_class

    def matches_name(self, name: str) -> bool:
        """Whether a lower-case name refers to this resource: its plural, singular, kind or a short name."""
        return name in (self.plural, self.singular, self.gvk.kind.lower()) or name in self.short_names

    def matches(self, wanted: str) -> bool:
        """Whether a name as on the command line refers to this resource: `deploy`, `deployments.apps`,
        `deployments.v1.apps`.
        """
        name, _, rest = wanted.lower().partition(".")
        version, _, group = rest.partition(".")
        own = self.gvr
        return self.matches_name(name) and (
            not rest or own.group == rest or (own.version == version and own.group == group)
        )

    @cached_property
    def gvr(self) -> GroupVersionResource:
        """Group, version and plural."""
        group, version = self.group_version or self.gvk.group_version
        return GroupVersionResource(group, version, self.plural)

    @cached_property
    def _root(self) -> str:
        return self.gvr.path

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, or of the collection without a name.

        Raises `ValueError` for names that proxies would remove from the path.
        """
        if name in _DOTS or namespace in _DOTS:
            raise ValueError(f"invalid name {name!r} in namespace {namespace!r}: may not be '.' or '..'")
        path = self._root
        if namespace and self.namespaced:
            path = f"{path}/namespaces/{quote(namespace, safe='')}"
        path = f"{path}/{self.plural}"
        if name:
            path = f"{path}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return str(self.gvr.group_resource)
