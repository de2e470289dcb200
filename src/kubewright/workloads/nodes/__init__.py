"""Simulated nodes: kubelets that register nodes, run pods in memory and serve their logs and commands.

    nodes = SimulatedNodes(manager, 3)
    manager.add(nodes)
    ...
    nodes.fail("node-1")                  # no more heartbeats
    nodes.pods.crash("app=web")           # the containers exit

Modules:

- `node_spec`: declarations of nodes; `node_object`: their Node objects and Leases; `node_state`: their
  resources and addresses; `node_registration`: registration and heartbeats
- `simulation`: `SimulatedNodes`, the kubelets of all nodes; `worker_schedule`: when their pods change;
  `settings`: delays; `kubelet_events`: events
- `pod_worker`: the lifecycle of one pod; `container_state`, `container_starts`, `container_stops`,
  `pod_status`, `pod_conditions`, `probe_checks`, `resize`: its parts
- `behaviour`: annotations and rules; `pod_control`: what tests call; `drain`
- `kubelet_api`: logs, exec and port-forward over HTTPS; `stages`: Stage objects of kwok
- `component`: the nodes as a component of `kubewright.workloads`
- `plugins`: device plug-ins and CSI drivers over gRPC (`kubewright up --kubelet-dir`)
- `processes`: containers as local processes (`kubewright up --run-processes`)
- `runtime`: what runs containers, and the simulated runtime; `container_log`, `commands`: their content
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
