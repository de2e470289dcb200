"""Pod specs, of pods and of the pod templates of workloads: defaults, validation, warnings.

- `annotations`: annotations of pods and pod templates that the API server validates
- `clearable_lists`: lists in the status that an empty list clears
- `containers`: containers of pods: names, images, ports, environment, probes and lifecycle hooks
- `defaults`: defaults of pods and pod templates
- `disabled_features`: features that a version of Kubernetes has disabled and that are more than a field
- `disks`: volume sources that pods and persistent volumes share: disks, file servers, storage drivers
- `mounts`: volume mounts and devices of containers
- `operating_system`: fields of pods that depend on the operating system
- `projections`: projected volumes: files of several sources in one folder, with paths that do not overlap
- `references`: references from environment variables and files to fields of the pod, resources and keys
- `resources`: resource names, quantities, requests and limits, and the QoS class
- `scheduling`: scheduling of pods: selectors, tolerations, affinity, topology spread
- `security`: security contexts of pods and of containers
- `template`: validation of pod templates
- `validation`: validation of pod specs, of pods and of pod templates
- `volumes`: volumes of pods: one source each, and unique names
- `warnings`: warnings about pods and pod templates, with the texts of kube-apiserver
"""
