"""The `proxy` subresource of services."""

from __future__ import annotations

from kubewright.api.errors import NotFound, ServiceUnavailable, not_found
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import Subresource, SubresourceRequest
from kubewright.controlplane.kinds.core.pod.subresources import split_target


async def _proxy(request: SubresourceRequest) -> HTTPResponse:
    scheme, name, port = split_target(request.name, "service")
    if port.isdigit():
        service = await request.store.get_object(request.version, request.namespace, name)
        ports = [each for each in service["spec"].get("ports") or () if each.get("port") == int(port)]
        if not ports:
            raise ServiceUnavailable(f'no service port {port} found for service "{name}"')
        port = ports[0].get("name") or ""
    endpoints = request.store.server.store("", "endpoints")
    if endpoints is None or await endpoints.storage.get(endpoints.key(request.namespace, name)) is None:
        raise not_found(GroupResource("", "services"), name)
    version = endpoints.resource.version(endpoints.resource.storage_version)
    assert version is not None
    found = await endpoints.get_object(version, request.namespace, name)
    target = await _ready_pod(request, found, port)
    if target is None:
        asked = request.name if found.get("subsets") else name
        raise ServiceUnavailable(f'no endpoints available for service "{asked}"')
    from kubewright.controlplane.kubelets.kubelets import forward_to_pod

    pod, host, number = target
    return await forward_to_pod(request, pod, str(number), host=host, tls=scheme == "https")


async def _ready_pod(
    request: SubresourceRequest, endpoints: Object, port: str
) -> tuple[Object, str, int] | None:
    """Return a ready pod of the service, its address and its port; `port` is the name in the service."""
    pods = request.store.server.store("", "pods")
    assert pods is not None
    version = pods.resource.version(pods.resource.storage_version)
    assert version is not None
    for subset in endpoints.get("subsets") or ():
        numbers = [each["port"] for each in subset.get("ports") or () if (each.get("name") or "") == port]
        for address in subset.get("addresses") or ():
            reference = address.get("targetRef") or {}
            if not numbers or reference.get("kind") != "Pod":
                continue
            if reference.get("namespace") != request.namespace:
                continue
            try:
                pod = await pods.get_object(version, request.namespace, reference["name"])
            except NotFound:
                continue
            addresses = [each.get("ip") for each in (pod.get("status") or {}).get("podIPs") or ()]
            if address.get("ip") in addresses:
                return pod, address["ip"], numbers[0]
    return None


PROXY = Subresource(
    handler=_proxy,
    verbs=("create", "delete", "get", "patch", "update"),
    kind=GroupVersionKind("", "v1", "ServiceProxyOptions"),
    decodes=False,
    connects=True,
    connect_fields=(("path", "path"),),
)
