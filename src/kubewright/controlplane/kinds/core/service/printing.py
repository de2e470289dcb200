"""Table columns and cells of services."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.printing import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    age_of,
    column,
    labels_text,
    name_of,
)


def _external(obj: Object) -> str:
    spec = obj.get("spec") or {}
    listed = spec.get("externalIPs") or []
    if spec.get("type") in ("ClusterIP", "NodePort"):
        return ",".join(listed) or NONE
    if spec.get("type") == "LoadBalancer":
        ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        points = sorted({one.get("ip") or one.get("hostname") or "" for one in ingress} - {""})
        return ",".join([*points, *listed]) or "<pending>"
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "")
    return UNKNOWN


def cells(obj: Object) -> list[Any]:
    """Return the cells of a service."""
    spec = obj.get("spec") or {}
    ports = ",".join(
        f"{one.get('port')}:{one['nodePort']}/{one.get('protocol')}"
        if one.get("nodePort")
        else f"{one.get('port')}/{one.get('protocol')}"
        for one in spec.get("ports") or ()
    )
    return [
        name_of(obj),
        spec.get("type") or "",
        (spec.get("clusterIPs") or [NONE])[0],
        _external(obj),
        ports or NONE,
        age_of(obj),
        labels_text(spec.get("selector")),
    ]


COLUMNS = (
    NAME,
    column("Type", description="Type of the service."),
    column("Cluster-IP", description="Address in the cluster."),
    column("External-IP", description="Addresses outside of the cluster."),
    column("Port(s)", description="Ports of the service."),
    AGE,
    column("Selector", description="Labels of the pods.", wide=True),
)
