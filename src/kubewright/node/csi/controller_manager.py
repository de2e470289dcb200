"""`CSIControllerManager`: the controllers of one driver, for any cluster, with leader election.

    async with Client.connect() as client:
        manager = await CSIControllerManager.connect("/run/csi/csi.sock", client)
        await manager.run()

The driver can be written in any language. Which controllers run follows from its capabilities.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from kubewright.api.errors import AlreadyExists
from kubewright.client import Client
from kubewright.manager.cluster import Cluster
from kubewright.manager.elections.leader_election import LeaderElector
from kubewright.manager.events import EventRecorder
from kubewright.manager.manager import Manager

from .attacher import Attacher
from .client import CSIClient
from .messages import ControllerCall
from .provisioner import Provisioner
from .resizer import Resizer
from .sidecar import Sidecar
from .snapshotter import Snapshotter

if TYPE_CHECKING:
    from .driver import CSIDriver

LEASE_NAMESPACE: Final = "kube-system"
CONTROLLERS: Final = ("provisioner", "attacher", "resizer", "snapshotter")
"""Names of the controllers."""


async def install_driver(client: Client, driver: CSIDriver) -> None:
    """Create the CSIDriver object, and with snapshots the CRDs of snapshots, unless they exist.

    For development and tests; in a cluster they are part of the manifests of the driver.
    """
    from kubewright.api.apiextensions.v1 import CustomResourceDefinition
    from kubewright.api.declaring.declarations import resource_info
    from kubewright.manager.operators.installation import install_definitions

    from .snapshot_types import GROUP, SNAPSHOT_KINDS

    try:
        await client.create(driver.api_object())
    except AlreadyExists:
        pass
    if driver.overrides("create_snapshot"):
        missing = []
        for kind in SNAPSHOT_KINDS:
            name = f"{resource_info(kind).plural}.{GROUP}"
            if await client.get_or_none(CustomResourceDefinition, name) is None:
                missing.append(kind)
        if missing:
            await install_definitions(client, missing)


def add_csi_controllers(manager: Manager, driver: CSIClient, *, disable: Iterable[str] = ()) -> list[str]:
    """Add the controllers that a connected driver supports to a manager, and return their names.

    `disable` contains those that run elsewhere (`CONTROLLERS`).
    """
    disabled = set(disable)
    if unknown := disabled.difference(CONTROLLERS):
        raise ValueError(
            f"unknown controllers {', '.join(sorted(unknown))}; expected some of {', '.join(CONTROLLERS)}"
        )
    recorder = EventRecorder(manager.client, driver.name, api="v1")
    manager.add(recorder)
    wanted: dict[str, tuple[type[Sidecar], bool]] = {
        "provisioner": (Provisioner, driver.supports(ControllerCall.CREATE_DELETE_VOLUME)),
        "attacher": (Attacher, True),
        "resizer": (Resizer, driver.supports(ControllerCall.EXPAND_VOLUME)),
        "snapshotter": (Snapshotter, driver.supports(ControllerCall.CREATE_DELETE_SNAPSHOT)),
    }
    added = []
    for name, (controller, supported) in wanted.items():
        if supported and name not in disabled:
            controller(manager, recorder, driver).add()
            added.append(name)
    return added


class CSIControllerManager:
    """A process that runs the controllers of one driver."""

    def __init__(
        self,
        driver: CSIClient,
        client: Client,
        *,
        disable: Iterable[str] = (),
        leader_election: bool = True,
        lease_namespace: str = LEASE_NAMESPACE,
        handle_signals: bool = True,
    ) -> None:
        """`driver` is connected; see `connect`. The other options are those of `add_csi_controllers`."""
        lease = f"csi-{driver.name.replace('.', '-')}"
        elector = LeaderElector(client, lease, namespace=lease_namespace) if leader_election else None
        self.driver = driver
        self.manager = Manager(Cluster(client), elector=elector, handle_signals=handle_signals)
        self.controllers = add_csi_controllers(self.manager, driver, disable=disable)
        """Names of the controllers that were added."""

    @classmethod
    async def connect(
        cls,
        endpoint: str | os.PathLike[str],
        client: Client,
        *,
        disable: Iterable[str] = (),
        leader_election: bool = True,
        lease_namespace: str = LEASE_NAMESPACE,
        handle_signals: bool = True,
    ) -> Self:
        """Connect to the socket of a driver; raise `RPCError` or `TimeoutError`."""
        driver = await CSIClient(endpoint).connect()
        return cls(
            driver,
            client,
            disable=disable,
            leader_election=leader_election,
            lease_namespace=lease_namespace,
            handle_signals=handle_signals,
        )

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until `stop` is set, a signal is received, or leadership is lost."""
        await self.manager.run(stop)

    async def close(self) -> None:
        """Close the connection to the driver."""
        await self.driver.close()
