"""One cluster as an operator sees it: a client that reads from a cache, and that cache.

A manager has one of its own; a program that works on several clusters makes more and adds them to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient, KindOptions
from kubewright.client import Client
from kubewright.client.kinds import Kind


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
        kinds: Mapping[Kind, KindOptions] | None = None,
        allow: Iterable[Kind] = (),
        sync_timeout: float = 120.0,
        **cache_options: Any,
    ) -> None:
        self.name = name
        self.scheme = scheme if scheme is not None else Scheme()
        self.cache = Cache(client, namespaces=namespaces, kinds=kinds, allow=allow, **cache_options)
        self.client: CachedClient = CachedClient.of(client, self.cache)
        """Reads come from the cache and show our own writes; `client.live` asks the server."""
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
