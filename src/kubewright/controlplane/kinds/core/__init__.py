"""Kinds of the core (legacy) API group: Pod, Service, Node, Namespace, ConfigMap and others.

`podspec` validates and defaults pod specs, for pods and for the pod templates of other groups.

- `component_status`: ComponentStatus: computed from the health checks of the server, not stored
- `config_map`: ConfigMap
- `endpoints`: endpoints
- `event`: event of the core group, which shares its storage with `events.k8s.io`
- `limit_range`: LimitRange
- `namespace`: namespace
- `node`: defaults, validation, warnings, columns and the proxy to the kubelet
- `persistent_volume`: PersistentVolume: defaults, validation, warnings and columns
- `persistent_volume_claim`: PersistentVolumeClaim: defaults, validation, warnings and columns
- `pod`: pod and Binding
- `pod_template`: PodTemplate
- `replication_controller`: ReplicationController
- `resource_quota`: ResourceQuota
- `secret`: secret
- `service`: service
- `service_account`: ServiceAccount
"""
