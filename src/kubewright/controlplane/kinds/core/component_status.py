"""Component statuses: the old way to ask whether the parts of a control plane are well.

Nothing is stored: the parts run in this process, and whoever gets an answer knows that they do.
"""

from __future__ import annotations

from typing import Any

from msgspec import json

from kubewright.api.errors import not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.objects import Object
from kubewright.apiserver.rest.options import parse_list_options
from kubewright.apiserver.rest.selection import selection_of
from kubewright.apiserver.subresource import SubresourceRequest
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import NAME, column, name_of

_PARTS = {
    "controller-manager": "",
    "scheduler": "this control plane has no scheduler",
    "etcd-0": "",
}
"""The parts that the kind has always listed, and what is wrong with them."""


def _status_of(name: str) -> Object:
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [
            {
                "type": "Healthy",
                "status": "False" if _PARTS[name] else "True",
                "message": _PARTS[name] or "ok",
            }
        ],
    }


async def _get(asked: SubresourceRequest) -> Object:
    if asked.name not in _PARTS:
        raise not_found(GroupResource("", "componentstatuses"), asked.name)
    return _status_of(asked.name)


async def _list(asked: SubresourceRequest) -> Object:
    options = parse_list_options(asked.request)
    selection = selection_of(asked.resource, asked.version, options.labels, options.fields)
    items = [
        item
        for item in map(_status_of, _PARTS)
        if selection is None or selection.matches(selection.facts(json.encode(item)))
    ]
    for item in items:
        del item["kind"], item["apiVersion"]
    return {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}


def _cells(obj: Object) -> list[Any]:
    healthy = next((one for one in obj.get("conditions") or () if one.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(obj), "Unknown", "", ""]
    word = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), word, healthy.get("message") or "", healthy.get("error") or ""]


KIND = Kind(
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
