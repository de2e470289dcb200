"""Extension API servers as applications: declared with functions, run behind a cluster.

    app = APIServerApp("restaurant")
    app.add(Pizza)

    @app.validate(Pizza)
    def validate(pizza: Pizza) -> Iterable[FieldError]: ...

`kubewright run module:app` serves it and registers it with a cluster. It is the short form of
`kubewright.apiserver`, as `Operator` is of `kubewright.controller`.

| module | contents |
|---|---|
| `app` | `APIServerApp`: resources and the functions for them |
| `functions` | declared functions and the arguments that they receive by type |
| `strategy`, `admission`, `conversion`, `subresources`, `authorization` | how the server calls them |
| `sessions`, `proxy` | what exec-like and proxy subresources talk to |
| `permissions` | `Permissions`: custom verbs |
| `rest`, `backend_storage` | `Rest`: resources whose objects come from another system |
| `testing` | `RestLaws`: tests for every `Rest` |
| `metric_apis` | custom.metrics.k8s.io and external.metrics.k8s.io |
| `reader` | `ObjectReader`: cached reads of own objects and of objects of the cluster |
| `audit` | audit events for functions, a file or a webhook |
| `priority` | priority and fairness with the FlowSchemas of the cluster |
| `settings` | what differs between a development machine and a cluster |
| `certificates` | serving certificates and their rotation |
| `registration` | the APIServices of a running server |
| `runtime` | `serve_app`: server, delegation, admission, caches, registration |
| `rbac` | permissions that the server requires |
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
