"""ComponentStatus: computed from the health checks of the server, not stored."""

from __future__ import annotations

from typing import Any

from msgspec import json

from kubewright.api.errors import not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import SubresourceRequest
from kubewright.apiserver.rest.options import parse_list_options
from kubewright.apiserver.rest.selection import make_selection
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import NAME, column, name_of

_CHECKS = {"controller-manager": "informer-sync", "scheduler": "scheduler", "etcd-0": "etcd"}
"""Health check of each component; a component without one is not running."""


async def _status(request: SubresourceRequest, name: str) -> Object:
    try:
        error = await request.store.server.health.run(_CHECKS[name])
        message = "ok" if error is None else str(error)
    except KeyError:
        message = f"{name} is not running"
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [
            {"type": "Healthy", "status": "True" if message == "ok" else "False", "message": message}
        ],
    }


async def _get(request: SubresourceRequest) -> Object:
    if request.name not in _CHECKS:
        raise not_found(GroupResource("", "componentstatuses"), request.name)
    return await _status(request, request.name)


async def _list(request: SubresourceRequest) -> Object:
    options = parse_list_options(request.request)
    selection = make_selection(request.resource, request.version, options.labels, options.fields)
    items = []
    for name in _CHECKS:
        item = await _status(request, name)
        if selection is None or selection.matches(selection.selectable(json.encode(item))):
            del item["kind"], item["apiVersion"]
            items.append(item)
    return {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}


def _cells(obj: Object) -> list[Any]:
    healthy = next((one for one in obj.get("conditions") or () if one.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(obj), "Unknown", "", ""]
    state = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), state, healthy.get("message") or "", healthy.get("error") or ""]


KINDS = {
    "componentstatuses": Kind(
        columns=(
            NAME,
            column("Status", description="Status of the component conditions"),
            column("Message", description="Message of the component conditions"),
            column("Error", description="Error of the component conditions"),
        ),
        cells=_cells,
        verbs={"get": _get, "list": _list},
        deprecation="v1 ComponentStatus is deprecated in v1.19+",
    )
}
