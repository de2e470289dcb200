"""Subresources of pods: binding, eviction, logs, streams.

Logs and streams are forwarded to the kubelet of the pod's node.
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.errors import (
    APIError,
    BadRequest,
    Forbidden,
    ServiceUnavailable,
    TooManyRequests,
    conflict,
    forbidden,
)
from kubewright.api.field_errors import FieldError, aggregate
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.rfc3339 import TimeError, parse_layout
from kubewright.api.values.times import format_time, now
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import ConnectFieldType, Subresource, SubresourceRequest
from kubewright.apiserver.rest.options import integer
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.controlplane.kinds.core.podspec.template import matches
from kubewright.controlplane.kinds.validation import Errors
from kubewright.controlplane.kinds.validation.formats import dns_subdomain
from kubewright.schema import field_errors as fe
from kubewright.storage.contract import RevisionMismatch

from .updates import set_pod_condition

PODS = GroupResource("", "pods")
SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_ATTEMPTS = 20
_MAX_DISRUPTED_PODS = 2000


async def change(
    store: ResourceStore, namespace: str, name: str, edit: Callable[[Object], None], *, dry_run: bool
) -> Object:
    """Change a stored object without admission and field ownership."""
    version = store.resource.version(store.resource.hub_version or store.resource.storage_version)
    assert version is not None
    for _ in range(_ATTEMPTS):
        item = await store.read(namespace, name)
        obj = await store.load(item, version)
        edit(obj)
        if dry_run:
            return obj
        value = await store.pack(obj, version.name)
        try:
            revision = await store.storage.update(item.key, value, expected=item.mod_revision)
        except RevisionMismatch:
            continue
        obj["metadata"]["resourceVersion"] = str(revision)
        return obj
    raise conflict(store.resource.group_resource, name, "too many concurrent changes")


async def bind(request: SubresourceRequest) -> Object:
    """Bind a pod to a node."""
    body = request.body or {}
    metadata = body.get("metadata") or {}
    name = request.name or metadata.get("name") or ""
    if metadata.get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    target = body.get("target") or {}
    errors = _binding_errors(target)
    if errors:
        raise APIError(aggregate(errors), code=500)
    pods = request.store.server.store("", "pods")
    assert pods is not None

    def edit(pod: Object) -> None:
        spec = pod["spec"]
        wanted = metadata.get("uid")
        if wanted and wanted != pod["metadata"]["uid"]:
            found = pod["metadata"]["uid"]
            text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            raise conflict(PODS, name, text)
        reason = ""
        if "deletionTimestamp" in pod["metadata"]:
            reason = f"pod {name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            reason = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            reason = f"pod {name} has non-empty .spec.schedulingGates"
        if reason:
            raise conflict(GroupResource("", "pods/binding"), name, reason)
        spec["nodeName"] = target["name"]
        if metadata.get("annotations"):
            pod["metadata"]["annotations"] = {
                **(pod["metadata"].get("annotations") or {}),
                **metadata["annotations"],
            }
        if metadata.get("labels"):
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **metadata["labels"]}
        (pod.get("status") or {}).pop("nominatedNodeName", None)
        set_pod_condition(pod, "PodScheduled", "True")

    await change(pods, request.namespace, name, edit, dry_run=request.operation.dry_run)
    return {**SUCCESS, "code": 201}


def _binding_errors(target: Object) -> Errors:
    errors: Errors = []
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in ("", "Node"):
        errors.append(fe.not_supported("target.kind", kind, ("Node", "<empty>")))
    if not name:
        errors.append(fe.required("target.name", ""))
    elif kind in ("", "Node"):
        errors += dns_subdomain(name, "target.name")
    return errors


async def evict(request: SubresourceRequest) -> Object:
    """Delete a pod if its disruption budget allows it."""
    from kubewright.apiserver.rest.options import parse_delete_options

    body = request.body or {}
    name = (body.get("metadata") or {}).get("name")
    if name != request.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = parse_delete_options(request.request, body.get("deleteOptions") or {})
    dry_run = options.dry_run or request.operation.dry_run
    pod = await request.get()
    request.store.deleter.check_preconditions(request.operation, pod, options)
    # The condition below changes the resource version.
    options = options._replace(resource_version=None)
    status = pod.get("status") or {}
    if (
        status.get("phase") not in ("Succeeded", "Failed", "Pending")
        and "deletionTimestamp" not in pod["metadata"]
    ):
        await _check_budget(request, pod, dry_run=dry_run)
    if not dry_run and "deletionTimestamp" not in pod["metadata"]:
        await change(
            request.store,
            request.namespace,
            request.name,
            lambda one: set_pod_condition(
                one, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"
            ),
            dry_run=False,
        )
    operation = request.operation
    operation.verb, operation.dry_run, operation.subresource = "delete", dry_run, ""
    await request.store.deleter.delete(operation, options, admit=False)
    return {**SUCCESS, "code": 201}


async def _check_budget(request: SubresourceRequest, pod: Object, *, dry_run: bool) -> None:
    budgets = request.store.server.store("policy", "poddisruptionbudgets")
    if budgets is None:
        return
    version = budgets.resource.version(budgets.resource.storage_version)
    assert version is not None
    found, _ = await budgets.list_objects(version, request.namespace)
    labels = pod["metadata"].get("labels") or {}
    covering = [one for one in found if matches((one.get("spec") or {}).get("selector"), labels)]
    if not covering:
        return
    if len(covering) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise APIError(text, code=500)
    budget = covering[0]
    if not _is_ready(pod):
        status = budget.get("status") or {}
        healthy, wanted = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        if (budget.get("spec") or {}).get(
            "unhealthyPodEvictionPolicy"
        ) == "AlwaysAllow" or healthy >= wanted > 0:
            return

    def spend(one: Object) -> None:
        _spend(one, request.name)

    await change(budgets, request.namespace, budget["metadata"]["name"], spend, dry_run=dry_run)


def _is_ready(pod: Object) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )


def _spend(budget: Object, pod_name: str) -> None:
    """Decrement the allowed disruptions of a budget; raise if it does not allow any."""
    name, status = budget["metadata"]["name"], budget.setdefault("status", {})
    allowed = status.get("disruptionsAllowed") or 0
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise TooManyRequests(message, details=_budget_cause(text, retry=10))
    if allowed < 0:
        why = "pdb disruptions allowed is negative"
        text = f"The disruption budget {name} does not allow evicting pods currently: {why}"
        raise Forbidden(
            f'poddisruptionbudget.policy "{name}" is forbidden: {why}', details=_budget_cause(text)
        )
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS:
        why = "too many pending evictions not confirmed by PDB controller"
        text = f"The disruption budget {name} does not allow evicting pods currently: {why}"
        full = f"DisruptedPods map too big - {why.replace('pending evictions', 'evictions')}"
        raise Forbidden(
            f'poddisruptionbudget.policy "{name}" is forbidden: {full}', details=_budget_cause(text)
        )
    if allowed == 0:
        healthy, wanted = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        if healthy <= wanted:
            text = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        else:
            text = f"The disruption budget {name} does not allow evicting pods currently"
        raise TooManyRequests(message, details=_budget_cause(text))
    status["disruptionsAllowed"] = allowed - 1
    moment = format_time(now())
    if allowed == 1:
        _set_insufficient(status, moment)
    status.setdefault("disruptedPods", {})[pod_name] = moment


def _set_insufficient(status: Object, moment: str) -> None:
    """Set the condition DisruptionAllowed to False when the last allowed disruption is used."""
    conditions = status.setdefault("conditions", [])
    condition = next((each for each in conditions if each.get("type") == "DisruptionAllowed"), None)
    if condition is None:
        condition = {"type": "DisruptionAllowed"}
        conditions.append(condition)
    if condition.get("status") != "False":
        condition["lastTransitionTime"] = moment
    generation = status.get("observedGeneration")
    condition.update(status="False", reason="InsufficientPods", message="", observedGeneration=generation)


def _budget_cause(text: str, retry: int = 0) -> Object:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry:
        details["retryAfterSeconds"] = retry
    return details


async def _logs(request: SubresourceRequest) -> HTTPResponse:
    errors = _log_option_errors(request)
    if errors:
        from kubewright.api.errors import invalid
        from kubewright.api.gvk import GroupKind

        raise invalid(GroupKind("", "PodLogOptions"), request.name, errors)
    pod = await request.get()
    container = _chosen_container(pod, request.request.query.get("container") or "")
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        return HTTPResponse(204, b"", content_type="text/plain")
    from kubewright.controlplane.kubelets.kubelets import check_log_response, forward_to_node, pod_path

    path = pod_path("containerLogs", request.namespace, request.name, container)
    given = request.request.query
    query = [(name, "true") for name in _LOG_FLAGS if given.is_true(name)]
    query += [(name, value) for name in _LOG_VALUES if (value := given.get(name))]
    response = await check_log_response(await forward_to_node(request, node, path, query, upgrade=False))
    response.content_type = "text/plain"
    if request.request.headers.get("Upgrade", "").lower() == "websocket":
        from kubewright.controlplane.kubelets.log_websockets import as_websocket

        return as_websocket(response)
    return response


_LOG_FLAGS = ("follow", "previous", "timestamps")
_LOG_VALUES = ("sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream")


def _log_option_errors(request: SubresourceRequest) -> list[FieldError]:
    """Decode and validate the options of logs, which comes before the pod is read."""
    query, errors = request.request.query, list[FieldError]()
    numbers = {field: integer(query.get(field)) for field in _LOG_MINIMUMS if field in query}
    if since := query.get("sinceTime"):
        try:
            parse_layout(since)
        except TimeError as error:
            raise BadRequest(str(error)) from None
    if "sinceSeconds" in query and query.get("sinceTime"):
        return [fe.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")]
    for field, number in numbers.items():
        least = _LOG_MINIMUMS[field]
        if number < least:
            word = "must be greater than 0" if least else "must be greater than or equal to 0"
            errors.append(fe.invalid(field, number, word))
    return errors


_LOG_MINIMUMS = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}


def _chosen_container(pod: Object, wanted: str) -> str:
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    usual = [one.get("name") or "" for one in spec.get("containers") or ()]
    initial = [one.get("name") or "" for one in spec.get("initContainers") or ()]
    ephemeral = [one.get("name") or "" for one in spec.get("ephemeralContainers") or ()]
    if wanted:
        if wanted not in (*usual, *initial, *ephemeral):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(usual) == 1:
        return usual[0]
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in usual:
        return str(default)
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(usual)}]"
    if initial:
        text += f" or one of the init containers: [{' '.join(initial)}]"
    raise BadRequest(text)


async def _authorize_create(request: SubresourceRequest) -> None:
    """Require `create` also for GET, which opens WebSockets."""
    info = request.request.info
    if info.verb == "create" or not serving_version().enables("AuthorizePodWebsocketUpgradeCreatePermission"):
        return
    attributes = AuthorizationAttributes.of(request.request.user, info)._replace(verb="create")
    decision, reason = await request.store.server.authorizer.authorize(attributes)
    if decision is not Decision.ALLOW:
        raise forbidden(PODS, request.name, reason)


async def _stream(request: SubresourceRequest) -> HTTPResponse:
    await _authorize_create(request)
    pod, query, container = await request.get(), request.request.query, ""
    if request.subresource != "portforward":
        container = _chosen_container(pod, query.get("container") or "")
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        raise BadRequest(f"pod {request.name} does not have a host assigned")
    from kubewright.controlplane.kubelets.kubelets import forward_to_node, pod_path

    kind = "portForward" if request.subresource == "portforward" else request.subresource
    options = [("command", value) for value in query.all("command")]
    options += [("port", value) for value in query.all("ports")]
    options += [(name, "1") for field, name in _KUBELET_FLAGS if query.is_true(field)]
    path = pod_path(kind, request.namespace, request.name, container)
    return await forward_to_node(request, node, path, options)


_KUBELET_FLAGS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
"""Flags of exec and attach, and their names in the kubelet API."""


def split_target(text: str, what: str) -> tuple[str, str, str]:
    """Split the target of a proxy request: `name`, `name:port` or `scheme:name:port`."""
    match text.split(":"):
        case [name]:
            scheme, port = "", ""
        case [name, port]:
            scheme = ""
        case [scheme, name, port]:
            pass
        case _:
            name = ""
    if not name or scheme not in ("", "http", "https"):
        raise BadRequest(f'invalid {what} request "{text}"')
    return scheme, name, port


async def _proxy(request: SubresourceRequest) -> HTTPResponse:
    scheme, name, port = split_target(request.name, "pod")
    pod = await request.store.get_object(request.version, request.namespace, name)
    from kubewright.controlplane.kubelets.kubelets import forward_to_pod
    from kubewright.controlplane.kubelets.pod_connections import is_global_unicast

    host = (pod.get("status") or {}).get("podIP") or ""
    if not is_global_unicast(host):
        raise BadRequest("address not allowed")
    if not port:
        first = [one["ports"][0] for one in pod["spec"].get("containers") or () if one.get("ports")]
        port = str(first[0].get("containerPort")) if first else ("443" if scheme == "https" else "80")
    if not port.isdecimal() or not 0 < int(port) <= 0xFFFF:
        raise ServiceUnavailable(f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port")
    return await forward_to_pod(request, pod, port, host=host, tls=scheme == "https")


_STREAMS: tuple[tuple[str, ConnectFieldType], ...] = (
    ("stdin", "boolean"),
    ("stdout", "boolean"),
    ("stderr", "boolean"),
    ("tty", "boolean"),
    ("container", "string"),
)


def _options(kind: str) -> GroupVersionKind:
    return GroupVersionKind("", "v1", kind)


SUBRESOURCES = {
    "binding": Subresource(handler=bind, verbs=("create",), kind=_options("Binding"), status_code=201),
    "eviction": Subresource(
        handler=evict,
        verbs=("create",),
        kind=GroupVersionKind("policy", "v1", "Eviction"),
        body_versions=("policy/v1beta1",),
        status_code=201,
    ),
    "ephemeralcontainers": Subresource(verbs=("get", "patch", "update")),
    "resize": Subresource(verbs=("get", "patch", "update")),
    "log": Subresource(handler=_logs, verbs=("get",), decodes=False),
    "exec": Subresource(
        handler=_stream,
        verbs=("create", "get"),
        kind=_options("PodExecOptions"),
        decodes=False,
        connects=True,
        connect_fields=(*_STREAMS, ("command", "strings")),
    ),
    "attach": Subresource(
        handler=_stream,
        verbs=("create", "get"),
        kind=_options("PodAttachOptions"),
        decodes=False,
        connects=True,
        connect_fields=_STREAMS,
    ),
    "portforward": Subresource(
        handler=_stream,
        verbs=("create", "get"),
        kind=_options("PodPortForwardOptions"),
        decodes=False,
        connects=True,
        connect_fields=(("ports", "integers"),),
    ),
    "proxy": Subresource(
        handler=_proxy,
        verbs=("create", "delete", "get", "patch", "update"),
        kind=_options("PodProxyOptions"),
        decodes=False,
        connects=True,
        connect_fields=(("path", "path"),),
    ),
}
