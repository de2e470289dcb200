"""The controllers of the cluster and its nodes: those of kube-controller-manager, the scheduler and kubelets.

They run in this process. With a storage that several replicas share, they run on the elected replica only;
see `controller_election`. What belongs to the API server itself (custom resources, aggregation, repair of
service allocations) runs on every replica and is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .configuration.real_nodes import dns_address, runs_workloads
from .controllers import ControllerManager, default_components

if TYPE_CHECKING:
    from kubewright.dns.cluster_dns import ClusterDNS
    from kubewright.workloads.cloud.provider import CloudProvider
    from kubewright.workloads.workloads import Workloads

    from .plane import ControlPlane
    from .replicas.controller_election import ControllerElection


class ClusterControllers:
    """Starts and stops the controllers and nodes of a control plane, or elects the replica that runs them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._has_nodes = runs_workloads(plane.options)
        self.manager: ControllerManager | None = None
        """The controllers that need no nodes; `None` if they run on another replica."""
        self.workloads: Workloads | None = None
        """Workload controllers and nodes; `None` without nodes, or if they run on another replica."""
        self.dns: ClusterDNS | None = None
        """Cluster DNS; `None` without the option, or if it runs on another replica."""
        self.election: ControllerElection | None = None
        """Leader election of the controllers; `None` if the storage cannot be shared."""

    async def start(self) -> None:
        """Start the controllers and nodes, or the election."""
        plane = self._plane
        if not plane.storage.is_shared:
            await self._start_here()
        elif plane.runs_controllers or self._has_nodes:
            from .replicas.controller_election import ControllerElection

            self.election = ControllerElection(
                plane.client(user_agent="kube-controller-manager"),
                self._start_here,
                self._stop_here,
                lease_duration=plane.options.lease_duration,
            )
            await self.election.start()

    async def stop(self) -> None:
        """Stop the election, the nodes and the controllers."""
        if self.election is not None:
            await self.election.stop()
        await self._stop_here()

    async def wait_until_idle(self) -> None:
        """Wait until no controller, nor the scheduler or a simulated node, has work that is due."""
        while True:
            if self.manager is not None:
                await self.manager.wait_until_idle()
            if self.workloads is None:
                return
            before = await self._plane.storage.revision()
            await self.workloads.wait_until_idle()
            if await self._plane.storage.revision() == before:
                return

    async def _start_here(self) -> None:
        plane = self._plane
        self.manager = ControllerManager(plane.server, plane.informers)
        if plane.runs_controllers:
            plugins = plane.server.admission.plugins
            self.manager.add(
                *default_components(
                    plane.server,
                    plane.informers,
                    ca=lambda: plane.ca,
                    sign=plane.issuer.sign_legacy,
                    quotas=next((each for each in plugins if each.name == "ResourceQuota"), None),
                    aggregated=plane.aggregator.informers,
                    disabled=plane.disabled_controllers,
                )
            )
        await self.manager.start()
        if self._has_nodes:
            self.workloads = self._create_workloads()
            await self.workloads.start()
        if plane.options.dns:
            self.dns = await self._start_dns()

    async def _stop_here(self) -> None:
        workloads, self.workloads = self.workloads, None
        manager, self.manager = self.manager, None
        dns, self.dns = self.dns, None
        if dns is not None:
            await dns.stop()
        if workloads is not None:
            await workloads.stop()
        if manager is not None:
            await manager.stop()

    def _create_workloads(self) -> Workloads:
        from kubewright.workloads.workloads import Workloads

        from .controller_names import disabled_components
        from .workload_connection import EmbeddedConnection

        plane = self._plane
        return Workloads(
            EmbeddedConnection(plane),
            nodes=plane.options.nodes,
            run_processes=plane.options.run_processes,
            kubelet_directory=plane.options.kubelet_directory,
            cluster_cidrs=tuple(filter(None, plane.options.cluster_cidr.split(","))),
            disable=disabled_components(plane.disabled_controllers, controllers=plane.runs_controllers),
            cloud=self._create_cloud,
        )

    async def _start_dns(self) -> ClusterDNS:
        """Serve DNS on a free port of the advertised address, to which kube-proxy forwards queries."""
        from kubewright.dns.cluster_dns import ClusterDNS
        from kubewright.dns.service import publish_dns_service

        plane = self._plane
        client = plane.client(user_agent="kubewright-dns")
        address = dns_address(plane.service_ranges[0])
        host = plane.advertised_address
        dns = ClusterDNS(client, host=host, domain=plane.options.cluster_domain, address=address)
        await dns.start()
        await publish_dns_service(client, cluster_ip=address, address=host, port=dns.server.port)
        return dns

    def _create_cloud(self) -> CloudProvider:
        from kubewright.workloads.cloud.in_memory import InMemoryCloud

        return InMemoryCloud(load_balancer_range=self._plane.options.load_balancer_range)
