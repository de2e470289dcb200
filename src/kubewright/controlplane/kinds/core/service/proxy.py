"""The `proxy` subresource of services."""

from __future__ import annotations

from kubewright.api.errors import ServiceUnavailable, not_found
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
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
    raise ServiceUnavailable(f'no endpoints available for service "{name}"')


PROXY = Subresource(
    handler=_proxy,
    verbs=("create", "delete", "get", "patch", "update"),
    kind=GroupVersionKind("", "v1", "ServiceProxyOptions"),
    decodes=False,
    connects=True,
    connect_fields=(("path", "path"),),
)
