"""What a scheduling cycle reads: nodes, pods, resources.

- `cache`: `SchedulerCache` and `Snapshot`: the state of the cluster that a scheduling cycle reads
- `node_info`: `NodeInfo`: a node with its pods and the sums over them
- `node_selectors`: node selectors and affinity, taints and tolerations, as scheduling plug-ins evaluate them
- `nominator`: `Nominator`: pods that preemption has nominated for a node and that are not scheduled yet
- `pod_info`: `PodInfo`: what scheduling needs of a pod, computed once per version of the pod
- `resources`: amounts of resources: what pods request and what nodes can allocate
"""
