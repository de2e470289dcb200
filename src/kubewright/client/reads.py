"""The reading half of a client: get, list, watch, wait, and their raw forms.

Permissions: `get` needs get; `list` list; `watch` watch, and list unless it starts from a version; `wait`
list and watch.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, TypeVar, overload

from kubewright.api import codec
from kubewright.api.errors import Expired, NotFound
from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.unstructured import Unstructured

from .core import (
    JSON,
    METADATA,
    METADATA_LIST,
    TABLE,
    Core,
    Fields,
    Labels,
    Place,
    Target,
    class_of,
    field_text,
    kind_of,
    label_text,
    read,
)
from .kinds import APIResource, Kind, MetadataOf, NamedKind
from .listing import PAGE_SIZE, Listing
from .patches import plain
from .raw import RawPage, RawWatch, read_page
from .waiting import Predicate
from .watching import IDLE_TIMEOUT, Watch

TypedT = TypeVar("TypedT", bound=MetaObject)

WATCH_SECONDS = (300, 600)
"""A watch asks the server for an end between these, so that those of many clients do not come together."""


class Reader(Core):
    """Verbs that change nothing."""

    @overload
    async def get(
        self, kind: type[TypedT], name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> TypedT: ...
    @overload
    async def get(
        self, kind: NamedKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Unstructured: ...
    @overload
    async def get(
        self, kind: MetadataOf, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> PartialObjectMetadata: ...
    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Any:
        """One object by name; `NotFound` if there is none.

        The namespace of a namespaced kind is the client's own (from the kubeconfig) unless given.
        """
        if not name:
            raise ValueError("get needs a name")
        place = await self.place(kind, name, namespace)
        call = self.call(
            "get",
            "GET",
            place,
            query={"resourceVersion": resource_version} if resource_version else None,
            accept=METADATA if isinstance(kind, MetadataOf) else JSON,
        )
        answer = await self.send(call)
        return read(answer.body, class_of(kind), place.resource.gvk)

    @overload
    def list(
        self,
        kind: type[TypedT],
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listing[TypedT]: ...
    @overload
    def list(
        self,
        kind: NamedKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listing[Unstructured]: ...
    @overload
    def list(
        self,
        kind: MetadataOf,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listing[PartialObjectMetadata]: ...
    def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listing[Any]:
        """Objects of a kind: `await` for all of them, `async for` for one after the other.

        In every namespace unless one is given or the client is `namespaced`. `limit` is how many at most;
        pages of `page_size` are fetched behind the scenes.
        """
        cls = class_of(kind)
        resources: dict[str, APIResource] = {}

        async def fetch(size: int, token: str) -> RawPage:
            if not resources:
                resources[""] = (await self.place(kind, "", namespace, many=True)).resource
            return await self.list_raw(
                kind,
                namespace,
                labels=labels,
                fields=fields,
                limit=size,
                continue_=token,
                resource_version="" if token else resource_version,
                resource_version_match="" if token else resource_version_match,
            )

        def decode(raw: Any, page: RawPage) -> Any:
            return read(raw, cls, resources[""].gvk)

        return Listing(fetch, decode, page_size=page_size, limit=limit)

    async def list_raw(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        timeout: float | None = None,
    ) -> RawPage:
        """One page (all of it with `limit` 0) as bytes: split into items, none of them read."""
        place = await self.place(kind, "", namespace, many=True)
        query: dict[str, str | int | bool | None] = {
            "labelSelector": label_text(labels),
            "fieldSelector": field_text(fields),
            "limit": limit or None,
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        accept = METADATA_LIST if isinstance(kind, MetadataOf) else JSON
        answer = await self.send(self.call("list", "GET", place, query=query, accept=accept, timeout=timeout))
        return read_page(answer.body)

    @overload
    def watch(
        self,
        kind: type[TypedT],
        name: str = "",
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> Watch[TypedT]: ...
    @overload
    def watch(
        self,
        kind: NamedKind,
        name: str = "",
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> Watch[Unstructured]: ...
    @overload
    def watch(
        self,
        kind: MetadataOf,
        name: str = "",
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> Watch[PartialObjectMetadata]: ...
    def watch(
        self,
        kind: Kind,
        name: str = "",
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> Watch[Any]:
        """Changes, as they happen: first what is there now (listed, as `ADDED`), or all since a version.

        Goes on over broken connections; `Expired` when the server has forgotten the version: list again.
        """
        cls = class_of(kind)
        resources: dict[str, APIResource] = {}

        selector = _with_name(name, fields)

        def list_first() -> Listing[Any]:
            return self.list(kind, namespace, labels=labels, fields=selector)

        async def open_watch(version: str) -> RawWatch:
            resources[""] = (await self.place(kind, "", namespace, many=True)).resource
            return await self.watch_raw(
                kind, namespace, labels=labels, fields=selector, resource_version=version
            )

        return Watch(
            open_watch,
            lambda raw: read(raw, cls, resources[""].gvk),
            initial=list_first,
            resource_version=resource_version,
            bookmarks=bookmarks,
            resume=resume,
        )

    async def watch_raw(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        name: str = "",
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = True,
        send_initial_events: bool | None = None,
        resource_version_match: str = "",
        timeout_seconds: int | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
    ) -> RawWatch:
        """One watch request, its objects as bytes; it ends when the server ends it (see `RawWatch`)."""
        place = await self.place(kind, "", namespace, many=True)
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "labelSelector": label_text(labels),
            "fieldSelector": _with_name(name, fields),
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
            "allowWatchBookmarks": bookmarks or None,
            "sendInitialEvents": send_initial_events,
            "timeoutSeconds": timeout_seconds or random.randint(*WATCH_SECONDS),  # noqa: S311
        }
        accept = METADATA if isinstance(kind, MetadataOf) else JSON
        call = self.call("watch", "GET", place, query=query, accept=accept)
        return RawWatch(await self.open(call, idle_timeout), resource_version)

    async def table(
        self, kind: Kind, name: str = "", namespace: str | None = None, *, labels: Labels | None = None
    ) -> dict[str, Any]:
        """Objects of a kind, or one of them, as the server prints them for people: a `Table`."""
        place = await self.place(kind, name, namespace, many=not name)
        query = {"labelSelector": label_text(labels)} if labels else None
        verb = "get" if name else "list"
        answer = await self.send(self.call(verb, "GET", place, query=query, accept=TABLE))
        made: dict[str, Any] = codec.loads(answer.body)
        return made

    @overload
    async def wait(
        self,
        target: type[TypedT] | TypedT,
        name: str = "",
        namespace: str | None = None,
        *,
        until: Predicate,
        timeout: float | None = 30.0,
    ) -> TypedT | None: ...
    @overload
    async def wait(
        self,
        target: NamedKind | Unstructured,
        name: str = "",
        namespace: str | None = None,
        *,
        until: Predicate,
        timeout: float | None = 30.0,
    ) -> Unstructured | None: ...
    async def wait(
        self,
        target: Target,
        name: str = "",
        namespace: str | None = None,
        *,
        until: Predicate,
        timeout: float | None = 30.0,
    ) -> Any:
        """Wait until a predicate (see `waiting`) holds for an object, which is `None` while it is not there.

        Driven by a watch, not by polling. Returns the object for which it held; `TimeoutError` says what the
        object was like at last. Another object of the same name counts as the same.
        """
        kind = kind_of(target)
        place = await self.place(target, name, namespace)
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(timeout):
                return await self._wait(kind, place, until, last)
        except TimeoutError:
            what = getattr(until, "__name__", repr(until))
            where = f"{place.resource} {place.namespace + '/' if place.namespace else ''}{place.name}"
            raise TimeoutError(
                f"waited {timeout:g} s for {what} of {where}, which {_described(last.get('object'))}"
            ) from None

    async def _wait(self, kind: Kind, place: Place, until: Predicate, last: dict[str, Any]) -> Any:
        namespace = place.namespace or None
        while True:
            try:
                found = await self._find(kind, place)
                last["object"] = found[0]
                if until(last["object"]):
                    return last["object"]
                async with self.watch(
                    kind,
                    place.name,
                    namespace,
                    resource_version=found[1],
                ) as events:
                    async for event in events:
                        last["object"] = None if event.type == "DELETED" else event.object
                        if until(last["object"]):
                            return last["object"]
            except Expired:
                continue

    async def _find(self, kind: Kind, place: Place) -> tuple[Any, str]:
        """The object or `None`, and the version as of which that is so."""
        try:
            listed = await self.list(
                kind,
                place.namespace or None,
                fields={"metadata.name": place.name},
            )
        except NotFound:
            raise NotFound(f"the server does not serve {place.resource}") from None
        return (listed[0] if listed else None), listed.resource_version


def _with_name(name: str, fields: Fields | None) -> str:
    return ",".join(filter(None, (f"metadata.name={name}" if name else "", field_text(fields))))


def _described(obj: Any) -> str:
    if obj is None:
        return "does not exist"
    status = plain(obj).get("status")
    conditions = (status or {}).get("conditions")
    if conditions:
        said = ", ".join(f"{each.get('type')}={each.get('status')}" for each in conditions)
        return f"has conditions {said}"
    return f"has status {status}" if status else "has no status"


__all__ = ["Reader"]
