"""Composition: a kind whose objects expand to a graph of other objects.

    @operator.compose(WebApp, owns=(ConfigMap, Service, Deployment))
    def compose(app: WebApp) -> Graph:
        graph = Graph()
        graph.add("service", service_for(app))

        @graph.node
        def config(service: Service) -> ConfigMap:       # called when the Service is ready, with its status
            return config_for(app, service)

        return graph

- `graph`: `Graph`, the desired objects and their dependencies
- `graph_sets`: `GraphSets`, which applies graphs, prunes, and deletes in reverse order
- `status`: `CompositionStatus`, the status of a kind with a composition
- `template`: `CompositionTemplate`, a graph from YAML with CEL expressions; `expressions`: its expressions;
  `template_types`: the types of its variables
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
