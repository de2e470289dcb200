"""The manager of the workload components, and the view of it that each component gets.

The indexes that several components use are declared here, because an index has to exist once per kind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupVersionKind
from kubewright.cache import CachedClient, KindOptions
from kubewright.cache.stores.indexes import by_field, by_label, by_labels, by_owner
from kubewright.manager.cluster import Cluster
from kubewright.manager.events import EventCorrelator, EventRecorder
from kubewright.manager.manager import Manager

from .component_manager import ComponentManager
from .pods import PodLister

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.tracing.source import SpanSource

    from .controllers import Component
    from .workloads import Workloads

SHUTDOWN_TIMEOUT = 5.0

INDEXES = {
    GroupVersionKind("", "v1", "Pod"): (
        by_owner(orphans=True),
        by_labels(),
        by_field("spec.nodeName"),
    ),
    GroupVersionKind("apps", "v1", "ReplicaSet"): (by_owner(orphans=True),),
    GroupVersionKind("apps", "v1", "ControllerRevision"): (by_owner(orphans=True),),
    GroupVersionKind("batch", "v1", "Job"): (by_owner(),),
    GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice"): (by_label("kubernetes.io/service-name"),),
}
"""Indexes by kind."""


def create_manager(client: Client, spans: SpanSource) -> Manager:
    """Return the manager whose cache all components share."""
    cluster = Cluster(client, kinds={kind: KindOptions(indexes=indexes) for kind, indexes in INDEXES.items()})
    return Manager(cluster, handle_signals=False, graceful_shutdown_timeout=SHUTDOWN_TIMEOUT, spans=spans)


def create_component_manager(workloads: Workloads, component: Component) -> ComponentManager:
    """Return the manager of one component, with its client and event recorder."""
    manager = workloads.manager
    assert manager is not None
    client = workloads.connection.client(component.user)
    client = client.with_interceptor(manager.cluster.calls)
    cached = CachedClient(client.rest, manager.client.mapper, client.options, cache=manager.cache)
    source = component.event_source or component.name
    if workloads.event_correlator is None:
        workloads.event_correlator = EventCorrelator(asyncio.get_running_loop().time)
    recorder = EventRecorder(client, source, api="v1", correlator=workloads.event_correlator)
    manager.add(recorder)
    if workloads.pods is None:
        workloads.pods = PodLister(manager.cache)
    return ComponentManager(manager, cached, recorder, pods=workloads.pods, workloads=workloads)
