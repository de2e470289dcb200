"""The cloud controllers as components of `Workloads`, with the provider `Workloads.cloud`."""

from __future__ import annotations

from typing import Final

from kubewright.api.core.v1 import Service
from kubewright.client.kind_types import ALL_NAMESPACES
from kubewright.workloads.component_manager import ComponentManager

from .in_memory import InMemoryCloud
from .node_controller import NodeController
from .node_lifecycle_controller import NodeLifecycleController
from .provider import CloudProvider
from .route_controller import RouteController
from .service_controller import ServiceController

POD_CIDRS: Final = ("10.244.0.0/16",)
"""Range of the pod CIDRs of simulated nodes."""


def _provider(manager: ComponentManager) -> CloudProvider:
    provider = manager.workloads.cloud
    assert provider is not None, "components of the cloud require a provider"
    return provider


async def add_service_lb_controller(manager: ComponentManager) -> None:
    """Add the controller of load balancers."""
    provider = _provider(manager)
    if provider.load_balancers is None:
        return
    if isinstance(provider, InMemoryCloud):
        for service in await manager.client.uncached.list(Service, namespace=ALL_NAMESPACES):
            provider.load_balancers.reserve(service)
    ServiceController(manager, manager.recorder, provider.load_balancers).add()


def add_cloud_node_controller(manager: ComponentManager) -> None:
    """Add the controller that initializes nodes."""
    provider = _provider(manager)
    if provider.instances is not None:
        NodeController(manager, manager.recorder, provider).add()


def add_cloud_node_lifecycle_controller(manager: ComponentManager) -> None:
    """Add the controller of nodes whose instance does not run."""
    provider = _provider(manager)
    if provider.instances is not None:
        NodeLifecycleController(manager, manager.recorder, provider.instances).add()


def add_node_route_controller(manager: ComponentManager) -> None:
    """Add the controller of routes."""
    provider = _provider(manager)
    if provider.routes is not None:
        RouteController(manager, manager.recorder, provider.routes, cluster_cidrs=POD_CIDRS).add()
