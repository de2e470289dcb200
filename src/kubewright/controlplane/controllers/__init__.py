"""The controllers that a control plane needs, in process.

Each is an ordinary `kubewright.controller.Controller` whose requests come from the control plane's informers
(`source`) and whose writes go through a `Client` over an in-process transport.
`ControllerManager` starts and stops them together; `wait_until_idle()` is for tests.

- `garbage_collector`, `owner_graph`: deletion of objects whose owners are deleted
- `namespaces`: deletion of the content of namespaces
- `service_accounts`: default service accounts, the CA config map, token secrets
- `role_aggregation`: rules of aggregated cluster roles
- `policy_status`: type checking of validating admission policies
- `quotas`: usage of resource quotas
- `service_allocations`: records of cluster IPs and node ports; part of the API server, so it always runs
- `storage_migrations`: storage version migrations; only if their kind is served, which is not the default
- `storage_protection`: finalizers of volumes and claims in use
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.background import BackgroundLoop, require
from kubewright.controller.controller import Controller
from kubewright.controller.queues.rate_limiters import ExponentialFailureRateLimiter
from kubewright.controlplane.controller_names import ALL

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.aggregation.informers import AggregatedInformers
    from kubewright.controlplane.informers import Informers

MAX_RETRY_DELAY = 30.0


def new_controller(name: str, reconcile: Callable[[Any], Any], *, workers: int = 1) -> Controller[Any]:
    """Return a controller of the control plane. Several control planes may run in one process."""
    limiter: ExponentialFailureRateLimiter[Any] = ExponentialFailureRateLimiter(maximum=MAX_RETRY_DELAY)
    return Controller(name, reconcile, workers=workers, rate_limiter=limiter, register_metrics=False)


class Component:
    """A part of the control plane that runs controllers."""

    controllers: Sequence[Controller[Any]] = ()

    @property
    def has_pending_checks(self) -> bool:
        """Whether a delayed request is part of work that has begun; periodic requests are not."""
        return False

    async def wait_for_pending_checks(self) -> None:
        """Wait until `has_pending_checks` is false."""


class ControllerManager:
    """Runs controllers on one server."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self.informers = informers
        self._components: list[Component] = []
        self._running: list[asyncio.Task[None]] = []
        self._supervision: list[BackgroundLoop] = []

    def add(self, *components: Component) -> None:
        """Add components, before `start`."""
        self._components += components

    def __iter__(self) -> Iterator[Component]:
        return iter(self._components)

    async def start(self) -> None:
        """Start every controller; return when all have received the existing objects."""
        never = asyncio.Event()
        for controller in self._controllers():
            task = asyncio.create_task(controller.run(never), name=f"controller {controller.name}")
            self._running.append(task)
            self._supervision.append(require(task, name=f"controller {controller.name}"))
        ready = asyncio.create_task(self._wait_until_ready())
        try:
            await asyncio.wait([ready, *self._running], return_when=asyncio.FIRST_COMPLETED)
            for task in self._running:
                if task.done():
                    await task  # a source failed
        finally:
            ready.cancel()

    async def _wait_until_ready(self) -> None:
        for controller in self._controllers():
            await controller.wait_ready()

    async def stop(self) -> None:
        """Cancel the running tasks."""
        running, self._running = self._running, []
        self._supervision.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _controllers(self) -> list[Controller[Any]]:
        return [controller for component in self._components for controller in component.controllers]

    async def wait_until_idle(self) -> None:
        """Wait until every stored change has been handled and no queue has a request that is due."""
        storage = self.server.storage
        queues = [each.queue for each in self._controllers() if each.queue is not None]
        while True:
            before = await storage.revision()
            await self.informers.catch_up()
            busy = [queue for queue in queues if not queue.is_idle]
            pending = [each for each in self._components if each.has_pending_checks]
            if not busy and not pending and await storage.revision() == before:
                return
            for queue in busy:
                await queue.wait_until_idle()
            for component in pending:
                await component.wait_for_pending_checks()


def default_components(
    server: APIServer,
    informers: Informers,
    *,
    ca: Callable[[], bytes],
    sign: Callable[[str, str, str, str], str],
    quotas: Any = None,
    aggregated: AggregatedInformers | None = None,
    disabled: Container[str] = (),
) -> list[Component]:
    """Return the controllers of a control plane.

    `ca` returns the certificate authority (PEM), `sign` the token of a secret; `quotas` is the admission
    plug-in that charges quotas, `aggregated` the informers of extension API servers. `disabled` has
    the names of controllers that do not run.
    """
    from .garbage_collector import GarbageCollector
    from .namespaces import NamespaceController
    from .policy_status import PolicyStatusController
    from .quotas import QuotaController
    from .role_aggregation import RoleAggregationController
    from .service_accounts import RootCAPublisher, ServiceAccountController, TokenController
    from .storage_protection import StorageProtectionController

    create: dict[str, Callable[[], Component]] = {
        "garbage-collector-controller": lambda: GarbageCollector(server, informers, aggregated=aggregated),
        "namespace-controller": lambda: NamespaceController(server, informers, aggregated=aggregated),
        "serviceaccount-controller": lambda: ServiceAccountController(server, informers),
        "root-ca-certificate-publisher-controller": lambda: RootCAPublisher(server, informers, ca),
        "serviceaccount-token-controller": lambda: TokenController(server, informers, sign=sign, ca=ca),
        "clusterrole-aggregation-controller": lambda: RoleAggregationController(server, informers),
        "validatingadmissionpolicy-status-controller": lambda: PolicyStatusController(server, informers),
        "resourcequota-controller": lambda: QuotaController(server, informers, quotas),
        "persistentvolumeclaim-protection-controller": lambda: StorageProtectionController(server, informers),
    }
    if server.store("storagemigration.k8s.io", "storageversionmigrations") is not None:
        from .storage_migrations import StorageMigrationController

        create["storage-version-migrator-controller"] = lambda: StorageMigrationController(server, informers)
    return [create[name]() for name in create if name not in disabled and ALL not in disabled]
