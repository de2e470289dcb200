"""`CompositionStatus`: the status of a kind with a composition.

    class WebAppStatus(CompositionStatus):
        address: str | None = None                # set by a status function of the graph

The condition `Ready` says what is awaited; `objects` lists every object with its state.
"""

from __future__ import annotations

from typing import Annotated

from kubewright.api.markers import ListMap, ListType
from kubewright.api.meta import Condition
from kubewright.api.objects import Status, Struct


class ComposedObject(Struct):
    """State of an object of a composition, or of a node whose objects are not known yet."""

    node: str
    """Name of the node in the graph."""
    state: str
    """`Current`, `InProgress`, `Failed`, `Terminating`, or `Waiting` for dependencies."""
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    """Set if the object is in another namespace than its owner."""
    message: str | None = None
    """What is awaited."""


class CompositionStatus(Status):
    """State of the objects of a composition."""

    observed_generation: int | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    objects: Annotated[list[ComposedObject], ListType("atomic")] | None = None
    """The objects in the order in which they are applied."""
