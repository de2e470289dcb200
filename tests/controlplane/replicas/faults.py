"""Faults of replicas, of the servers of their store and of the connections between them."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from .cluster import Cluster, Database, ServerProcess

Fault = Callable[[], AbstractAsyncContextManager[None]]


class FaultInjector:
    """Injects faults one after the other, each for a random time. Everything is healed in between."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.counts: Counter[str] = Counter()
        member = "an etcd member" if cluster.kind == "etcd" else "PostgreSQL"
        self.faults: dict[str, Fault] = {
            "kill a replica": lambda: self._killed(self.rng.choice(self.cluster.replicas)),
            "pause a replica": lambda: self._paused(self.rng.choice(self.cluster.replicas)),
            "cut a replica from the store": self._cut,
            "stall the connections of a replica": self._stalled,
            "stall the responses to a replica": lambda: self._stalled(requests=False),
            "delay the connections of a replica": self._delayed,
            f"kill {member}": lambda: self._killed(self.rng.choice(self.cluster.members)),
            f"pause {member}": lambda: self._paused(self.rng.choice(self.cluster.members)),
            f"cut {member} from all replicas": self._member_cut,
        }

    async def run(self, until: asyncio.Event) -> None:
        """Inject every fault once in random order, and further rounds until the event is set."""
        while True:
            for name in self.rng.sample(list(self.faults), len(self.faults)):
                await self.inject(name)
            if until.is_set():
                return

    async def inject(self, name: str) -> None:
        """Inject a fault, wait and heal it."""
        async with self.faults[name]():
            self.counts[name] += 1
            await asyncio.sleep(self.rng.uniform(0.1, 1.2))
        await asyncio.sleep(self.rng.uniform(0.0, 0.3))

    @asynccontextmanager
    async def _killed(self, process: ServerProcess | Database) -> AsyncIterator[None]:
        # In a thread: a server that is stopped may wait for a message that a proxy has to forward.
        await asyncio.to_thread(process.kill)
        yield
        await process.start()

    @asynccontextmanager
    async def _paused(self, process: ServerProcess | Database) -> AsyncIterator[None]:
        process.send(signal.SIGSTOP)
        yield
        process.send(signal.SIGCONT)

    @asynccontextmanager
    async def _cut(self) -> AsyncIterator[None]:
        proxies = self.rng.choice(self.cluster.replicas).proxies
        for proxy in proxies:
            proxy.cut()
        yield
        for proxy in proxies:
            proxy.restore()

    @asynccontextmanager
    async def _member_cut(self) -> AsyncIterator[None]:
        number = self.rng.randrange(len(self.cluster.members))
        size = len(self.cluster.members)
        proxies = [
            replica.proxies[(number - index) % size] for index, replica in enumerate(self.cluster.replicas)
        ]
        for proxy in proxies:
            proxy.cut()
        yield
        for proxy in proxies:
            proxy.restore()

    @asynccontextmanager
    async def _stalled(self, *, requests: bool = True) -> AsyncIterator[None]:
        proxies = self.rng.choice(self.cluster.replicas).proxies
        for proxy in proxies:
            proxy.stall(requests=requests)
        yield
        # What was held back arrives late, or never.
        reset = self.rng.random() < 0.5
        for proxy in proxies:
            if reset:
                proxy.cut()
            proxy.restore()

    @asynccontextmanager
    async def _delayed(self) -> AsyncIterator[None]:
        proxies = self.rng.choice(self.cluster.replicas).proxies
        for proxy in proxies:
            proxy.delay = self.rng.uniform(0.005, 0.1)
        yield
        for proxy in proxies:
            proxy.restore()
