"""The controllers that a control plane cannot do without, in process.

`Controllers` starts and stops them together. Each follows what is stored (`changes`) and works through a
queue of keys (`loop`); `wait_until_idle()` waits until no queue holds a key, for tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .changes import Changes, ObjectChange
from .loop import Loop

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer


class Controller(Protocol):
    """Something with loops. It asks `Changes` for what it wants to follow when it is made."""

    @property
    def loops(self) -> Sequence[Loop[Any]]:
        """Its queues."""


class Controllers:
    """A set of controllers on one server."""

    def __init__(self, server: APIServer, changes: Changes | None = None) -> None:
        self.server = server
        self.changes = changes or Changes(server)
        self._controllers: list[Controller] = []

    def add(self, *controllers: Controller) -> None:
        """Add controllers, before `start`."""
        self._controllers += controllers

    def __iter__(self) -> Iterator[Controller]:
        return iter(self._controllers)

    async def start(self) -> None:
        """Read what is there and begin. The server has to be running."""
        await self.changes.start()
        for loop in self._loops():
            loop.start()

    async def stop(self) -> None:
        """Stop following and working."""
        await self.changes.stop()
        for loop in self._loops():
            await loop.stop()

    def _loops(self) -> list[Loop[Any]]:
        return [loop for controller in self._controllers for loop in controller.loops]

    async def wait_until_idle(self) -> None:
        """Wait until every change has been followed and every queue is empty."""
        storage = self.server.storage
        while True:
            before = await storage.revision()
            await self.changes.caught_up()
            busy = [loop for loop in self._loops() if loop.busy]
            if not busy and await storage.revision() == before:
                return
            await asyncio.gather(*(loop.idle() for loop in busy))


def default_controllers(
    server: APIServer,
    changes: Changes,
    *,
    ca: Callable[[], bytes],
    sign: Callable[[str, str, str, str], str],
    quotas: Any = None,
    remote_owner: Any = None,
) -> list[Controller]:
    """The controllers of a control plane. `ca` is the certificate authority (PEM), `sign` makes the tokens of
    secrets, `quotas` is the admission plug-in that charges quotas, `remote_owner` looks up owners that other
    servers keep."""
    from .garbage_collector import GarbageCollector
    from .namespaces import NamespaceController
    from .policy_status import PolicyStatus
    from .quotas import QuotaController
    from .role_aggregation import RoleAggregation
    from .service_accounts import RootCAPublisher, ServiceAccountController, TokenController
    from .storage_protection import StorageProtection

    return [
        GarbageCollector(server, changes, remote=remote_owner),
        NamespaceController(server, changes),
        ServiceAccountController(server, changes),
        RootCAPublisher(server, changes, ca),
        TokenController(server, changes, sign=sign, ca=ca),
        RoleAggregation(server, changes),
        PolicyStatus(server, changes),
        QuotaController(server, changes, quotas),
        StorageProtection(server, changes),
    ]


__all__ = [
    "Changes",
    "Controller",
    "Controllers",
    "Loop",
    "ObjectChange",
    "default_controllers",
]
