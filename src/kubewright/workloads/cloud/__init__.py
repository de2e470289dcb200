"""Cloud controller manager: the contract of a cloud provider, and the controllers that call it.

    provider = CloudProvider("acme", instances=AcmeInstances(api), load_balancers=AcmeLoadBalancers(api))
    await CloudControllerManager(provider, Client.connect()).run()

Modules:

- `provider`: `CloudProvider` and its parts: instances, zones, load balancers, routes, clusters
- `service_fields`: what a load balancer needs of a Service, and the nodes behind it
- `service_controller`: load balancers of Services
- `node_controller`: provider ID, addresses and labels of new nodes, and the choice of their addresses
- `node_lifecycle_controller`: nodes whose instance is shut down or does not exist
- `node_taints`: adding and removing taints
- `route_controller`: routes to the pods of each node
- `in_memory`: `InMemoryCloud`, the provider of `kubewright up` and of tests
- `components`: the controllers as components of `kubewright.workloads.Workloads`
- `controller_manager`: `CloudControllerManager` and `add_cloud_controllers`, for any cluster
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, renamed={"Clusters": "CloudClusters"})
