"""`Workloads`: starts the workload controllers, the scheduler and the nodes of a cluster.

At the start nothing is imported but the table of components; each component is imported and started with the
first object that it handles. All components share one `kubewright.manager.Manager` and one cache.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kubewright.background import BackgroundLoop, require

from .controllers import CLOUD, COMPONENTS, PROGRAMS, REAL_NODES, Component

if TYPE_CHECKING:
    from kubewright.manager.events import EventCorrelator
    from kubewright.manager.manager import Manager
    from kubewright.runnable import Runnable
    from kubewright.tracing.source import SpanSource

    from .cloud.provider import CloudProvider
    from .component_manager import ComponentManager
    from .connection import ClusterConnection
    from .nodes.plugins.node_plugins import NodePlugins
    from .nodes.registration.node_registration import NodeRegistration
    from .nodes.simulation import SimulatedNodes
    from .pod_metrics import MetricsSource, SimulatedMetrics
    from .pods import PodLister

logger = logging.getLogger(__name__)

KUBELET = "kubelet"
"""Name of the component that runs pods on simulated nodes."""
ALL = "*"
"""Name that disables all controllers."""

_IDLE_PASSES = 20
"""Passes of the event loop in which watch events of this process reach all components."""
_IDLE_INTERVAL = 0.005


class Workloads:
    """The components that turn workload objects into running pods. Start and stop it, or use `async with`."""

    def __init__(
        self,
        connection: ClusterConnection,
        *,
        nodes: int | str | Path = 1,
        run_processes: bool = False,
        kubelet_directory: str | Path | None = None,
        cluster_cidrs: Sequence[str] = (),
        disable: Iterable[str] = (),
        components: Sequence[Component] = COMPONENTS,
        cloud: Callable[[], CloudProvider] | None = None,
    ) -> None:
        """`nodes`: the number of simulated nodes, or a file that describes them.

        `run_processes`: whether the commands of containers run on this machine (`nodes.processes`).
        `kubelet_directory`: gets a directory per node, in which its kubelet listens for device plug-ins and
        CSI drivers (`nodes.plugins`); without it, nodes have no plug-ins.
        `cluster_cidrs`: the ranges of pods of kubelets that join, one of each IP family; without it, no pod
        CIDRs are assigned and no serving certificates of kubelets are approved.
        `disable`: names of components, as in kube-controller-manager. `*` disables all controllers, but not
        the programs of their own: the scheduler and the kubelets.

        `cloud`: creates the cloud provider when it is needed; without it the cloud controllers do not run.
        """
        self.connection = connection
        self.nodes = nodes
        self.run_processes = run_processes
        self.kubelet_directory = Path(kubelet_directory) if kubelet_directory is not None else None
        self.cluster_cidrs = tuple(cluster_cidrs)
        self.plugins: NodePlugins | None = None
        """Device plug-ins and CSI drivers of the nodes; `None` without `kubelet_directory`."""
        names = {component.name for component in components}
        disabled = set(disable)
        if unknown := disabled - names - {ALL}:
            raise ValueError(
                f"unknown controllers {', '.join(sorted(unknown))}; "
                f"expected some of {', '.join(sorted(names))}"
            )
        if ALL in disabled:
            disabled.update(names.difference(PROGRAMS))
        if nodes in (0, "0"):
            disabled.add(KUBELET)
        if not cluster_cidrs:
            disabled.update(REAL_NODES)
        if cloud is None:
            disabled.update(CLOUD)
        self.components = tuple(component for component in components if component.name not in disabled)
        """The components that are not disabled."""
        self.manager: Manager | None = None
        """The manager of the components; `None` until the first one has been started."""
        self.registration: NodeRegistration | None = None
        """The simulated nodes and their heartbeats; `None` without nodes."""
        self.simulated_nodes: SimulatedNodes | None = None
        """The kubelets of the simulated nodes; `None` until the first pod exists."""
        self.pods: PodLister | None = None
        self.event_correlator: EventCorrelator | None = None
        """What the event recorders of all components share."""
        """Cached pods, for all components."""
        self._create_cloud = cloud
        self._cloud: CloudProvider | None = None
        self._metrics: MetricsSource | None = None
        self._simulated_metrics: SimulatedMetrics | None = None
        self._services: list[Any] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._started: set[str] = set()
        self._start_requested = asyncio.Event()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._supervision: BackgroundLoop | None = None

    @property
    def simulated_metrics(self) -> SimulatedMetrics:
        """The metrics that tests set; used unless `metrics` is set to another source."""
        if self._simulated_metrics is None:
            from .pod_metrics import SimulatedMetrics

            self._simulated_metrics = SimulatedMetrics()
        return self._simulated_metrics

    @property
    def metrics(self) -> MetricsSource:
        """Metrics of pods and other objects, for autoscaling and `kubectl top`."""
        return self._metrics if self._metrics is not None else self.simulated_metrics

    @metrics.setter
    def metrics(self, source: MetricsSource) -> None:
        self._metrics = source

    @property
    def cloud(self) -> CloudProvider | None:
        """The cloud provider, created at the first use; `None` without a cloud."""
        if self._cloud is None and self._create_cloud is not None:
            self._cloud = self._create_cloud()
        return self._cloud

    @property
    def started(self) -> frozenset[str]:
        """The names of the components that have been started."""
        return frozenset(self._started)

    async def start(self) -> None:
        """Register the nodes and wait for the first objects; return when the nodes exist."""
        await self._register_nodes()
        for component in self.components:
            if not component.triggers:
                self._start_soon(component)
            triggers = [(resource, component.trigger_text) for resource in component.triggers]
            for resource, text in (*triggers, *component.text_triggers):
                self.connection.on_first_object(
                    resource, partial(self._start_soon, component), containing=text
                )

    async def stop(self) -> None:
        """Stop all components."""
        self.connection.close()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        self._stop.set()
        if self._running is not None:
            await asyncio.wait([self._running])
        while self._services:
            await self._services.pop().stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def wait_until_started(self, *names: str) -> None:
        """Wait until components have been started; without names, all that are starting now."""
        while self._starting or not self._started.issuperset(names):
            if self._starting:
                await asyncio.gather(*self._starting)
            else:
                self._start_requested.clear()
                await self._start_requested.wait()

    @property
    def is_idle(self) -> bool:
        """Whether no component has work that is due now: requests, pods to schedule or to start, events."""
        return not self._starting and (self.manager is None or self.manager.is_idle)

    async def wait_until_idle(self) -> None:
        """Wait until `is_idle`, also after the components have received the events of the last writes."""
        passes = 0
        while passes < _IDLE_PASSES:
            if self.is_idle:
                passes += 1
                await asyncio.sleep(0)
            else:
                passes = 0
                await asyncio.sleep(_IDLE_INTERVAL)

    async def start_nodes(self) -> SimulatedNodes:
        """Start the kubelets of the simulated nodes now, instead of with the first pod, and return them."""
        kubelet = next((component for component in self.components if component.name == KUBELET), None)
        if kubelet is None or self.registration is None:
            raise RuntimeError("there are no simulated nodes; start the control plane with nodes=1 or more")
        self._start_soon(kubelet)
        await self.wait_until_started(KUBELET)
        if self.simulated_nodes is None:
            raise RuntimeError("the simulated nodes could not be started; see the log")
        return self.simulated_nodes

    async def _register_nodes(self) -> None:
        """Create the Node objects; their pods run as soon as the first pod exists."""
        kubelet = next((component for component in self.components if component.name == KUBELET), None)
        if not self.nodes or kubelet is None:
            return
        from .nodes.registration.node_registration import NodeRegistration
        from .nodes.registration.node_spec import load_nodes, load_settings

        client = self.connection.client(kubelet.user)
        settings = load_settings(self.nodes)
        self.registration = NodeRegistration(client, load_nodes(self.nodes), settings=settings)
        await self.registration.start()
        self._services.append(self.registration)
        if self.kubelet_directory is not None:
            from .nodes.plugins.node_plugins import NodePlugins

            self.plugins = NodePlugins(self.registration, self.kubelet_directory)
            self._services.append(self.plugins)
            await self.plugins.start()
        assert self.registration.listener is not None
        self.registration.listener.on_connection = partial(self._start_soon, kubelet)

    # Components

    def _start_soon(self, component: Component) -> None:
        if component.name in self._started or self._stop.is_set():
            return
        self._started.add(component.name)
        self._start_requested.set()
        task = asyncio.ensure_future(self._start_component(component))
        self._starting.add(task)
        task.add_done_callback(self._start_ended)

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("could not start component", exc_info=error)

    async def _start_component(self, component: Component) -> None:
        # Not in a thread: Python 3.11 fails to compile modules in two threads with pytest's import hook.
        module = import_module(component.module)
        if self.manager is None:
            self.manager = self._start_manager()
        result = getattr(module, component.function)(self.component_manager(component))
        if inspect.isawaitable(result):
            await result
        logger.info("started component", extra={"component": component.name})

    def _start_manager(self) -> Manager:
        from .assembly import create_manager

        manager = create_manager(self.connection.client("system:kube-controller-manager"), self.spans)
        self._running = asyncio.create_task(manager.run(self._stop), name="workloads")
        self._supervision = require(self._running, name="workload components")
        return manager

    @cached_property
    def spans(self) -> SpanSource:
        """Spans of the controllers."""
        from kubewright.tracing.source import SpanSource

        return SpanSource()

    @property
    def runnables(self) -> list[Runnable]:
        """The started controllers and other components."""
        return self.manager.runnables if self.manager is not None else []

    def component_manager(self, component: Component) -> ComponentManager:
        """Return the manager of a component."""
        from .assembly import create_component_manager

        return create_component_manager(self, component)
