"""Watch requests: where a stream starts, and which events it carries.

- without a resource version, or with "0": existing objects as ADDED events, then changes;
- with a resource version: changes after it, or an ERROR event with 410 if the watch cache does not reach
  back;
- with `sendInitialEvents`: existing objects, a bookmark that marks their end, then changes.

Initial events of a watch: the existing objects, encoded while the client reads them. The objects of one
revision are read from storage in pages. Storages that keep their values in memory return references, so one
page has all objects; others are read in pages of about 1 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubewright.api.errors import APIError, BadRequest, Expired, NotAcceptable, TooManyRequests
from kubewright.apiserver.authentication.tokens import websocket_protocols
from kubewright.apiserver.encoding.negotiation import JSON, PROTOBUF, YAML
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, WebSocket
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.stored_objects import UndecodableObjects
from kubewright.apiserver.rest.options import (
    ListOptions,
    parse_list_options,
    parse_version,
    watch_list_disabled,
)
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.selection import make_selection
from kubewright.apiserver.watch.watcher import Watcher
from kubewright.storage.contract import Compacted, KeyValue, Page

_STREAMS = ", ".join(f"{media};stream=watch" for media in (JSON, PROTOBUF))


class WatchHandler:
    """Serves watches of a collection or of one object."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Start a watch; the response streams its events."""
        scope = self._scope
        response_format = scope.negotiate(request)
        if response_format.media == YAML:
            raise NotAcceptable(f"only the following media types are accepted: {_STREAMS}")
        options = parse_list_options(request, watch=True)
        if options.send_initial_events is not None and not scope.server.watch_list:
            raise watch_list_disabled()
        selection = make_selection(scope.resource, scope.version, options.labels, options.fields)
        namespace = scope.namespace(info)
        name = info.parts[1] if len(info.parts) > 1 else ""
        if not name and options.fields is not None:
            name = options.fields.exact("metadata.name") or ""
            if name and len(options.fields.terms) == 1 and options.labels is None:
                selection = None
        wanted = parse_version(options.resource_version)
        server = scope.server
        watcher = Watcher(
            scope.store.watch_cache,
            scope.representation(request, response_format),
            namespace=namespace,
            name=name,
            selection=selection,
            after=wanted,
            deadline=server.clock() + (max(options.timeout, 0) or server.rng.uniform(*server.watch_timeout)),
            bookmarks=options.bookmarks,
        )
        initial = options.send_initial_events
        if initial is None:
            initial = not wanted
        try:
            if initial:
                await self._start_with_existing(request, watcher, wanted, options)
            else:
                self._start_at(watcher, wanted)
                self._keep_seats(request, watcher)
        except (Expired, UndecodableObjects) as error:
            watcher.fail(error)
        return _stream(request, watcher, response_format.media)

    def _start_at(self, watcher: Watcher, wanted: int) -> None:
        """Start after a resource version, or with the next change.

        Raises `Expired`, and `UndecodableObjects` for objects whose events the client has not received.
        """
        store = self._scope.store
        cache = store.watch_cache
        namespace, name = watcher.scope
        store.objects.raise_for(
            [error for error in store.objects.in_range(store.range(namespace)) if _is_named(error.key, name)]
        )
        if wanted:
            cache.check_window(wanted)
        else:
            watcher.after = self._scope.server.dispatcher.revision
        cache.attach(watcher)

    def _keep_seats(self, request: HTTPRequest, watcher: Watcher) -> None:
        """Keep the seats of the request until the events that are queued now have been sent."""
        if watcher.pending:
            release = self._scope.server.pipeline.keep_seats(request)
            if release is not None:
                watcher.call_when_sent(release)

    async def _start_with_existing(
        self, request: HTTPRequest, watcher: Watcher, wanted: int, options: ListOptions
    ) -> None:
        """Start with the existing objects, not older than a resource version."""
        server = self._scope.server
        if wanted:
            try:
                await server.dispatcher.wait_for_storage_revision(wanted, server.freshness_timeout)
            except APIError as error:
                watcher.fail(error)
                return
        # Attached before the objects are read, so that no later change is missed.
        watcher.hold()
        self._scope.store.watch_cache.attach(watcher)
        initial = InitialEvents(self._scope, watcher)
        bookmark = options.send_initial_events is True and options.bookmarks
        try:
            await initial.read()
            if initial.is_small:
                async for chunks in initial.events(bookmark):
                    watcher.push_initial(chunks)
            else:
                done = server.pipeline.count_initial_events(request)
                watcher.send_initial(initial.events(bookmark), done)
                return
        except APIError as error:
            if isinstance(error, TooManyRequests):
                watcher.close()
                raise
            watcher.fail(error)
        except BaseException:
            watcher.close()
            raise
        self._keep_seats(request, watcher)
        watcher.release()


