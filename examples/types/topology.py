"""List and map types for server-side apply: sets, maps, atomic lists, granular and atomic structs."""

from __future__ import annotations

from typing import Annotated, Literal

from kubewright.api import (
    Atomic,
    CustomResource,
    Int32,
    ListMap,
    ListSet,
    MapType,
    MaxItems,
    MaxLen,
    MinLen,
    Spec,
    Struct,
    StructType,
    mark,
    resource,
)


class Port(Struct):
    """A port; the protocol is a list-map key and therefore has a default."""

    number: Int32
    protocol: Literal["TCP", "UDP"] = "TCP"
    name: str | None = None


@mark(StructType("atomic"))
class Reference(Struct):
    """A reference that is replaced as a whole."""

    group: str
    name: str


HostName = Annotated[str, MinLen(1), MaxLen(253)]


class RouteSpec(Spec):
    """Desired state of a route."""

    hosts: Annotated[set[HostName], MaxItems(16)]
    ports: Annotated[list[Port], ListMap("number", "protocol")]
    order: Annotated[list[str], Atomic] | None = None
    owners: Annotated[list[str], ListSet] | None = None
    weights: Annotated[dict[str, Int32], MapType("atomic")] | None = None
    labels: Annotated[dict[str, str], MapType("granular")] | None = None
    backend: Reference
    matrix: list[list[int]] | None = None


@resource(group="net.example.com", version="v1", singular="route")
class Route(CustomResource[RouteSpec, None]):
    """A route."""
