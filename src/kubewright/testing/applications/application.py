"""`FakeApplication`: an application behind a Service, with replicas, a state and faults.

A subclass implements a protocol (`FakeHTTP`, `FakeSQL`). A *replica* has its own data and can fail alone. The
*state* of the application is a text that a script sets, and on which responses can depend.

| fault, of the application or of a replica | effect |
|---|---|
| `slow(seconds)` | every call takes longer |
| `reject()` | connections are rejected, existing ones are closed |
| `lie()` | writes are acknowledged and not stored, reads return what was true before the last write |
| `restart()` | connections are closed; data that is not persistent is lost |
| `recover()` | ends all faults |

The same object serves in two places: on ports of this machine (`served`), for operators, tests and the
processes of `kubewright up --run-processes`, and in memory, in the event loop of `kubewright explore` and
`kubewright plan`. There its host names are those of the Service: `db`, `db.shop`, `db.shop.svc`, and
`db-0.db.shop.svc` for a replica. `db-primary.shop.svc` is any replica with the role `primary`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.client import Client


class CallFailed(Exception):
    """A call ends with an error of the application."""

    def __init__(self, message: str, status: int = 503) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class FakeCall:
    """One request or statement, before it is done."""

    application: FakeApplication
    replica: FakeReplica
    operation: str
    """What is called, such as `GET /health`."""
    is_read: bool
    process: object = None
    """The simulated process that calls; `None` outside of a simulation."""


Observer = Callable[[FakeCall], AbstractAsyncContextManager[None]]
"""Surrounds each call, and can inject faults; raises `CallFailed`, or `ConnectionError`."""


class FakeReplica:
    """One instance of an application."""

    def __init__(self, application: FakeApplication, index: int) -> None:
        self.application = application
        self.index = index
        self.name = f"{application.service}-{index}"
        self.role = ""
        """What distinguishes it from others, such as `primary`."""
        self.data: dict[str, Any] = {}
        """Its data, for scripts; must be copyable."""
        self.delay = 0.0
        """Seconds that every call takes longer."""
        self.is_rejecting = False
        self.is_lying = False
        self.address: tuple[str, int] | None = None
        """Host and port of this machine, while it is served."""
        self.connections: set[asyncio.BaseTransport] = set()
        """Open connections."""
        self._earlier: dict[str, Any] = {}

    def slow(self, seconds: float) -> None:
        """Let every call take longer."""
        self.delay = seconds

    def reject(self) -> None:
        """Refuse connections, and close existing ones."""
        self.is_rejecting = True
        self.disconnect()

    def lie(self) -> None:
        """Acknowledge writes without storing them, and return old data."""
        self.is_lying = True

    def restart(self) -> None:
        """Close all connections; what is not persistent is lost."""
        self.disconnect()
        if not self.application.is_persistent:
            self.application.lose_data(self)

    def recover(self) -> None:
        """End all faults."""
        self.delay, self.is_rejecting, self.is_lying = 0.0, False, False

    def disconnect(self) -> None:
        """Close all connections."""
        for transport in list(self.connections):
            transport.close()
        self.connections.clear()

    @contextlib.contextmanager
    def access(self, *, is_read: bool) -> Iterator[None]:
        """Provide `data` for a call: if the replica lies, an old copy, or one that is discarded."""
        truth = self.data
        before = self._earlier if is_read else copy.deepcopy(truth)
        if self.is_lying:
            self.data = copy.deepcopy(before)
        try:
            yield
        finally:
            if self.is_lying:
                self.data = truth
            elif not is_read:
                self._earlier = before

    def __repr__(self) -> str:
        return f"<{self.name} {self.role}>" if self.role else f"<{self.name}>"


class FakeApplication:
    """Base class of applications."""

    default_port = 80

    def __init__(
        self,
        service: str,
        *,
        namespace: str = "default",
        port: int | None = None,
        replicas: int = 1,
        state: str = "ready",
        is_persistent: bool = False,
    ) -> None:
        """`service` is the name of the Service; `is_persistent`: whether data survives a restart."""
        self.service = service
        self.namespace = namespace
        self.port = port if port is not None else self.default_port
        self.state = state
        self.is_persistent = is_persistent
        self.address: tuple[str, int] | None = None
        """Host and port of this machine for any replica, while it is served."""
        self.observer: Observer | None = None
        self.calls: list[str] = []
        """Operations, in order."""
        self.replicas = [FakeReplica(self, index) for index in range(replicas)]
        self._initial_state = state
        self._next = 0

    # Faults of all replicas

    def slow(self, seconds: float) -> None:
        """Let every call take longer."""
        for each in self.replicas:
            each.slow(seconds)

    def reject(self) -> None:
        """Refuse connections."""
        for each in self.replicas:
            each.reject()

    def lie(self) -> None:
        """Acknowledge writes without storing them, and return old data."""
        for each in self.replicas:
            each.lie()

    def restart(self) -> None:
        """Restart all replicas."""
        for each in self.replicas:
            each.restart()

    def recover(self) -> None:
        """End all faults."""
        for each in self.replicas:
            each.recover()

    # Data

    def lose_data(self, replica: FakeReplica) -> None:
        """Set the data of a replica to that of a new one."""
        replica.data = {}

    def reset(self) -> None:
        """Return to the state at the beginning."""
        self.state, self._next = self._initial_state, 0
        self.calls.clear()
        for each in self.replicas:
            each.recover()
            each.disconnect()
            each.role = ""
            self.lose_data(each)

    def observed(self) -> dict[str, Any]:
        """Return the data that two runs are compared by."""
        return {each.name: copy.deepcopy(each.data) for each in self.replicas}

    # Calls

    def find(self, host: str, port: int) -> list[FakeReplica] | None:
        """Return the replicas behind a host and port, also those that reject; `None` for another host."""
        if port != self.port:
            return None
        name = host.removesuffix(".").removesuffix(".cluster.local").removesuffix(".svc")
        head, _, rest = name.partition(".")
        for each in self.replicas:
            if head == each.name and rest in (self.service, f"{self.service}.{self.namespace}"):
                return [each]
        if rest not in ("", self.namespace):
            return None
        if head == self.service:
            return list(self.replicas)
        role = head.removeprefix(f"{self.service}-")
        if role != head and not role.isdecimal():
            return [each for each in self.replicas if each.role == role]
        return None

    def choose(self, replicas: list[FakeReplica]) -> FakeReplica:
        """Return the replica of a new connection, in turn; raise `ConnectionError` if none accepts."""
        found = [each for each in replicas if not each.is_rejecting]
        if not found:
            raise ConnectionError(f"{self.service}.{self.namespace} accepts no connections")
        self._next += 1
        return found[self._next % len(found)]

    @contextlib.asynccontextmanager
    async def call(
        self, replica: FakeReplica, operation: str, *, is_read: bool, process: object = None
    ) -> AsyncIterator[None]:
        """Surround the work of a call: faults happen here."""
        call = FakeCall(self, replica, operation, is_read, process)
        async with self.observer(call) if self.observer is not None else contextlib.nullcontext():
            self.calls.append(operation)
            if replica.delay:
                await asyncio.sleep(replica.delay)
            if replica.is_rejecting:
                raise ConnectionResetError(104, "connection reset by peer")
            yield

    def protocol(self, replica: FakeReplica, process: object = None) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection to a replica."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def served(self, client: Client | None = None, *, host: str = "127.0.0.1") -> AsyncIterator[None]:
        """Serve on free ports of this machine; with a client, behind a Service of its cluster."""
        from .publication import serve

        async with serve(self, client, host=host):
            yield
