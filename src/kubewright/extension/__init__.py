"""Extension API servers as applications: declared with functions, run behind a cluster.

    app = APIServerApp("restaurant")
    app.add(Pizza)

    @app.validate(Pizza)
    def validate(pizza: Pizza) -> Iterable[FieldError]: ...

`kubewright run module:app` serves it and registers it with a cluster. It is the short form of
`kubewright.apiserver`, as `Operator` is of `kubewright.controller`.

- `admission`: admission plug-in that calls the admission functions of an `APIServerApp`
- `app`: `APIServerApp`: declares an extension API server with decorated functions
- `audit`: the audit log of an `APIServerApp`: events for functions, a file or a webhook
- `authorization`: authorizer that calls a function of an `APIServerApp`
- `functions`: functions of an `APIServerApp`: the objects that they take, and the arguments that they receive
  by type
- `metric_apis`: the APIs custom.metrics.k8s.io and external.metrics.k8s.io, which HorizontalPodAutoscalers
  read
- `permissions`: custom verbs: permissions that a function of an `APIServerApp` checks for the user of the
  request
- `priority`: priority and fairness of an extension API server, with the FlowSchemas and priority levels of
  its cluster
- `proxy`: subresources that forward requests to another server, as `pods/proxy` and `services/proxy` do
- `reader`: `ObjectReader`: cached reads of the objects of an extension API server and of its cluster
- `rest`: resources whose objects come from another system
- `serving`: serving an `APIServerApp`: settings, certificates, registration, permissions
- `sessions`: `ExecSession`: the standard streams of a client that is connected to an exec-like subresource
- `strategy`: the strategy of a resource whose defaults and validation are declared functions
- `subresources`: subresources that a function of an `APIServerApp` serves
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
