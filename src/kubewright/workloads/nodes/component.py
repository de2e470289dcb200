"""The simulated nodes as a component of `kubewright.workloads.Workloads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .simulation import SimulatedNodes

if TYPE_CHECKING:
    from kubewright.workloads.component_manager import ComponentManager


async def add_simulated_nodes(manager: ComponentManager) -> None:
    """Run the pods of the nodes that `Workloads` has registered; return when pods are watched."""
    workloads = manager.workloads
    registration = workloads.registration
    runtime = None
    if workloads.run_processes and registration is not None:
        from .processes.runtime import ProcessRuntime
        from .processes.usage import ProcessMetrics
        from .registration.node_spec import load_image_commands

        runtime = ProcessRuntime(
            registration.client,
            manager.cache,
            clock=registration.clock,
            nodes=registration.nodes,
            images=load_image_commands(workloads.nodes),
            plugins=workloads.plugins,
        )
        workloads.metrics = ProcessMetrics(runtime, workloads.metrics)
    nodes = SimulatedNodes(
        manager,
        registration=registration,
        metrics=workloads.metrics,
        runtime=runtime,
        plugins=workloads.plugins,
    )
    workloads.simulated_nodes = nodes
    manager.add(nodes)
    await nodes.wait_until_registered()
