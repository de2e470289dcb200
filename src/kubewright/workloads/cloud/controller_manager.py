"""`CloudControllerManager`: the cloud controllers of a provider, for any cluster, with leader election."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kubewright.client import Client
from kubewright.manager.cluster import Cluster
from kubewright.manager.elections.leader_election import LeaderElector
from kubewright.manager.events import EventRecorder
from kubewright.manager.manager import Manager

from . import node_controller, node_lifecycle_controller, route_controller, service_controller
from .node_controller import NodeController
from .node_lifecycle_controller import NodeLifecycleController
from .provider import CloudProvider
from .route_controller import RouteController
from .service_controller import ServiceController

LEASE_NAME: Final = "cloud-controller-manager"
LEASE_NAMESPACE: Final = "kube-system"
CONTROLLERS: Final = (
    node_controller.NAME,
    node_lifecycle_controller.NAME,
    service_controller.NAME,
    route_controller.NAME,
)
"""Names of the controllers."""


def add_cloud_controllers(
    manager: Manager,
    provider: CloudProvider,
    *,
    cluster: str = "kubernetes",
    cluster_cidrs: Sequence[str] = (),
    disable: Iterable[str] = (),
    service_workers: int = 1,
    node_workers: int = 1,
) -> list[str]:
    """Add the controllers for the parts of a provider to a manager, and return their names.

    `cluster` is the name of the cluster in the cloud. Routes are managed only with `cluster_cidrs`, the
    ranges of pod addresses. `disable` contains names of controllers that are not added. The workers are the
    numbers of load balancers and of nodes that are synced concurrently.
    """
    disabled = set(disable)
    if unknown := disabled.difference(CONTROLLERS):
        raise ValueError(
            f"unknown controllers {', '.join(sorted(unknown))}; expected some of {', '.join(CONTROLLERS)}"
        )

    def recorder(source: str) -> EventRecorder:
        made = EventRecorder(manager.client, source, api="v1")
        manager.add(made)
        return made

    added: list[str] = []
    if provider.instances is not None and node_controller.NAME not in disabled:
        source = recorder(node_controller.NAME)
        added.append(NodeController(manager, source, provider, workers=node_workers).add().name)
    if provider.instances is not None and node_lifecycle_controller.NAME not in disabled:
        source = recorder(node_lifecycle_controller.NAME)
        added.append(NodeLifecycleController(manager, source, provider.instances).add().name)
    if provider.load_balancers is not None and service_controller.NAME not in disabled:
        services = ServiceController(
            manager,
            recorder(service_controller.EVENT_SOURCE),
            provider.load_balancers,
            cluster=cluster,
            workers=service_workers,
        )
        added.append(services.add().name)
    if provider.routes is not None and cluster_cidrs and route_controller.NAME not in disabled:
        routes = RouteController(
            manager,
            recorder(route_controller.EVENT_SOURCE),
            provider.routes,
            cluster_cidrs=cluster_cidrs,
            cluster=cluster,
        )
        added.append(routes.add().name)
    return added


class CloudControllerManager:
    """A process that runs the cloud controllers of one provider."""

    def __init__(
        self,
        provider: CloudProvider,
        client: Client,
        *,
        cluster: str = "kubernetes",
        cluster_cidrs: Sequence[str] = (),
        disable: Iterable[str] = (),
        service_workers: int = 1,
        node_workers: int = 1,
        leader_election: bool = True,
        lease_namespace: str = LEASE_NAMESPACE,
        handle_signals: bool = True,
    ) -> None:
        """The options are those of `add_cloud_controllers`.

        With `leader_election`, only the replica that holds the Lease `cloud-controller-manager` is active.
        """
        elector = LeaderElector(client, LEASE_NAME, namespace=lease_namespace) if leader_election else None
        self.manager = Manager(Cluster(client), elector=elector, handle_signals=handle_signals)
        """The manager, for further components of the provider."""
        self.controllers = add_cloud_controllers(
            self.manager,
            provider,
            cluster=cluster,
            cluster_cidrs=cluster_cidrs,
            disable=disable,
            service_workers=service_workers,
            node_workers=node_workers,
        )
        """Names of the controllers that were added."""

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until `stop` is set, a signal is received, or leadership is lost."""
        await self.manager.run(stop)
