"""Web dashboard of a cluster and of the operators that are connected to it.

    async with Client.connect() as client:
        dashboard = Dashboard(client)
        await dashboard.start()
        print(dashboard.new_address())    # http://127.0.0.1:34215/?token=..., works once

The server adds the credentials of its client to the requests of the page; the browser never receives them.
The front end is built from `/dashboard` of the repository into `static/`.

- `access`: RBAC: the graph of subjects, bindings and roles, and the rules that allow or deny a request
- `api_server_probe`: whether the API server of the cluster responds, while a page is open
- `assets`: the files of the front end, which are part of the package
- `attention`: what needs attention in a cluster, the most urgent first
- `event_stream`: `/api/stream`: one stream of Server-Sent Events per page
- `objects`: views of the objects of a cluster
- `operators`: operators that are connected to the dashboard, and their spans
- `overview`: the overview of a cluster: kinds with the health of their objects, findings and warnings
- `port_forwards`: local ports that are forwarded to ports of pods
- `proxy`: `/k8s/`: the Kubernetes API with the credentials of the server
- `responses`: responses of the dashboard: JSON, errors, and the headers that restrict what a page can do
- `server`: `Dashboard`: the HTTP server, its lifecycle and its routes
- `sessions`: who may use the dashboard: one-time tokens, sessions of pages, and checks against other web
  pages
- `views`: handlers of `/api/`: they read the index, the histories, the traces and the access rules

# HTTP interface

Times are milliseconds since 1970 unless they are fields of Kubernetes objects. Durations are seconds. Errors
of `/api` are `{"error": {"code": 404, "message": "..."}}`; those of `/k8s` are a `Status`. An absent value is
`null` or an empty string, never a missing field.

Requests for data, `/api` and `/k8s`, require a session, in the header `X-Kubewright-Dashboard`; an event
stream has it as `?session=`, a WebSocket as a subprotocol. Without it the response is 401.
`GET /any/page?token=TOKEN` returns the page with a new session; a token is valid once. WebSockets and
requests other than GET and HEAD also require an `Origin` of this server. Pages have a Content-Security-Policy
without inline scripts; `__SESSION__` in `index.html` is replaced by a new session, and
`__CSP_NONCE__` in `index.html` is replaced by a nonce for `<style>` elements. Files of `static/` are served
below `/static/` and `/`; every other path returns `index.html`, so that the front end can use paths as deep
links.

## `/k8s/<path>`

The path and query of the Kubernetes API, without change: `GET /k8s/api/v1/pods?watch=true`. Watches and logs
are streamed. `Accept` and `Content-Type` are forwarded, other headers are not. `exec`, `attach` and
`portforward` are WebSockets with the subprotocol `v5.channel.k8s.io` (or `v4`; for `portforward`
`v4.channel.k8s.io` or `v2.portforward...`, as the server offers). The `proxy` subresource is rejected: its
responses are pages of others. With `--read-only`, only GET and HEAD are allowed, and no `exec`, `attach` or
`portforward`.

## `GET /api/info`

    {"version": "0.1.0", "readOnly": false, "user": {"username": "kubernetes-admin", "groups": []},
     "cluster": {"server": "https://127.0.0.1:6443", "context": "kind-kind", "version": "v1.36.4",
                 "namespace": "of the kubeconfig"},
     "traces": true, "operators": ["guestbook"], "tracesMessage": "the reason, if traces is false"}

## `GET /api/overview?namespace=`

    {"synced": true, "truncated": false, "namespace": "", "traces": true,
     "kinds": [{"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
                "namespaced": true, "count": 3, "error": "", "scope": "", "stale": "", "synced": true,
                "custom": false,
                "health": {"Current": 2, "InProgress": 1, "Failed": 0, "Terminating": 0, "Unknown": 0}}],
     "findings": [{"id": "...", "type": "reconcile", "object": REFERENCE or null, "namespace": "default",
                   "request": "", "message": "...", "count": 3, "since": 1763254800000, "next": ...,
                   "controller": "guestbook", "span": "1f-7"}],
     "totals": {"reconcile": 1},
     "warnings": [{"namespace": "default", "reason": "BackOff", "message": "...", "count": 3,
                   "lastSeen": 1763254800000, "source": "kubelet", "object": REFERENCE}],
     "warningsError": ""}
    REFERENCE = {"group": "", "version": "v1", "kind": "Pod", "resource": "pods", "namespaced": true,
                 "namespace": "default", "name": "a"}

`error` says why a kind cannot be read; `scope` is the only namespace in which it can; `stale` says why its
objects may have changed since. `findings` are at most 100, the most urgent first; `attention` lists their
types. `next` is the time of the next retry, or of the expiry of a certificate; `since` is `null` if it is
unknown. Warnings are newest first, at most 100; `warningsError` says why events cannot be read.

## `GET /api/objects?health=Failed&namespace=&limit=500`

    {"total": 3, "truncated": false, "synced": true, "unreadable": ["Secret"], "objects": [NODE, ...]}

Objects of all kinds with one health, those that have it longest first.

## `GET /api/tree?group=&version=&kind=&namespace=&name=`

The owners of an object, up to the roots, and everything that it owns, down to the leaves.

    {"root": "UID of the object, or null", "state": "exists|missing|unreadable|unknown",
     "truncated": false, "synced": true, "nodes": [NODE, ...]}
    NODE = {"id": "UID", "apiVersion": "apps/v1", "group": "apps", "version": "v1", "kind": "ReplicaSet",
            "resource": "replicasets", "namespaced": true, "namespace": "default", "name": "web-1",
            "health": "Current|InProgress|Failed|Terminating|Unknown", "message": "1 of 3 replicas are ready",
            "created": 1763254800000, "since": 1763254800000, "state": "exists", "badges": ["2/3"],
            "owners": [{"id": "UID", "controller": true}]}

An owner that is not in the index is a node with health `Unknown`, whose state is `missing` if it does not
exist, `unreadable` if the user is not allowed to read it, `unknown` if the index cannot tell. `&whole=1`
returns the whole tree of the roots, with siblings. At most 1000 nodes.

## `GET /api/search?q=&limit=50`

    {"total": 12, "truncated": false, "synced": true, "results": [NODE, ...], "kinds": [KIND, ...]}

Words of `q` match the name, namespace, kind, resource and short names, in any order. `kinds` are the matching
kinds, as in the overview.

## `GET /api/history?group=&version=&kind=&namespace=&name=`

The versions of an object since it was first requested here, oldest first, at most 50. The object is watched
for as long as it is requested.

    {"watching": true, "truncated": false,
     "versions": [{"resourceVersion": "12", "time": 1763254800000, "type": "ADDED|MODIFIED|DELETED",
                   "managers": ["guestbook"], "object": {...}}]}

`managers` have changed fields since the previous version. Objects have no `managedFields`; values of Secrets
are replaced by their length.

## `GET /api/reconciles?controller=&kind=&namespace=&name=&errors=&limit=200`

    {"traces": true, "message": "", "controllers": ["guestbook"], "since": 1763254800000,
     "completeSince": ..., "forgotten": 0, "objects": [OBJECT, ...],
     "spans": [RECONCILE, ...]}           newest first
    RECONCILE = {"id": "1f-7", "controller": "guestbook", "group": "webapp.my.domain", "version": "v1",
                 "kind": "Guestbook", "namespace": "default", "name": "visitors", "request":
                 "default/visitors", "queued": 1763254800000.1, "started": ..., "ended": ..., "wait": 0.002,
                 "duration": 0.014, "priority": 0, "causes": [{"trigger": "watch|list|resync|own
                 write|source|requeue|retry", "kind": "Deployment",
                             "namespace": "default", "name": "visitors", "operation": "updated",
                             "paths": ["spec.replicas"], "text": "Deployment default/visitors updated: ..."}],
                 "reads": [CALL, ...], "writes": [CALL, ...],
                 "result": "success|requeue_after|error|terminal|timeout|panic", "requeueAfter": null,
                 "error": "", "traceback": "",
                 "events": [{"type": "Warning", "reason": "...", "message": "...", "time": ...,
                             "kind": "Guestbook", "namespace": "default", "name": "visitors"}]}
    CALL = {"verb": "get", "resource": "deployments.apps", "subresource": "", "namespace": "default",
            "name": "visitors", "cached": true, "status": 200, "error": "",
            "offset": 0.001, "duration": 0.0001}
    OBJECT = {"controller": "guestbook", "group": ..., "version": ..., "kind": ..., "namespace": ...,
              "name": ..., "reconciles": 12, "errors": 3, "failuresInRow": 3, "failing": true,
              "failingSince": ..., "nextRetry": ..., "error": "...", "first": ..., "last": ...,
              "lastFailure": ..., "lastFailureId": "1f-7", "lastSuccess": null}

`since` is when recording began. Since `completeSince`, no span was dropped; of earlier ones, the last failure
and the last success of each object are kept. `forgotten` is the number of objects whose last spans were
dropped. `objects` has what is known of each object, failing ones first.

## `GET /api/webhooks?path=&limit=200`

    {"traces": true, "message": "", "paths": ["/mutate-..."], "since": ..., "completeSince": ...,
     "spans": [WEBHOOK, ...]}                 newest first
    WEBHOOK = {"id": "1", "path": "/mutate-...", "type": "mutating|validating|conversion|policy|other",
               "operation": "CREATE", "group": "", "version": "", "kind": "", "namespace": "", "name": "",
               "user": "kubernetes-admin", "dryRun": false, "started": ..., "duration": 0.001,
               "code": 200, "allowed": true, "message": "", "warnings": [], "patch": [JSON patch operations],
               "object": {...}, "oldObject": null, "response": {...}, "error": "", "traceback": ""}

`path` is the URL for calls that the API server of `kubewright up` sent, and kind and name for policies, whose
`response` has `binding`, `actions` and `param`. Bodies above 64 KiB are `null`. Values of Secrets are
replaced by their length.

## `GET /api/queues`

    {"traces": true, "interval": 1.0,
     "controllers": [{"name": "guestbook", "workers": 1, "depth": 0, "waiting": 0, "active": 0,
                      "reconciles": 12, "errors": 1, "retries": 1, "failing": {"default/visitors": "error"},
                      "failingCount": 1,
                      "series": {"time": [...], "depth": [...], "active": [...], "rate": [...],
                                 "errorRate": [...], "latency": [...], "wait": [...]}}]}

Series have one value per second, at most 300; rates are per second, `latency` and `wait` the mean duration of
reconciles and of the time in the queue, or `null` in seconds without reconciles.

## `GET /api/stream?overview=1&tree=group,version,kind,namespace,name&health=group,kind&reconciles=1&...`

`&webhooks=1&queues=1`; `&whole=1` for the whole tree; `&namespace=` for the overview of a namespace.
Server-Sent Events. Data is JSON: `overview` and `tree` as above, at most two per second and complete;
`health` `{"complete": true, "objects": {"UID": ["Failed", "message"]}, "error": "", "scope": "", "truncated":
false}` with the objects that are not `Current`, then `{"complete": false, "objects": {"UID": null}}` with
changes; `reconcile`, `webhook` and `queue` lists of at most 1000: RECONCILE, WEBHOOK, and `{"time": ...,
"controllers": [as above, without series, with the values of this second: "rate", "errorRate", "latency",
"wait"]}`; `ready` once at the beginning; `heartbeat` every second, `{"error": "", "since": null}` with the
error of the API server, if it does not respond. A client that reads too slowly misses spans, and receives
`lost` with `{"spans": 12}`.

## `GET /api/access?namespace=&subject=&system=`

    {"subjects": [{"id": "User/jane", "kind": "User", "namespace": "", "name": "jane"}],
     "bindings": [{"id": "RoleBinding/default/edit", "kind": "RoleBinding", "namespace": "default",
                   "name": "edit", "subjects": ["User/jane"], "role": "ClusterRole/edit"}],
     "roles": [{"id": "ClusterRole/edit", "kind": "ClusterRole", "namespace": "", "name": "edit",
                "rules": [{"verbs": [], "apiGroups": [], "resources": [], "resourceNames": [],
                           "nonResourceURLs": []}], "missing": false, "unreadable": false,
                "aggregated": false}],
     "unreadable": ["ClusterRole"],
     "own": {"namespace": "default", "rules": [...], "incomplete": false, "error": ""} or null}

`unreadable` are kinds that the user of the dashboard is not allowed to list; then `own` has its own rules.
Roles, bindings and subjects whose names begin with `system:` are left out unless `system=1`. Only roles that
are bound are included.

## `POST /api/access/why`

    {"user": "jane", "groups": ["dev"], "verb": "get", "group": "", "resource": "pods", "subresource": "",
     "namespace": "default", "name": "", "path": ""}

`path` instead of `resource` for a non-resource URL; `"user": "system:serviceaccount:ns:name"` for a service
account.

    {"allowed": true, "reason": "as the authorizer of the cluster reports it", "source": "cluster|rbac",
     "rules": [{"binding": "RoleBinding/default/edit", "role": "ClusterRole/edit", "index": 3, "rule":
     {...}}], "nearest": [{"binding": "...", "role": "...", "index": 0, "rule": {...}, "differs": ["verb"]}],
     "bindings": ["all bindings of the user that apply"], "advice": "what to grant, if it is denied",
     "unreadable": []}

`allowed` is `null` if it is unknown. Allowed with `--read-only`: it changes nothing.

## `GET`, `POST`, `DELETE /api/port-forwards`

    GET           {"forwards": [{"id": "1", "namespace": "default", "name": "web-0", "port": 8080,
                                 "localPort": 43211}]}
    POST          {"namespace": "default", "name": "web-0", "port": 8080} -> {"id": "1", "localPort": 43211}
    DELETE ?id=1  {}

The local ports are on 127.0.0.1 of the machine of the dashboard, until they are deleted or it stops.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
