"""`RESTMapper`: map a kind, in any of its forms, to the resource that serves it.

Built-in kinds and classes with `@resource` are mapped without a request. All others are looked up in
discovery, which is fetched when it is first needed, and again when a kind is not found: kinds can be added
to a running cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.api.values.times import monotonic_time
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.errors import NoKindMatch
from kubewright.client.kind_types import AnyKind, MetadataKind, UnstructuredKind
from kubewright.client.rest.rest_client import RESTClient

KindT = TypeVar("KindT", bound=AnyKind)

RELOAD_PERIOD = 1.0
"""Minimum seconds between two discovery requests; kinds that do not exist are requested in loops."""


class RESTMapper:
    """The resources of one server by kind."""

    def __init__(self, rest: RESTClient, *, clock: Callable[[], float] = monotonic_time) -> None:
        self._rest = rest
        self._clock = clock
        self._known: dict[AnyKind, APIResource] = {}
        self._known_resources: dict[GroupVersionResource, APIResource] = {}
        """Not part of `_known`: a `GroupVersionKind` and a `GroupVersionResource` can be equal tuples."""
        self._served: list[APIResource] | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[list[APIResource]] | None = None

    def find_cached(self, kind: AnyKind) -> APIResource | None:
        """Return the resource of a kind if that needs no request."""
        if isinstance(kind, MetadataKind):
            kind = kind.kind
        if isinstance(kind, APIResource):
            return kind
        known: dict[Any, APIResource] = (
            self._known_resources if type(kind) is GroupVersionResource else self._known
        )
        found = known.get(kind)
        if found is None:
            found = _without_server(kind)
            if found is not None:
                known[kind] = found
        return found

    async def resource_for(self, kind: AnyKind) -> APIResource:
        """Return the resource of a kind in any form: a class, a `GroupVersionResource`, `"deploy"` and so on.

        Raises `NoKindMatch` if the server does not serve it.
        """
        found = self.find_cached(kind)
        if found is not None:
            return found
        if isinstance(kind, MetadataKind):
            return await self.resource_for(kind.kind)
        wanted = kind.gvk if isinstance(kind, type) else kind
        assert wanted is not None
        fresh = self._served is None
        found = _find(await self._resources(), wanted)
        if found is None and not fresh:
            found = _find(await self.reload(), wanted)
        if found is None:
            raise NoKindMatch(f"the server does not serve {wanted}{self._hint(wanted)}")
        if isinstance(kind, GroupVersionResource):
            self._known_resources[kind] = found
        else:
            self._known[kind] = found
        return found

    async def resources(self) -> list[APIResource]:
        """Return all resources of the server, preferred versions first."""
        return list(await self._resources())

    async def versions_for(self, kind: GroupKind) -> list[str]:
        """Return the served versions of a kind, preferred first."""
        return [each.gvk.version for each in await self._resources() if each.gvk.group_kind == kind]

    async def reload(self) -> list[APIResource]:
        """Fetch discovery again, unless it was fetched within the last second."""
        if self._served is not None and self._clock() - self._read_at < RELOAD_PERIOD:
            return self._served
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        # A cancelled caller must not cancel the request for the others.
        return await asyncio.shield(self._reading)

    def invalidate(self) -> None:
        """Fetch discovery again for the next kind that is not found, because resources have changed."""
        self._read_at = float("-inf")

    def reset(self) -> None:
        """Discard everything that was fetched."""
        self._served = None
        self._known.clear()
        self._known_resources.clear()

    async def _resources(self) -> list[APIResource]:
        return self._served if self._served is not None else await self.reload()

    async def _read(self) -> list[APIResource]:
        from .discovery import discover

        served = await discover(self._rest)
        self._served, self._read_at = served, self._clock()
        self._known = _still_served(self._known, served)
        self._known_resources = _still_served(self._known_resources, served)
        return served

    def _hint(self, wanted: UnstructuredKind) -> str:
        if isinstance(wanted, str | GroupResource | APIResource):
            return ""
        if isinstance(wanted, GroupVersionResource):
            versions = [each.gvr for each in self._served or () if each.plural == wanted.resource]
            found = ", ".join(str(each.group_version) for each in versions)
            return f"; it serves {wanted.resource} in {found}" if versions else "; install its CRD"
        others = [str(each.gvk.api_version) for each in self._served or () if each.gvk.kind == wanted.kind]
        return f"; it serves {wanted.kind} in {', '.join(others)}" if others else "; install its CRD"


def _still_served(known: dict[KindT, APIResource], served: Sequence[APIResource]) -> dict[KindT, APIResource]:
    return {kind: each for kind, each in known.items() if each in served or _without_server(kind) is not None}


def _without_server(kind: AnyKind) -> APIResource | None:
    if isinstance(kind, MetadataKind):
        return _without_server(kind.kind)
    if isinstance(kind, GroupVersionResource):
        row = builtin_resources.resource_at(kind)
        return None if row is None else _from_row(row)
    if isinstance(kind, GroupVersionKind):
        return _of_builtin(kind)
    if isinstance(kind, str | GroupResource):
        return _find(_builtins(), kind)
    if isinstance(kind, APIResource):
        return kind
    from kubewright.api.declaring.declarations import is_resource

    if is_resource(kind):
        return _of_class(kind)
    gvk = getattr(kind, "gvk", None)
    if gvk is None:
        name = getattr(kind, "__name__", repr(kind))
        raise TypeError(
            f"{name} does not declare a kind; add @resource(group=..., version=...) to the class, or pass "
            'a GroupVersionKind or a name such as "deployments.apps"'
        )
    return _of_builtin(gvk)


@cache
def _of_class(cls: type[MetaObject]) -> APIResource:
    from kubewright.api.declaring.declarations import has_status, resource_info

    info = resource_info(cls)
    parts = (("status",) if has_status(cls) else ()) + (("scale",) if info.scale else ())
    return APIResource(
        info.gvk,
        info.plural,
        info.namespaced,
        singular=info.singular,
        short_names=info.short_names,
        categories=info.categories,
        subresources=parts,
    )


@lru_cache(maxsize=1024)
def _of_builtin(gvk: GroupVersionKind) -> APIResource | None:
    row = builtin_resources.resource_of_kind(gvk)
    return None if row is None else _from_row(row)


def _from_row(row: builtin_resources.BuiltinResource) -> APIResource:
    return APIResource(
        row.gvk,
        row.plural,
        row.namespaced,
        singular=row.singular,
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        subresources=tuple(part.name for part in row.subresources),
    )


@cache
def _builtins() -> tuple[APIResource, ...]:
    return tuple(_from_row(row) for row in builtin_resources.resources() if row.served_by_default)


def _find(served: Iterable[APIResource], wanted: UnstructuredKind) -> APIResource | None:
    if isinstance(wanted, GroupVersionKind):
        return next((each for each in served if each.gvk == wanted and each.gvr.group == wanted.group), None)
    if isinstance(wanted, GroupVersionResource):
        return next((each for each in served if each.gvr == wanted), None)
    if isinstance(wanted, GroupResource):
        return next((each for each in served if each.gvr.group_resource == wanted), None)
    if isinstance(wanted, APIResource):
        return wanted
    return next((each for each in served if each.matches(wanted)), None)
