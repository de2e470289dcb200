"""Workload controllers, scheduler and simulated nodes: what turns a Deployment into running Pods.

    async with Workloads(ClientConnection(client), nodes=3):
        ...

The controllers are ordinary ones on `kubewright.controller` and run against any cluster. The embedded control
plane (`ControlPlane(nodes=1)`, `kubewright up --nodes 1`) starts them without a network, and each one only
when the first object of its kind exists.

- `workloads`: `Workloads`, which starts and stops the components
- `connection`: the cluster that they run against; `component_manager`: what a component gets
- `controllers`: the table of components, and one module per controller
- `cloud`: the contract of cloud providers and the controllers of a cloud controller manager
- `pods`, `pod_control`, `controller_refs`: states of pods, pods from templates, adoption and release
- `pod_metrics`: metrics of pods, simulated or from another source; `metrics_client`: those of metrics APIs
- `write_intervals`: limits of writes
- `template_hash`, `revisions`: the hash of a pod template, ControllerRevisions
- `bootstrap_token`: tokens with which machines join, as Secrets
- `assembly`: the manager of the workload components, and the view of it that each component gets
- `deletion_order`: the order in which a ReplicaSet deletes pods when it is scaled down
- `nodes`: simulated nodes: kubelets that register nodes, run pods in memory and serve their logs and commands
- `owned_objects`: read the cached objects of an owner, and map changed objects to the requests of their
  owners
- `scheduler`: the scheduler: a library with the extension points of kube-scheduler's scheduling framework
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
