"""Simulated nodes: kubelets that register nodes, run pods in memory and serve their logs and commands.

    nodes = SimulatedNodes(manager, 3)
    manager.add(nodes)
    ...
    nodes.fail("node-1")                  # no more heartbeats
    nodes.pods.crash("app=web")           # the containers exit

- `component`: the simulated nodes as a component of `kubewright.workloads.Workloads`
- `containers`: containers of simulated pods: their states, runtime, logs and commands
- `kubelet_api`: the HTTPS API of the simulated kubelets: logs, exec, attach, port-forward, statistics
- `kubelet_events`: events as kubelets record them: about pods, containers and nodes, in the background and at
  a limited rate
- `objects`: kinds, times and small readers that the modules of this package share
- `plugins`: device plug-ins and CSI drivers of simulated nodes, connected over gRPC as with a kubelet (extra
  `node`)
- `pods`: pods of simulated nodes: their lifecycle, status, and control by tests
- `processes`: containers as local processes: `kubewright up --run-processes`
- `registration`: node objects: declaration, registration, heartbeats and resources
- `settings`: `SimulationSettings`: delays and limits of the simulated kubelet
- `simulation`: `SimulatedNodes`: the kubelets of all simulated nodes, as one component of a manager
- `stages`: stage objects of kwok (`kwok.x-k8s.io/v1alpha1`): transitions of objects that users declare
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
