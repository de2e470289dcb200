"""WATCH: where a stream begins, and what it is made of.

- without a version, or "0": the current state as ADDED events, then changes;
- with a version: changes after it, or an ERROR event with 410 if the window does not reach back that far;
- with `sendInitialEvents`: the current state, a bookmark that says it is complete, then changes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Expired, NotAcceptable
from kubewright.apiserver.encoding.negotiation import JSON, PROTOBUF, YAML
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, WebSocket
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.watch.cache import Watcher

from .options import parse_list_options, parse_version
from .selection import selection_of

if TYPE_CHECKING:
    from .endpoint import ResourceEndpoint

_STREAMS = ", ".join(f"{media};stream=watch" for media in (JSON, PROTOBUF))


async def watch_collection(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo
) -> HTTPResponse:
    """Answer a WATCH."""
    server, store = endpoint.server, endpoint.store
    accepted = endpoint.accepted(request)
    if accepted.media == YAML:
        raise NotAcceptable(f"only the following media types are accepted: {_STREAMS}")
    options = parse_list_options(request, watch=True)
    selection = selection_of(endpoint.resource, endpoint.version, options.labels, options.fields)
    namespace = info.namespace if endpoint.resource.namespaced else ""
    name = info.parts[1] if len(info.parts) > 1 else ""
    if not name and options.fields is not None:
        name = options.fields.exact("metadata.name") or ""
        if name and len(options.fields.terms) == 1 and options.labels is None:
            selection = None
    wanted = parse_version(options.resource_version)
    include = endpoint.include(request, accepted)
    representation = store.representation(endpoint.version, accepted, include)
    seconds: float = options.timeout
    if seconds <= 0:
        seconds = server.rng.uniform(*server.watch_timeout)
    watcher = Watcher(
        store.watch_cache,
        representation,
        namespace=namespace,
        name=name,
        selection=selection,
        after=wanted,
        deadline=server.clock() + seconds,
        bookmarks=options.bookmarks,
    )
    initial = options.send_initial_events
    if initial is None:
        initial = not wanted
    if initial:
        if wanted:
            try:
                await server.dispatcher.wait_for_storage_revision(wanted, server.freshness_timeout)
            except APIError as error:
                watcher.fail(error)
                return _stream(request, watcher, accepted.media)
        # Attached before the state is read, so that no change after its revision is missed however long
        # reading and converting take.
        watcher.hold()
        store.watch_cache.attach(watcher)
        try:
            await _send_state(endpoint, watcher, namespace, name)
        except BaseException:
            watcher.close()
            raise
        if options.send_initial_events and options.bookmarks:
            watcher.push_initial([representation.bookmark(watcher.after, initial=True)])
        watcher.release()
        return _stream(request, watcher, accepted.media)
    if not wanted:
        watcher.after = server.dispatcher.revision
    else:
        try:
            store.watch_cache.check(wanted)
        except Expired as error:
            watcher.fail(error)
            return _stream(request, watcher, accepted.media)
    store.watch_cache.attach(watcher)
    return _stream(request, watcher, accepted.media)


async def _send_state(endpoint: ResourceEndpoint, watcher: Watcher, namespace: str, name: str) -> None:
    """Queue the current state as ADDED events; the watch goes on from its revision."""
    store, representation, selection = endpoint.store, watcher.representation, watcher.selection
    prefix = store.range(namespace)
    if name and (namespace or not endpoint.resource.namespaced):
        # A range of one key: value and revision come from the same read.
        key = store.key(namespace, name)
        page = await store.storage.list(key, limit=1)
        watcher.after = page.revision
        items = [item for item in page.items if item.key == key]
    else:
        page = await store.storage.list(prefix)
        watcher.after = page.revision
        items = page.items
        if name:
            items = [item for item in items if item.key.rpartition("/")[2] == name]
    if selection is not None:
        items = [item for item in items if selection.matches(selection.facts(item.value))]
    if representation.direct:
        chunks = []
        for item in items:
            spliced = representation.splice(item.value, item.mod_revision)
            if spliced is None:
                break
            chunks.append(b'{"type":"ADDED","object":%b}\n' % spliced)
        else:
            watcher.push_initial(chunks)
            return
    try:
        objects = await representation.objects_async([(item.value, item.mod_revision) for item in items])
    except APIError as error:
        watcher.fail(error)
        return
    for obj in objects:
        watcher.push_initial([watcher.encode_object("ADDED", obj)])


def _stream(request: HTTPRequest, watcher: Watcher, media: str) -> HTTPResponse:
    if request.headers.get("Upgrade", "").lower() == "websocket":

        async def converse(socket: WebSocket) -> None:
            async def listen() -> None:
                while await socket.receive() is not None:
                    pass
                watcher.close()

            listening = asyncio.create_task(listen())
            try:
                async for chunk in watcher:
                    for line in chunk.splitlines():
                        await socket.send(line.decode())
            except ConnectionError:
                pass
            finally:
                listening.cancel()
                await watcher.aclose()

        return HTTPResponse(101, websocket=converse, protocols=("",))
    content_type = media if media == JSON else f"{media};stream=watch"
    return HTTPResponse(200, content_type=content_type, stream=watcher)
