"""Kubernetes itself, in one process: built-in resources, CRDs, RBAC, admission, aggregation, controllers.

    async with ControlPlane() as plane:
        print(plane.kubeconfig)

`ControlPlane` assembles the parts on `kubewright.apiserver`; `kubewright up` runs it in the foreground.

- `access`: authorization from stored objects: RBAC, kubelets, access reviews
- `admission`: the admission plug-ins of Kubernetes, one per module
- `admission_spans`: spans of the admission of a control plane: its calls of webhooks and its evaluations of
  policies
- `aggregation`: API aggregation: APIServices, their availability, and forwarding of requests to extension API
  servers
- `bootstrap`: the objects that a new cluster contains
- `builtins`: build the resources of an API server from the built-in kinds
- `cluster_admission`: admission of a cluster for the resources of an extension API server
- `cluster_controllers`: the controllers of the cluster and its nodes: those of kube-controller-manager, the
  scheduler and kubelets
- `configuration`: configuration of a control plane: values of options, files, feature gates, and their reload
- `controller_names`: names of the controllers that can be disabled: those of kube-controller-manager
- `controllers`: the controllers that a control plane needs, in process
- `crds`: custom resources: definitions, and serving what they define
- `credentials`: certificates and keys of a control plane
- `encryption`: encryption of stored objects: the providers and the configuration file of kube-apiserver
- `history`: `ClusterHistory`: earlier states of a control plane, and the way back to them
- `identity`: authentication, service account tokens and identity reviews
- `in_process_clients`: clients of the API server in this process: `Client` over an in-process transport
- `informers`: shared in-process informers: the state of stored resources for admission, authorization and
  controllers
- `jwt_authentication`: users of other token issuers: `AuthenticationConfiguration` with JSON web tokens
  (OpenID Connect)
- `kinds`: the built-in kinds of Kubernetes: defaults, validation, printed columns, subresources
- `kubelets`: connections of the API server to kubelets and pods, and the usage that kubelets report
- `options`: the options of a control plane, one class for each concern
- `plane`: `ControlPlane`: storage, API server, authentication, authorization, admission and controllers
  together
- `priority`: priority and fairness from the FlowSchemas and priority levels of the cluster
- `readiness`: readiness of a control plane: checks of `/readyz`, `/livez` and `/healthz`
- `replicas`: several servers on one storage: election of controllers, identity, worker processes
- `storage_list_watch`: `StorageListWatch`: lists and watches of one resource in the storage of this process,
  for an informer
- `undecodable_values`: values in a store that are not objects of their resource
- `webhooks`: admission webhooks of the control plane, and the HTTP client that conversion webhooks share
- `workload_connection`: connection of the workload components to the control plane of this process, without a
  network
- `store_version`: the version of Kubernetes that has written a store
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
