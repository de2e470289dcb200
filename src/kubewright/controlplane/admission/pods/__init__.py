"""Admission plug-ins for pods.

- `node_limits`: validation of pod updates against the pod's node
- `pod_restrictions`: plug-ins for pods that are disabled by default
- `pod_security`: PodSecurity: Pod Security Standards by namespace labels
- `pod_security_checks`: checks of the Pod Security Standards, per level and version
- `priority`: resolves the priority class of pods
- `runtime_classes`: RuntimeClass: overhead and scheduling of a pod's runtime class
- `service_accounts`: ServiceAccount: sets the service account of pods and mounts a token
- `topology_labels`: PodTopologyLabels: copies zone and region labels of a node to its pods
"""
