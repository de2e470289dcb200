"""Library for Kubernetes API servers.

Declare resources, add them to an `APIServer` and serve it over HTTPS:

    server = APIServer(MemoryStorage())
    server.add(resource_of(Guestbook))
    async with serve(server, port=6443) as https:
        https.write_kubeconfig("kubeconfig")

| module | contents |
|---|---|
| `server` | `APIServer`: the request pipeline, from authentication to dispatch |
| `resource`, `strategy`, `subresource`, `conversion` | how a resource is declared |
| `typed` | resources from Python classes |
| `http` | HTTPS server, requests and responses, TLS, protocol upgrades |
| `rest` | the verbs of a resource: get, list, create, update, patch, delete, watch, scale |
| `watch` | event dispatch, watch cache, watchers |
| `encoding` | content negotiation, JSON, YAML, protobuf, Tables, request bodies |
| `authentication`, `authorization`, `admission` | identity, permissions, plug-ins on writes |
| `audit`, `tracing` | audit events and spans of requests |
| `limits`, `flow_control`, `work_estimate` | limits on concurrent use: by user, by priority level |
| `discovery`, `openapi`, `health`, `metrics`, `version_info` | what the server publishes about itself |
| `streams` | commands and ports over WebSocket and SPDY |
| `delegation` | authentication and authorization of an extension API server by its cluster |
| `in_process` | client transport that calls the server without a network |
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
