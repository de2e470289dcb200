"""Programs other than operators that can be explored: the controllers of workloads and of the control plane.

    explore(lambda: WorkloadControllers("deployment-controller", "replicaset-controller"), scenarios)
    explore(lambda: ControlPlaneControllers("garbage-collector-controller"), scenarios)

A program runs in a simulated process with a client, as an operator does. The control plane does not run the
controllers of the program; others run if the scenario asks for them (`controllers=True`).

- `WorkloadControllers` runs controllers of `kubewright.workloads` as kube-controller-manager does. Scenarios
  for them have simulated nodes (`nodes=1`), whose kubelets and scheduler are not part of the program.
- `ControlPlaneControllers` runs controllers of `kubewright.controlplane.controllers`, as a replica of the
  control plane that is killed while another one serves clients (see `replica`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kubewright.client import Client


class ExploredProgram(Protocol):
    """What a process runs."""

    name: str
    controllers: frozenset[str]
    """Names of the controllers that the control plane must not run, because the program does."""

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""


class WorkloadControllers:
    """Controllers of `kubewright.workloads`, by name."""

    def __init__(self, *names: str) -> None:
        """`names` are those of kube-controller-manager, such as `deployment-controller`."""
        from kubewright.workloads.controllers import COMPONENTS

        known = {each.name: each for each in COMPONENTS}
        _check_names(names, known)
        self.name = "-and-".join(names)
        self.controllers = frozenset(names)
        self._components = [known[each] for each in names]

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Run the controllers."""
        from kubewright.workloads.connection import ClientConnection
        from kubewright.workloads.workloads import Workloads

        workloads = Workloads(ClientConnection(client), nodes=0, components=self._components)
        await workloads.start()
        await workloads.wait_until_started()
        await stop.wait()
        await workloads.stop()


class ControlPlaneControllers:
    """Controllers of `kubewright.controlplane.controllers`, by name."""

    def __init__(self, *names: str) -> None:
        """`names` are those of kube-controller-manager, such as `namespace-controller`."""
        from kubewright.controlplane.controller_names import BUILT_IN

        _check_names(names, BUILT_IN)
        self.name = "-and-".join(names)
        self.controllers = frozenset(names)

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Run the controllers."""
        from kubewright.controlplane.admission.quotas.quotas import ResourceQuotas
        from kubewright.controlplane.controller_names import BUILT_IN
        from kubewright.controlplane.controllers import ControllerManager, default_components
        from kubewright.controlplane.informers import Informers

        from .loop import PROCESS
        from .processes import OperatorProcess
        from .replica import ReplicaDispatcher, ReplicaServer

        process = PROCESS.get()
        assert isinstance(process, OperatorProcess), "the controllers run in a simulated process"
        plane = process.cluster.plane
        dispatcher = ReplicaDispatcher(process)
        server: Any = ReplicaServer(process, dispatcher)
        of_informers: Any = ReplicaServer(process, dispatcher, lists=False)
        dispatcher.informers = informers = Informers(of_informers)
        await dispatcher.start()
        manager = ControllerManager(server, informers)
        manager.add(
            *default_components(
                server,
                informers,
                ca=lambda: plane.ca,
                sign=lambda *names: "-".join(("token", *names)),  # signatures contain random numbers
                quotas=ResourceQuotas(server, informers),
                disabled=frozenset(BUILT_IN) - self.controllers,
            )
        )
        await manager.start()
        await stop.wait()
        await manager.stop()
        await dispatcher.stop()


def _check_names(names: tuple[str, ...], known: Any) -> None:
    unknown = [each for each in names if each not in known]
    if unknown or not names:
        raise ValueError(
            f"unknown controllers {', '.join(unknown)}; expected some of {', '.join(sorted(known))}"
        )
