"""Pods of simulated nodes: their lifecycle, status, and control by tests.

- `behaviour`: how the containers of a pod behave: from settings, annotations and rules of a test
- `pod_conditions`: the conditions of a simulated pod, as its kubelet writes them
- `pod_control`: `PodControl`: steers the pods of simulated nodes from a test
- `pod_status`: phase, conditions and container statuses of a pod, computed from the states of its containers
  as a kubelet does
- `pod_worker`: `PodWorker`: the lifecycle of one pod on a simulated node
- `worker_schedule`: when the pod workers of simulated nodes are advanced: soon, or at a time of the event
  loop
"""
