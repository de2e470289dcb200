"""Connection to a cluster: a cache, and a client that reads from it.

A manager has one; a program for several clusters creates more and adds them to the manager. With leader
election, a *fence* is checked before each attempt to write through `client`, so that a retry of a write that
started before the process was paused is rejected as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar

from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient, KindOptions
from kubewright.cache.informers.resync import RESYNC_SECONDS
from kubewright.cache.read_spans import CacheReadPublisher
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind
from kubewright.client.rest.call_spans import CallPublisher
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.runnable import BaseRunnable
from kubewright.tracing.source import SpanPublisher

from .contexts.unawaited import OperatorClient

_writing: ContextVar[Cluster | None] = ContextVar("kubewright_writing", default=None)
"""The cluster whose client sends a request. Leader election and events are not fenced."""


class Cluster(BaseRunnable):
    """Client and cache of a cluster. A runnable of the manager: its informers run while it runs."""

    needs_leader = False
    group = "caches"

    def __init__(
        self,
        client: Client,
        *,
        name: str = "",
        scheme: Scheme | None = None,
        namespaces: Iterable[str] | None = None,
        kinds: Mapping[AnyKind, KindOptions] | None = None,
        allow: Iterable[AnyKind] = (),
        resync: float = RESYNC_SECONDS,
        sync_timeout: float = 120.0,
    ) -> None:
        self.name = name
        self.scheme = scheme if scheme is not None else Scheme()
        published = [each for each in client.options.interceptors if isinstance(each, CallPublisher)]
        self.calls = published[0] if published else CallPublisher()
        """Publishes spans of requests; that of the client, if it is traced."""
        client = client if published else client.with_interceptor(self.calls)
        self.cache = Cache(client, namespaces=namespaces, kinds=kinds, allow=allow, resync=resync)
        self.fence: Callable[[], None] | None = None
        """Called before each attempt to write; raises to reject it. Set by the manager."""
        client.rest.hooks.append(self._fence_attempt)
        self.cache_reads = CacheReadPublisher(self.cache)
        """Adds cached reads to spans."""
        self.client: CachedClient = OperatorClient.from_client(client, self.cache).with_interceptor(
            self._mark_write
        )
        """Reads from the cache, including own writes; `client.uncached` reads from the API server."""
        self.sync_timeout = sync_timeout

    async def start(self) -> None:
        """Start the registered informers and wait until they have synced."""
        await self.cache.start()

    @property
    def publishers(self) -> tuple[SpanPublisher, ...]:
        """Publishers of requests and of cached reads."""
        return self.calls, self.cache_reads

    async def wait_until_started(self) -> None:
        """Wait until the informers have synced."""
        await self.cache.wait_for_sync(self.sync_timeout)

    async def run(self, stop: asyncio.Event) -> None:
        """Run the informers until `stop` is set."""
        await self.cache.start()
        try:
            await stop.wait()
        finally:
            await self.cache.stop()
            if self.fence is None and self._fence_attempt in self.client.rest.hooks:
                self.client.rest.hooks.remove(self._fence_attempt)

    async def _mark_write(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        if self.fence is None or call.method in ("GET", "HEAD"):
            return await proceed(call)
        token = _writing.set(self)
        try:
            return await proceed(call)
        finally:
            _writing.reset(token)

    def _fence_attempt(self, call: APIRequest) -> None:
        if self.fence is not None and _writing.get() is self:
            self.fence()
