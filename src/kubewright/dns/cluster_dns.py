"""`ClusterDNS`: records, resolver and server together, for `kubewright dns` and `kubewright up`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from kubewright.client import Client

from .records import ClusterRecords
from .resolver import Resolver
from .server import DNSServer
from .upstream import Upstream, system_servers


class ClusterDNS:
    """A DNS server for a cluster. Start and stop it."""

    def __init__(
        self,
        client: Client,
        *,
        host: str,
        port: int = 0,
        domain: str = "cluster.local",
        address: str = "",
        upstreams: Sequence[str] | None = None,
    ) -> None:
        """`address`: the cluster IP of the server. `upstreams`: by default the resolvers of this machine."""
        self._records = ClusterRecords(client)
        servers = system_servers() if upstreams is None else list(upstreams)
        self.server = DNSServer(
            Resolver(self._records, domain=domain, address=address),
            host=host,
            port=port,
            upstream=Upstream(servers) if servers else None,
        )
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Wait until the cache is synced, then listen; raises `OSError`."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._records)
            await self.server.start()
            stack.push_async_callback(self.server.stop)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop serving."""
        await self._stack.aclose()
