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
from kubewright.client.kind_types import AnyKind, APIResource, MetadataKind, UnstructuredKind
from kubewright.client.listwatch.pager import PAGE_SIZE, ListPager
from kubewright.client.listwatch.raw import RawPage, RawWatch, read_page
from kubewright.client.listwatch.watch import IDLE_TIMEOUT, Watch
from kubewright.client.patches import to_dict
from kubewright.client.wait import WaitPredicate

from .base import (
    JSON,
    METADATA,
    METADATA_LIST,
    TABLE,
    BaseClient,
    Fields,
    Labels,
    ObjectOrKind,
    ResourceLocation,
    class_of,
    decode_object,
    format_field_selector,
    format_label_selector,
    kind_of,
)

TypedT = TypeVar("TypedT", bound=MetaObject)

WATCH_SECONDS = (300, 600)
"""A watch asks the server for an end between these, so that those of many clients do not come together."""


class ReadVerbs(BaseClient):
    """Verbs that change nothing."""

    @overload
    async def get(
        self, kind: type[TypedT], name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> TypedT: ...
    @overload
    async def get(
        self, kind: UnstructuredKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Unstructured: ...
    @overload
    async def get(
        self, kind: MetadataKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> PartialObjectMetadata: ...
    async def get(
        self, kind: AnyKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Any:
        """One object by name; `NotFound` if there is none.

        The namespace of a namespaced kind is the client's own (from the kubeconfig) unless given.
        """
        if not name:
            raise ValueError("get needs a name")
        location = await self.locate(kind, name, namespace)
        call = self.call(
            "get",
            "GET",
            location,
            query={"resourceVersion": resource_version} if resource_version else None,
            accept=METADATA if isinstance(kind, MetadataKind) else JSON,
        )
        answer = await self.send(call)
        return decode_object(answer.body, class_of(kind), location.resource.gvk)

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
    ) -> ListPager[TypedT]: ...
    @overload
    def list(
        self,
        kind: UnstructuredKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ListPager[Unstructured]: ...
    @overload
    def list(
        self,
        kind: MetadataKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ListPager[PartialObjectMetadata]: ...
    def list(
        self,
        kind: AnyKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ListPager[Any]:
        """Objects of a kind: `await` for all of them, `async for` for one after the other.

        In every namespace unless one is given or the client is `namespaced`. `limit` is how many at most;
        pages of `page_size` are fetched behind the scenes.
        """
        cls = class_of(kind)
        resources: dict[str, APIResource] = {}

        async def fetch(size: int, token: str) -> RawPage:
            if not resources:
                resources[""] = (await self.locate(kind, "", namespace, many=True)).resource
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
            return decode_object(raw, cls, resources[""].gvk)

        return ListPager(fetch, decode, page_size=page_size, limit=limit)

    async def list_raw(
        self,
        kind: AnyKind,
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
        location = await self.locate(kind, "", namespace, many=True)
        query: dict[str, str | int | bool | None] = {
            "labelSelector": format_label_selector(labels),
            "fieldSelector": format_field_selector(fields),
            "limit": limit or None,
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        accept = METADATA_LIST if isinstance(kind, MetadataKind) else JSON
        answer = await self.send(
            self.call("list", "GET", location, query=query, accept=accept, timeout=timeout)
        )
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
        kind: UnstructuredKind,
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
        kind: MetadataKind,
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
        kind: AnyKind,
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

        def list_first() -> ListPager[Any]:
            return self.list(kind, namespace, labels=labels, fields=selector)

        async def open_watch(version: str) -> RawWatch:
            resources[""] = (await self.locate(kind, "", namespace, many=True)).resource
            return await self.watch_raw(
                kind, namespace, labels=labels, fields=selector, resource_version=version
            )

        return Watch(
            open_watch,
            lambda raw: decode_object(raw, cls, resources[""].gvk),
            initial=list_first,
            resource_version=resource_version,
            bookmarks=bookmarks,
            resume=resume,
        )

    async def watch_raw(
        self,
        kind: AnyKind,
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
        location = await self.locate(kind, "", namespace, many=True)
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "labelSelector": format_label_selector(labels),
            "fieldSelector": _with_name(name, fields),
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
            "allowWatchBookmarks": bookmarks or None,
            "sendInitialEvents": send_initial_events,
            "timeoutSeconds": timeout_seconds or random.randint(*WATCH_SECONDS),  # noqa: S311
        }
        accept = METADATA if isinstance(kind, MetadataKind) else JSON
        call = self.call("watch", "GET", location, query=query, accept=accept)
        return RawWatch(await self.open(call, idle_timeout), resource_version)

    async def table(
        self, kind: AnyKind, name: str = "", namespace: str | None = None, *, labels: Labels | None = None
    ) -> dict[str, Any]:
        """Objects of a kind, or one of them, as the server prints them for people: a `Table`."""
        location = await self.locate(kind, name, namespace, many=not name)
        query = {"labelSelector": format_label_selector(labels)} if labels else None
        verb = "get" if name else "list"
        answer = await self.send(self.call(verb, "GET", location, query=query, accept=TABLE))
        made: dict[str, Any] = codec.loads(answer.body)
        return made

    @overload
    async def wait(
        self,
        target: type[TypedT] | TypedT,
        name: str = "",
        namespace: str | None = None,
        *,
        until: WaitPredicate,
        timeout: float | None = 30.0,
    ) -> TypedT | None: ...
    @overload
    async def wait(
        self,
        target: UnstructuredKind | Unstructured,
        name: str = "",
        namespace: str | None = None,
        *,
        until: WaitPredicate,
        timeout: float | None = 30.0,
    ) -> Unstructured | None: ...
    async def wait(
        self,
        target: ObjectOrKind,
        name: str = "",
        namespace: str | None = None,
        *,
        until: WaitPredicate,
        timeout: float | None = 30.0,
    ) -> Any:
        """Wait until a predicate (see `waiting`) holds for an object, which is `None` while it is not there.

        Driven by a watch, not by polling. Returns the object for which it held; `TimeoutError` says what the
        object was like at last. Another object of the same name counts as the same.
        """
        kind = kind_of(target)
        location = await self.locate(target, name, namespace)
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(timeout):
                return await self._wait(kind, location, until, last)
        except TimeoutError:
            what = getattr(until, "__name__", repr(until))
            where = (
                f"{location.resource} {location.namespace + '/' if location.namespace else ''}{location.name}"
            )
            raise TimeoutError(
                f"waited {timeout:g} s for {what} of {where}, which {_described(last.get('object'))}"
            ) from None

    async def _wait(
        self, kind: AnyKind, location: ResourceLocation, until: WaitPredicate, last: dict[str, Any]
    ) -> Any:
        namespace = location.namespace or None
        while True:
            try:
                found = await self._find(kind, location)
                last["object"] = found[0]
                if until(last["object"]):
                    return last["object"]
                async with self.watch(
                    kind,
                    location.name,
                    namespace,
                    resource_version=found[1],
                ) as events:
                    async for event in events:
                        last["object"] = None if event.type == "DELETED" else event.object
                        if until(last["object"]):
                            return last["object"]
            except Expired:
                continue

    async def _find(self, kind: AnyKind, location: ResourceLocation) -> tuple[Any, str]:
        """The object or `None`, and the version as of which that is so."""
        try:
            listed = await self.list(
                kind,
                location.namespace or None,
                fields={"metadata.name": location.name},
            )
        except NotFound:
            raise NotFound(f"the server does not serve {location.resource}") from None
        return (listed[0] if listed else None), listed.resource_version


def _with_name(name: str, fields: Fields | None) -> str:
    return ",".join(filter(None, (f"metadata.name={name}" if name else "", format_field_selector(fields))))


def _described(obj: Any) -> str:
    if obj is None:
        return "does not exist"
    status = to_dict(obj).get("status")
    conditions = (status or {}).get("conditions")
    if conditions:
        said = ", ".join(f"{each.get('type')}={each.get('status')}" for each in conditions)
        return f"has conditions {said}"
    return f"has status {status}" if status else "has no status"


__all__ = ["ReadVerbs"]
