"""Library for Kubernetes API servers.

Declare resources, add them to an `APIServer` and serve it over HTTPS:

    server = APIServer(MemoryStorage())
    server.add(resource_of(Guestbook))
    async with serve(server, port=6443) as https:
        https.write_kubeconfig("kubeconfig")

- `admission`: plug-ins that change or reject writes after authorization
- `audit`: a record of every request, selected by a policy and written to a log or sent to a webhook
- `authentication`: a chain of authenticators, called in order
- `authorization`: authorizers allow, deny or have no opinion; a union returns the first
  decision
- `delegation`: delegated authentication and authorization of an extension API server
- `discovery`: discovery documents: groups, versions and resources
- `encoding`: request bodies and responses as bytes
- `health`: health checks: `/healthz`, `/livez`, `/readyz`, all checks or one by name
- `http`: HTTPS server: connections, requests and responses
- `in_process`: client transport that calls an API server in the same process
- `kubeconfig_webhook`: `KubeconfigWebhook`: posts JSON to the URL of a kubeconfig file, with its certificates
  and credentials
- `metrics`: Prometheus metrics of the server
- `openapi`: OpenAPI v2 and v3 documents of the served resources
- `pipeline`: the request pipeline: authentication, impersonation, authorization, limits, dispatch
- `priority`: limits on concurrent requests: by user, and by priority level
- `resources`: declaration of resources: names, versions, strategies, conversion, subresources
- `rest`: the verbs of a resource
- `router`: routing of request paths: resources, other paths, prefixes
- `routing_errors`: errors of requests that no handler accepts: their method, resource or media types do not
  exist here
- `server`: the API server: resources, paths and lifecycle
- `shutdown`: stop on signals, with a delay in which load balancers can choose other servers
- `slices`: long computations, with other requests in between
- `status_pages`: text pages about the running server: `/statusz` and `/flagz`
- `streams`: streams of commands and ports: what `kubectl exec`, `attach` and `port-forward` connect to
- `tracing`: tracing of requests: spans in the format of OpenTelemetry, sent to a collector
- `version_info`: the document at `/version`
- `watch`: event distribution from storage to watches
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
