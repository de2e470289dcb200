"""`RunHistory`: the states of a run, oldest first, and the writes that caused them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import Trace, TraceEvent
    from kubewright.explore.state import ClusterState, StateObject

_SERVER_FIELDS = frozenset(
    ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
)


class Change(NamedTuple):
    """An object that was created or changed."""

    state: ClusterState
    object: StateObject
    before: StateObject | None
    """The version before; `None` if the object was created."""
    write: TraceEvent | None
    """The write of the operator; `None` if something else changed the object."""


class RunHistory:
    """What happened in a run, for checks at its end."""

    def __init__(self, state: ClusterState, trace: Trace) -> None:
        self.state = state
        self.trace = trace

    @cached_property
    def states(self) -> list[ClusterState]:
        """All states, oldest first."""
        return [self.state, *self.state.earlier()][::-1]

    @cached_property
    def writes(self) -> dict[int, TraceEvent]:
        """Successful writes of the operator by the revision that they have stored."""
        return {
            each.revision: each
            for each in self.trace.events
            if each.kind == "write" and each.revision and each.status < 300
        }

    @cached_property
    def changes(self) -> list[Change]:
        """All created and changed objects, in order."""
        found = []
        for state in self.states:
            for obj in state.changed():
                before = state.previous.objects.get(obj.storage_key) if state.previous is not None else None
                known = before if before is not None and before.uid == obj.uid else None
                found.append(Change(state, obj, known, self.writes.get(obj.revision)))
        return found

    @cached_property
    def by_uid(self) -> dict[str, StateObject]:
        """The first version of every object that ever existed, by UID."""
        found: dict[str, StateObject] = {}
        for state in self.states:
            for objects in (state.baseline, state.objects):
                for each in objects.values():
                    found.setdefault(each.uid, each)
        return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the paths and values of the scalar fields of an object, without those of the server."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not (path == ".metadata" and name in _SERVER_FIELDS):
                yield from leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value
