"""Distribution of endpoints over EndpointSlices, with few writes.

Slices have a limited size. Endpoints stay in the slice that contains them; new ones fill the slices that have
to be written anyway, then one slice that can hold all of them, then new slices. Slices are never
rebalanced, because every write is sent to every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kubewright.api.discovery.v1 import Endpoint, EndpointPort, EndpointSlice

EndpointKey = tuple[tuple[str, ...], str, str, str]
PortsKey = tuple[tuple[str, str, int, str], ...]


@dataclass(slots=True)
class SliceChanges:
    """The writes that bring slices into their desired state."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[EndpointSlice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    def add(self, other: SliceChanges) -> None:
        """Add the changes of another group of slices."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete

    def recycle(self, is_owned: Callable[[EndpointSlice], bool]) -> None:
        """Replace pairs of a deletion and a creation by an update of the slice that would be deleted."""
        kept = []
        for slice_ in self.delete:
            new = self.create[-1] if self.create else None
            if new is None or new.address_type != slice_.address_type or not is_owned(slice_):
                kept.append(slice_)
                continue
            self.create.pop()
            slice_.endpoints, slice_.ports = new.endpoints, new.ports
            slice_.metadata.labels = new.metadata.labels
            slice_.metadata.annotations = new.metadata.annotations
            slice_.metadata.owner_references = new.metadata.owner_references
            self.update.append(slice_)
        self.delete = kept


def endpoint_key(endpoint: Endpoint) -> EndpointKey:
    """Return what identifies an endpoint; other fields can be updated in place."""
    target = endpoint.target_ref
    return (
        tuple(sorted(endpoint.addresses or ())),
        endpoint.hostname or "",
        (target.namespace or "") if target is not None else "",
        (target.name or "") if target is not None else "",
    )


def ports_key(ports: Iterable[EndpointPort] | None) -> PortsKey:
    """Return a hashable form of ports that does not depend on their order."""
    return tuple(
        sorted(
            (each.name or "", each.protocol or "TCP", each.port or 0, each.app_protocol or "")
            for each in ports or ()
        )
    )


def equals_except_hints(one: Endpoint, other: Endpoint) -> bool:
    """Whether two endpoints with the same key are equal; hints are compared separately."""
    return (
        one.conditions == other.conditions
        and one.node_name == other.node_name
        and one.zone == other.zone
        and (one.target_ref.uid if one.target_ref else None)
        == (other.target_ref.uid if other.target_ref else None)
    )


def pack_endpoints(
    existing: Iterable[EndpointSlice],
    desired: dict[EndpointKey, Endpoint],
    *,
    new_slice: Callable[[], EndpointSlice],
    set_labels: Callable[[EndpointSlice], bool],
    maximum: int,
) -> SliceChanges:
    """Return the changes of slices with the same ports. `desired` is emptied, `existing` may be changed.

    `set_labels` updates the labels of a slice and returns whether they changed.
    """
    changes = SliceChanges()
    unchanged: list[EndpointSlice] = []
    for slice_ in existing:
        kept: list[Endpoint] = []
        changed = set_labels(slice_)
        for endpoint in slice_.endpoints or ():
            wanted = desired.pop(endpoint_key(endpoint), None)
            if wanted is None:
                changed = True
                continue
            if equals_except_hints(endpoint, wanted):
                wanted = endpoint
            else:
                changed = True
            kept.append(wanted)
        if not changed:
            unchanged.append(slice_)
        elif kept:
            slice_.endpoints = kept
            changes.update.append(slice_)
        else:
            changes.delete.append(slice_)
    left = list(desired.values())
    desired.clear()
    for slice_ in sorted(changes.update, key=lambda each: -len(each.endpoints or ())):
        left = _fill(slice_, left, maximum)
    while left:
        target = _best_fit(unchanged, len(left), maximum)
        if target is None:
            target = new_slice()
            changes.create.append(target)
        else:
            unchanged.remove(target)
            changes.update.append(target)
        left = _fill(target, left, maximum)
    return changes


def _fill(slice_: EndpointSlice, endpoints: list[Endpoint], maximum: int) -> list[Endpoint]:
    """Add endpoints to a slice; return those that do not fit."""
    current = list(slice_.endpoints or ())
    capacity = maximum - len(current)
    slice_.endpoints = [*current, *endpoints[:capacity]]
    return endpoints[capacity:]


def _best_fit(slices: Iterable[EndpointSlice], count: int, maximum: int) -> EndpointSlice | None:
    """Return the slice that is fullest after `count` endpoints are added; `None` if none has the capacity."""
    if count >= maximum:
        return None
    fitting = [each for each in slices if len(each.endpoints or ()) + count <= maximum]
    return max(fitting, key=lambda each: len(each.endpoints or ()), default=None)
