"""Programs other than operators that can be explored: the controllers of workloads.

    explore(lambda: WorkloadControllers("deployment-controller", "replicaset-controller"), scenarios)

A program runs in a simulated process with a client, as an operator does. `WorkloadControllers` runs
controllers of `kubewright.workloads` as a process of their own, as kube-controller-manager does; scenarios
for them have simulated nodes (`nodes=1`), whose kubelets and scheduler are not part of the program.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kubewright.client import Client


class Program(Protocol):
    """What a process runs."""

    name: str

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""


class WorkloadControllers:
    """Controllers of `kubewright.workloads`, by name."""

    def __init__(self, *names: str) -> None:
        """`names` are those of kube-controller-manager, such as `deployment-controller`."""
        from kubewright.workloads.controllers import COMPONENTS

        known = {each.name: each for each in COMPONENTS}
        unknown = [each for each in names if each not in known]
        if unknown or not names:
            raise ValueError(
                f"unknown controllers {', '.join(unknown)}; expected some of {', '.join(sorted(known))}"
            )
        self.name = "-and-".join(names)
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


__all__ = ["Program", "WorkloadControllers"]
