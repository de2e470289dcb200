"""Audit: a record of every request, selected by a policy and written to a log or sent to a webhook.

    policy = AuditPolicy.from_file("policy.yaml")
    server.auditor = Auditor(policy, [LogBackend("audit.log")])

Events are those of `audit.k8s.io/v1`: `RequestReceived` after authentication, `ResponseStarted` for watches
and other long-running requests, `ResponseComplete`, and `Panic` for requests that failed unexpectedly.

- `policy`: rules that give each request a level and stages to omit;
- `event`: the event and its fields;
- `auditor`: creates the events of a request, called by the request pipeline;
- `backends`: the interface of backends, truncation, modes;
- `log_file`: a file with rotation;
- `batching`: a queue in front of a backend, with batches and a rate limit;
- `webhook`: sends events to a URL in a kubeconfig;
- `options`, `flags`: the `--audit-...` flags of kube-apiserver.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