def _is_named(key: str, name: str) -> bool:
    return not name or key.rpartition("/")[2] == name


def _stream(request: HTTPRequest, watcher: Watcher, media: str) -> HTTPResponse:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        # As kube-apiserver, accept whatever sub-protocol the client offers: a browser closes a connection
        # whose response has none.
        protocols = websocket_protocols(request)
        if len(protocols) > 1:
            watcher.close()
            raise BadRequest("watches accept one WebSocket sub-protocol")

        async def send_events(socket: WebSocket) -> None:
            async def wait_for_close() -> None:
                while await socket.receive() is not None:
                    pass
                watcher.close()

            closing = asyncio.create_task(wait_for_close())
            try:
                async for chunk in watcher:
                    for line in chunk.splitlines():
                        await socket.send(line.decode())
            except ConnectionError:
                pass
            finally:
                closing.cancel()
                await watcher.aclose()

        return HTTPResponse(101, websocket=send_events, protocols=protocols)
    content_type = media if media == JSON else f"{media};stream=watch"
    return HTTPResponse(200, content_type=content_type, stream=watcher)


SLICE_BYTES = 64 * 1024
"""Bytes of encoded events that are produced before the client must read."""
PAGE_BYTES = 1024 * 1024
_FIRST_PAGE = 64
_LARGEST_PAGE = 500


class InitialEvents:
    """The initial events of one watcher. `read` reads the first page and sets the watcher's revision."""

    def __init__(self, scope: EndpointScope, watcher: Watcher) -> None:
        self._scope = scope
        self._watcher = watcher
        self._page = Page([], 0, False, 0)
        self.is_small = True

    """Whether all events fit into one slice."""

    async def read(self) -> None:
        """Read the first page; the watch continues from its revision."""
        store = self._scope.store
        namespace, name = self._watcher.scope
        if name and (namespace or not self._scope.resource.namespaced):
            # A range of one key: value and revision come from the same read.
            key = store.key(namespace, name)
            page = await store.storage.list(key, limit=1)
            items = [item for item in page.items if item.key == key]
            self._page = Page(items, page.revision, False, 0)
        else:
            limit = 0 if store.storage.shares_values else _FIRST_PAGE
            self._page = await store.storage.list(store.range(namespace), limit=limit)
        self._watcher.after = self._page.revision
        items = self._page.items
        self.is_small = (
            not self._page.more
            and len(items) <= _LARGEST_PAGE
            and sum(len(item.value) for item in items) <= SLICE_BYTES
        )

    async def events(self, bookmark: bool) -> AsyncGenerator[list[bytes]]:
        """Yield encoded ADDED events in slices, then the bookmark that marks their end, if requested."""
        watcher = self._watcher
        while True:
            page = self._page
            last = page.items[-1].key if page.items else ""
            size = sum(len(item.value) for item in page.items) // len(page.items) if page.more else 0
            # The page is consumed from its end, so that values are released as they are sent.
            waiting = (await self._selected(page.items))[::-1]
            page.items.clear()
            while waiting:
                yield await self._encode(waiting)
                if waiting:
                    await asyncio.sleep(0)
            if not page.more:
                break
            await self._read_next(last + "\0", max(min(PAGE_BYTES // (size or 1), _LARGEST_PAGE), 1))
        if bookmark:
            yield [watcher.representation.bookmark(watcher.after, initial=True)]

    async def _read_next(self, start: str, limit: int) -> None:
        store, watcher = self._scope.store, self._watcher
        try:
            self._page = await store.storage.list(
                store.range(watcher.scope[0]), start=start, limit=limit, revision=watcher.after
            )
        except Compacted:
            raise Expired("the initial state was compacted before it was sent; list again") from None

    async def _selected(self, items: list[KeyValue]) -> list[KeyValue]:
        watcher = self._watcher
        name, selection = watcher.scope[1], watcher.selection
        if name:
            items = [item for item in items if item.key.rpartition("/")[2] == name]
        if selection is not None:
            return await self._scope.store.select(items, selection)
        return list(items)

    async def _encode(self, waiting: list[KeyValue]) -> list[bytes]:
        """Encode and remove the next objects, up to the size of a slice."""
        watcher, size = self._watcher, 0
        batch: list[KeyValue] = []
        while waiting and (not batch or size + len(waiting[-1].value) <= SLICE_BYTES):
            item = waiting.pop()
            batch.append(item)
            size += len(item.value)
        representation = watcher.representation
        if representation.direct:
            spliced = [representation.splice(item.value, item.mod_revision) for item in batch]
            if None not in spliced:
                return [b'{"type":"ADDED","object":%b}\n' % each for each in spliced if each is not None]
        objects = await representation.objects_async([(item.value, item.mod_revision) for item in batch])
        return [watcher.encode_object("ADDED", obj) for obj in objects]
