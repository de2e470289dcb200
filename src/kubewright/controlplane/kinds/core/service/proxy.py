"""The `proxy` subresource of services."""

from __future__ import annotations

from kubewright.api.errors import ServiceUnavailable, not_found
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.objects import Object
from kubewright.apiserver.subresource import Subresource, SubresourceRequest
from kubewright.controlplane.kinds.core.pod.subresources import split_target


async def _proxy(request: SubresourceRequest) -> HTTPResponse:
    _, name, port = split_target(request.name, "service")
    if port.isdigit():
        service = await request.store.get_object(request.version, request.namespace, name)
        if all(each.get("port") != int(port) for each in service["spec"].get("ports") or ()):
            raise ServiceUnavailable(f'no service port {port} found for service "{name}"')
    endpoints = request.store.server.store("", "endpoints")
    if endpoints is None or await endpoints.storage.get(endpoints.key(request.namespace, name)) is None:
        raise not_found(GroupResource("", "services"), name)
    version = endpoints.resource.version(endpoints.resource.storage_version)
    assert version is not None
    found = await endpoints.get_object(version, request.namespace, name)
    target = await _ready_pod(request, found, port)
    if target is None:
        raise ServiceUnavailable(f'no endpoints available for service "{name}"')
    from kubewright.controlplane.kubelets import forward_to_pod

    return await forward_to_pod(request, *target)


async def _ready_pod(request: SubresourceRequest, endpoints: Object, port: str) -> tuple[Object, str] | None:
    """Return a ready pod of the service and its port; `port` is a number or a name of the service."""
    pods = request.store.server.store("", "pods")
    services = await request.store.get_object(
        request.version, request.namespace, endpoints["metadata"]["name"]
    )
    declared = [
        each
        for each in services["spec"].get("ports") or ()
        if not port or port in (str(each.get("port")), each.get("name"))
    ]
    name = (declared[0].get("name") or "") if declared else port
    for subset in endpoints.get("subsets") or ():
        numbers = [each["port"] for each in subset.get("ports") or () if (each.get("name") or "") == name]
        for address in subset.get("addresses") or ():
            reference = address.get("targetRef") or {}
            if pods is None or not numbers or reference.get("kind") != "Pod":
                continue
            version = pods.resource.version(pods.resource.storage_version)
            assert version is not None
            pod = await pods.get_object(version, request.namespace, reference["name"])
            return pod, str(numbers[0])
    return None


PROXY = Subresource(
    handler=_proxy,
    verbs=("create", "delete", "get", "patch", "update"),
    kind=GroupVersionKind("", "v1", "ServiceProxyOptions"),
    decodes=False,
    connects=True,
    connect_fields=(("path", "path"),),
)
