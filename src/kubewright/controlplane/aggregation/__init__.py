"""API aggregation: APIServices, their availability, and forwarding of requests to extension API servers.

- `aggregator`: the aggregator: group versions that extension API servers serve
- `authentication_config`: the ConfigMap `kube-system/extension-apiserver-authentication`
- `availability`: availability of extension API servers: the condition `Available` of APIServices
- `documents`: cached discovery and OpenAPI documents of extension API servers
- `informers`: informers of the resources that extension API servers serve
- `local`: local APIServices: one for every built-in group version and for every group version of custom
  resources
- `proxy`: forwarding of requests to the server of an APIService
- `remote`: connections to extension API servers: address, trust and user headers
- `tunnels`: SPDY tunnels through the aggregator, for `kubectl exec` of older versions
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
