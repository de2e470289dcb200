"""Mapping between Python types and kinds.

A `Scheme` returns the type of a kind, and the kind, plural and scope of a type. Built-in kinds need no
registration; the module of a group version is imported when one of its kinds is first requested. Custom
resources are registered, or found by their `@resource` declaration.

A kind may have several versions. Conversions go through the *hub*: the version with `hub=True`, else the
storage version, else the preferred one (`v2` before `v1` before `v1beta1`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from .builtin import resources as builtin_resources
from .builtin.schemas import module_of
from .declaring.declarations import ResourceInfo, Scale, is_resource, resource_info
from .gvk import GroupKind, GroupVersionKind, version_priority
from .meta import APIStatus, DeleteOptions, ObjectList, PartialObjectMetadata
from .objects import Object

TypeT = TypeVar("TypeT", bound=type[Object])

_SHARED: dict[GroupVersionKind, type[Object]] = {
    APIStatus.gvk: APIStatus,
    DeleteOptions.gvk: DeleteOptions,
    PartialObjectMetadata.gvk: PartialObjectMetadata,
}
"""Kinds without a resource."""


class SchemeError(ValueError):
    """A registration conflicts with another one, or a type has no kind."""


class UnknownKindError(LookupError):
    """No type is registered for a kind."""

    def __init__(self, gvk: GroupVersionKind) -> None:
        super().__init__(f"no type is registered for {gvk}; register one, or use Unstructured")
        self.gvk = gvk


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class Scheme:
    """Types by kind and kinds by type. With `builtins=False` it only contains registered types."""

    def __init__(self, *types: type[Object], builtins: bool = True) -> None:
        self._types: dict[GroupVersionKind, type[Object]] = dict(_SHARED)
        self._builtins = builtins
        self._lists: dict[type[Object], type[Object]] = {}
        self.register(*types)

    def register(self, *types: type[Object]) -> None:
        """Register types by their kind; registering the same type again has no effect.

        Raise `SchemeError` if another type is registered for the kind.
        """
        for cls in types:
            gvk = cls.gvk
            if gvk is None:
                raise SchemeError(f"{_named(cls)} has no kind; add @resource(group=..., version=...)")
            known = self.find(gvk)
            if known is not None and known is not cls:
                raise SchemeError(
                    f"{gvk} is already registered as {_named(known)}; cannot register {_named(cls)}"
                )
            self._types[gvk] = cls

    def add(self, cls: TypeT) -> TypeT:
        """`register` as a class decorator."""
        self.register(cls)
        return cls

    def find(self, gvk: GroupVersionKind) -> type[Object] | None:
        """Return the type of a kind, or `None`."""
        cls = self._types.get(gvk)
        if cls is None and self._builtins and gvk.group_version in builtin_resources.group_versions():
            named: Any = getattr(import_module(module_of(gvk)), gvk.kind, None)
            if getattr(named, "gvk", None) == gvk:
                cls = self._types[gvk] = named
        return cls

    def type_for(self, gvk: GroupVersionKind) -> type[Object]:
        """Return the type of a kind; raise `UnknownKindError` if no type is registered."""
        cls = self.find(gvk)
        if cls is None:
            raise UnknownKindError(gvk)
        return cls

    def gvk_of(self, of: type[Object] | Object | Mapping[str, Any]) -> GroupVersionKind:
        """Return the kind of a type or of an object.

        For unstructured objects and `PartialObjectMetadata` it comes from their apiVersion and kind.
        """
        if isinstance(of, type):
            if of.gvk is None:
                raise SchemeError(f"{_named(of)} has no kind; add @resource(group=..., version=...)")
            return of.gvk
        if isinstance(of, Mapping):
            api_version, kind = of.get("apiVersion") or "", of.get("kind") or ""
        else:
            own = type(of).gvk
            if own is not None and not isinstance(of, PartialObjectMetadata):
                return own
            api_version, kind = of.api_version, of.kind
        if not kind or not api_version:
            raise SchemeError("the object has no apiVersion or kind")
        return GroupVersionKind.from_api_version(api_version, kind)

    def __contains__(self, gvk: object) -> bool:
        return isinstance(gvk, GroupVersionKind) and self.find(gvk) is not None

    def __iter__(self) -> Iterator[GroupVersionKind]:
        """Iterate over registered kinds, used kinds and all built-in kinds that are resources."""
        known = dict.fromkeys(self._types)
        if self._builtins:
            known.update(dict.fromkeys(row.gvk for row in builtin_resources.resources()))
        return iter(known)

    def versions(self, kind: GroupKind) -> tuple[str, ...]:
        """Return the versions of a kind, preferred ones first."""
        found = {gvk.version for gvk in self if gvk.group_kind == kind}
        return tuple(sorted(found, key=version_priority))

    def hub(self, kind: GroupKind) -> GroupVersionKind:
        """Return the hub version of a kind."""
        kinds = [kind.with_version(version) for version in self.versions(kind)]
        if not kinds:
            raise UnknownKindError(GroupVersionKind(kind.group, "", kind.kind))
        declared = [resource_info(cls) for gvk in kinds if is_resource(cls := self.type_for(gvk))]
        for chosen in ([one for one in declared if one.hub], [one for one in declared if one.storage]):
            if len(chosen) > 1:
                both = " and ".join(one.gvk.version for one in chosen)
                raise SchemeError(f"{kind} has two hub or storage versions: {both}; keep one")
            if chosen:
                return chosen[0].gvk
        return kinds[0]

    def info_of(self, of: type[Object] | GroupVersionKind) -> ResourceInfo:
        """Return plural, scope and further properties of a kind that is a resource."""
        gvk = of if isinstance(of, GroupVersionKind) else self.gvk_of(of)
        row = builtin_resources.resource_of_kind(gvk) if self._builtins else None
        if row is not None:
            return _builtin_info(row)
        cls = of if isinstance(of, type) else self.type_for(gvk)
        if not is_resource(cls):
            raise SchemeError(f"{gvk} has no known resource")
        return resource_info(cls)

    def list_type_for(self, of: type[Object] | GroupVersionKind) -> type[Object]:
        """Return the type of lists of a kind: the registered `<Kind>List`, else `ObjectList[...]`."""
        cls = self.type_for(of) if isinstance(of, GroupVersionKind) else of
        found = self._lists.get(cls)
        if found is None:
            found = self.find(self.gvk_of(cls).list_kind()) or ObjectList[cls]  # type: ignore[valid-type]
            self._lists[cls] = found
        return found

    def item_kind_of(self, list_kind: GroupVersionKind) -> GroupVersionKind | None:
        """Return the kind of the items of a list kind, or `None` if it is not the list of a known kind."""
        item = list_kind._replace(kind=list_kind.kind.removesuffix("List"))
        return item if item.kind and item != list_kind and item in self else None


_infos: dict[GroupVersionKind, ResourceInfo] = {}


def _builtin_info(row: builtin_resources.BuiltinResource) -> ResourceInfo:
    info = _infos.get(row.gvk)
    if info is None:
        scale = row.subresource("scale") is not None
        info = _infos[row.gvk] = ResourceInfo(
            gvk=row.gvk,
            plural=row.plural,
            singular=row.singular,
            list_kind=row.gvk.kind + "List",
            scope="Namespaced" if row.namespaced else "Cluster",
            short_names=row.short_names,
            categories=row.categories,
            status=row.subresource("status") is not None,
            scale=Scale(selector=".status.selector") if scale else None,
            served=row.served_by_default,
        )
    return info
