"""Watch requests: where a stream starts, and which events it carries.

- without a resource version, or with "0": existing objects as ADDED events, then changes;
- with a resource version: changes after it, or an ERROR event with 410 if the watch cache does not reach
  back;
- with `sendInitialEvents`: existing objects, a bookmark that marks their end, then changes.
"""

from __future__ import annotations

import asyncio

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

from .initial_events import InitialEvents

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
