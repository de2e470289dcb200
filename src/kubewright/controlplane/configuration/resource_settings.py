"""Settings of a control plane that change built-in resources: node ports, lifetime of events, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .plane_options import DEFAULT_NODE_PORTS

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.workloads.pod_metrics import MetricsSource
    from kubewright.workloads.workloads import Workloads


def set_node_ports(server: APIServer, ports: range) -> None:
    """Set the ports that services of type NodePort get."""
    if ports == DEFAULT_NODE_PORTS:
        return  # the strategy is not imported before its first use
    from kubewright.controlplane.kinds.core.service.strategy import ServiceStrategy

    services = server.store("", "services")
    if services is not None:
        assert isinstance(services.resource.strategy, ServiceStrategy)
        services.resource.strategy.set_node_ports(ports)


def set_event_ttl(server: APIServer, seconds: int) -> None:
    """Set the seconds after which events are deleted."""
    for group in ("", "events.k8s.io"):
        store = server.store(group, "events")
        if store is not None:
            store.resource.strategy.ttl = seconds


def add_metrics_api(server: APIServer, workloads: Callable[[], Workloads | None]) -> None:
    """Serve `metrics.k8s.io` with the usage of simulated pods."""
    from kubewright.controlplane.kubelets.metrics_api import MetricsAPI

    def source() -> MetricsSource:
        running = workloads()
        if running is None:
            # The nodes run in another process. Without values that a test sets, metrics depend only on the
            # pods.
            from kubewright.workloads.pod_metrics import SimulatedMetrics

            return SimulatedMetrics()
        return running.metrics

    for resource in MetricsAPI(server, source).resources():
        server.add(resource)
