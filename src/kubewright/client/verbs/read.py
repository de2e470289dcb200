"""Read verbs: get, list, watch, wait, and the raw forms that caches use.

Permissions: `get` needs get; `list` needs list; `watch` needs watch, and list unless it starts from a
resource version; `wait` needs list and watch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack, overload

from kubewright.api.encoding import codec
from kubewright.api.errors import Expired, NotFound
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import class_of, decode_object, kind_of
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.kind_types import (
    AnyKind,
    KindOf,
    MetadataKind,
    ObjectT,
)
from kubewright.client.patches import to_dict

from .base import JSON, METADATA, METADATA_LIST, TABLE, BaseClient, ResourceLocation

if TYPE_CHECKING:
    from kubewright.client.arguments import GetArguments, ListArguments, WatchArguments
    from kubewright.client.listwatch.pager import ListPager
    from kubewright.client.listwatch.raw import RawPage, RawWatch
    from kubewright.client.listwatch.watch import Watch
    from kubewright.client.selectors import Fields, Labels

PAGE_SIZE = 500
"""Default limit of each request of a list."""
IDLE_TIMEOUT = 150.0
"""Seconds without data after which a connection counts as broken; bookmarks arrive about every minute."""
WATCH_SECONDS = (300, 600)
"""Range of the random `timeoutSeconds` of a watch, so that many watches do not end at the same time."""


class ReadVerbs(BaseClient):
    """Verbs that do not change anything."""

    @overload
    async def get(self, kind: KindOf[ObjectT], name: str, **arguments: Unpack[GetArguments]) -> ObjectT: ...
    @overload
    async def get(self, kind: str, name: str, **arguments: Unpack[GetArguments]) -> Unstructured: ...
    async def get(
        self, kind: Any, name: str, *, namespace: str | None = None, resource_version: str = ""
    ) -> Any:
        """Return one object by name; raise `NotFound` if it does not exist.

        `namespace=None` means the namespace of the client, for `get` and `list` alike: that of `in_namespace`
        or `with_default_namespace`. If none was set, `get` uses the namespace of the kubeconfig.
        """
        if not name:
            raise ValueError("get requires a name")
        return await self._get(kind, name, namespace, resource_version)

    async def _get(self, kind: AnyKind, name: str, namespace: str | None, resource_version: str = "") -> Any:
        location = await self.locate(kind, name, namespace)
        request = self.build_request(
            "get",
            "GET",
            location,
            query={"resourceVersion": resource_version} if resource_version else None,
            accept=METADATA if isinstance(kind, MetadataKind) else JSON,
        )
        response = await self.send(request)
        return decode_object(response.body, class_of(kind), location.resource.gvk)

    @overload
    async def get_or_none(
        self, kind: KindOf[ObjectT], name: str, **arguments: Unpack[GetArguments]
    ) -> ObjectT | None: ...
    @overload
    async def get_or_none(
        self, kind: str, name: str, **arguments: Unpack[GetArguments]
    ) -> Unstructured | None: ...
    async def get_or_none(
        self, kind: Any, name: str, *, namespace: str | None = None, resource_version: str = ""
    ) -> Any:
        """Return one object by name, or `None` if it does not exist."""
        try:
            return await self.get(kind, name, namespace=namespace, resource_version=resource_version)
        except NotFound:
            return None

    @overload
    def list(self, kind: KindOf[ObjectT], **arguments: Unpack[ListArguments]) -> ListPager[ObjectT]: ...
    @overload
    def list(self, kind: str, **arguments: Unpack[ListArguments]) -> ListPager[Unstructured]: ...
    def list(
        self,
        kind: Any,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ListPager[Any]:
        """List objects of a kind: `await` returns all of them, `async for` yields them page by page.

        `namespace=None` means the namespace of the client, for `get` and `list` alike: that of `in_namespace`
        or `with_default_namespace`. If none was set, all namespaces are listed. `limit` is the maximum number
        of objects; `page_size` is the limit of each request.
        """
        from kubewright.client.listwatch.pager import ListPager

        cls = class_of(kind)
        resources: dict[str, APIResource] = {}

        async def fetch(size: int, token: str) -> RawPage:
            if not resources:
                resources[""] = (await self.locate(kind, None, namespace, collection=True)).resource
            return await self.list_raw(
                kind,
                namespace=namespace,
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
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        timeout: float | None = None,
    ) -> RawPage:
        """Return one page as bytes, split into items that are not decoded; `limit` 0 returns everything."""
        from kubewright.client.listwatch.raw import read_page
        from kubewright.client.selectors import format_fields, format_labels

        location = await self.locate(kind, None, namespace, collection=True)
        query: dict[str, str | int | bool | None] = {
            "labelSelector": format_labels(labels),
            "fieldSelector": format_fields(fields),
            "limit": limit or None,
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        accept = METADATA_LIST if isinstance(kind, MetadataKind) else JSON
        request = self.build_request("list", "GET", location, query=query, accept=accept, timeout=timeout)
        return read_page((await self.send(request)).body)

    @overload
    def watch(self, kind: KindOf[ObjectT], **arguments: Unpack[WatchArguments]) -> Watch[ObjectT]: ...
    @overload
    def watch(self, kind: str, **arguments: Unpack[WatchArguments]) -> Watch[Unstructured]: ...
    def watch(
        self,
        kind: Any,
        *,
        name: str | None = None,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> Watch[Any]:
        """Watch objects of a kind: `async for event in client.watch(Pod, namespace="shop")`.

        Starts with the existing objects (as `ADDED`), or after `resource_version`. With `resume`, the watch
        continues after broken connections; `Expired` means that the server no longer has the events in
        between, so list again. `bookmarks` also yields `BOOKMARK` events.
        """
        from kubewright.client.listwatch.watch import Watch
        from kubewright.client.selectors import format_fields

        cls = class_of(kind)
        resources: dict[str, APIResource] = {}
        selector = format_fields(fields, name=name)

        def list_existing() -> ListPager[Any]:
            return self.list(kind, namespace=namespace, labels=labels, fields=selector)

        async def open_watch(version: str) -> RawWatch:
            resources[""] = (await self.locate(kind, None, namespace, collection=True)).resource
            return await self.watch_raw(
                kind, namespace=namespace, labels=labels, fields=selector, resource_version=version
            )

        return Watch(
            open_watch,
            lambda raw: decode_object(raw, cls, resources[""].gvk),
            list_existing=list_existing,
            resource_version=resource_version,
            bookmarks=bookmarks,
            resume=resume,
        )

    async def watch_raw(
        self,
        kind: AnyKind,
        *,
        name: str | None = None,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = True,
        send_initial_events: bool | None = None,
        resource_version_match: str = "",
        timeout_seconds: int | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
    ) -> RawWatch:
        """Send one watch request; its objects stay bytes. It ends when the server ends it."""
        from kubewright.client.listwatch.raw import RawWatch
        from kubewright.client.selectors import format_fields, format_labels

        location = await self.locate(kind, None, namespace, collection=True)
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "labelSelector": format_labels(labels),
            "fieldSelector": format_fields(fields, name=name),
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
            "allowWatchBookmarks": bookmarks or None,
            "sendInitialEvents": send_initial_events,
            "timeoutSeconds": timeout_seconds or random.randint(*WATCH_SECONDS),  # noqa: S311
        }
        accept = METADATA if isinstance(kind, MetadataKind) else JSON
        request = self.build_request("watch", "GET", location, query=query, accept=accept)
        return RawWatch(await self.open_stream(request, idle_timeout), resource_version)

    async def table(
        self,
        kind: AnyKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> dict[str, Any]:
        """Return one object or all objects of a kind as the server prints them: a `meta.k8s.io/v1 Table`."""
        from kubewright.client.selectors import format_labels

        location = await self.locate(kind, name, namespace, collection=not name)
        query = {"labelSelector": format_labels(labels)} if labels else None
        verb = "get" if name else "list"
        response = await self.send(self.build_request(verb, "GET", location, query=query, accept=TABLE))
        table: dict[str, Any] = codec.loads(response.body)
        return table

    @overload
    async def wait(
        self,
        target: KindOf[ObjectT] | ObjectT,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[ObjectT | None], bool],
        timeout: float | None = 30.0,
    ) -> ObjectT | None: ...
    @overload
    async def wait(
        self,
        target: str,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[Unstructured | None], bool],
        timeout: float | None = 30.0,
    ) -> Unstructured | None: ...
    async def wait(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[Any], bool],
        timeout: float | None = 30.0,
    ) -> Any:
        """Wait until a predicate (`condition`, `deleted`, `exists`, `field_is` or a function) holds.

        The predicate gets the object, or `None` while it does not exist; the object for which it holds is
        returned. Uses a watch, not polling. `TimeoutError` reports the last state of the object. An object
        that is deleted and created again counts as the same.
        """
        kind = kind_of(target)
        location = await self.locate(target, name, namespace)
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(timeout):
                return await self._wait(kind, location, until, last)
        except TimeoutError:
            what = getattr(until, "__name__", repr(until))
            raise TimeoutError(
                f"timed out after {timeout:g} s waiting for {what} of {location}, "
                f"which {_describe_state(last.get('object'))}"
            ) from None

    async def _wait(
        self, kind: AnyKind, location: ResourceLocation, until: Callable[[Any], bool], last: dict[str, Any]
    ) -> Any:
        while True:
            try:
                last["object"], version = await self._find(kind, location)
                if until(last["object"]):
                    return last["object"]
                async with self.watch(
                    kind,
                    name=location.name,
                    namespace=location.namespace or None,
                    resource_version=version,
                ) as events:
                    async for event in events:
                        last["object"] = None if event.type == "DELETED" else event.object
                        if until(last["object"]):
                            return last["object"]
            except Expired:
                continue

    async def _find(self, kind: AnyKind, location: ResourceLocation) -> tuple[Any, str]:
        """Return the object or `None`, and the resource version of that state."""
        try:
            objects = await self.list(
                kind, namespace=location.namespace or None, fields={"metadata.name": location.name}
            )
        except NotFound:
            raise NotFound(f"the server does not serve {location.resource}") from None
        return (objects[0] if objects else None), objects.resource_version


def _describe_state(obj: Any) -> str:
    if obj is None:
        return "does not exist"
    status = to_dict(obj).get("status")
    conditions = (status or {}).get("conditions")
    if conditions:
        values = ", ".join(f"{each.get('type')}={each.get('status')}" for each in conditions)
        return f"has conditions {values}"
    return f"has status {status}" if status else "has no status"
