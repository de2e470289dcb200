"""One cluster as an operator sees it: a client that reads from a cache, and that cache.

A manager has one of its own; a program that works on several clusters makes more and adds them to it. Where
there is a leader election, a *fence* is asked before each attempt to write through `client`, so a retry of a
write that began before the process was paused is refused as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient, KindOptions
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream

_writing: ContextVar[Cluster | None] = ContextVar("kubewright_writing", default=None)
"""Whose client a request is made with: election and events use the same connection and are not fenced."""


class Cluster:
    """A connection to a cluster and what is kept of it. A runnable: the cache follows while it runs."""

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
        sync_timeout: float = 120.0,
        **cache_options: Any,
    ) -> None:
        self.name = name
        self.scheme = scheme if scheme is not None else Scheme()
        self.cache = Cache(client, namespaces=namespaces, kinds=kinds, allow=allow, **cache_options)
        self.fence: Callable[[], None] | None = None
        """Asked before each attempt to write; raises to refuse it. The manager sets it for an election."""
        client.rest.hooks.append(self._fence_attempt)
        self.client: CachedClient = CachedClient.from_client(client, self.cache).with_interceptor(
            self._mark_write
        )
        """Reads come from the cache and show our own writes; `client.uncached` asks the server."""
        self.sync_timeout = sync_timeout

    async def start(self) -> None:
        """Begin to follow what has been asked for so far, and wait until that is in step."""
        await self.cache.start()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop` is set."""
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
