"""Types of `discovery.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList, ObjectReference
from kubewright.api.objects import Struct


class EndpointConditions(Struct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForNode(Struct):
    name: str | None = None


class ForZone(Struct):
    name: str | None = None


class EndpointHints(Struct):
    for_nodes: list[ForNode] | None = None
    for_zones: list[ForZone] | None = None


class Endpoint(Struct):
    addresses: list[str] | None = None
    conditions: EndpointConditions | None = None
    deprecated_topology: dict[str, str] | None = None
    hints: EndpointHints | None = None
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None
    zone: str | None = None


class EndpointPort(Struct):
    app_protocol: str | None = None
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(MetaObject):
    gvk = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")

    address_type: str | None = None
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None


class EndpointSliceList(ObjectList[EndpointSlice]):
    gvk = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSliceList")


__all__ = [
    "Endpoint",
    "EndpointConditions",
    "EndpointHints",
    "EndpointPort",
    "EndpointSlice",
    "EndpointSliceList",
    "ForNode",
    "ForZone",
]
