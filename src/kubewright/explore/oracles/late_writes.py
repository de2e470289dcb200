"""Late writes: what a leader that was paused writes when it continues, although another one has taken over.

A write without a precondition then replaces newer state. Leader election does not prevent it; a precondition
(`resource_version`, or an update of what was read) does for objects, and a fencing token for other systems.
Nearly every operator has such a write, so they are warnings, once for each scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.explore.final_state import Difference
    from kubewright.explore.runs.trace import Trace


def late_write_of(trace: Trace, faults: Sequence[Any], found: Sequence[Difference]) -> str:
    """Return the write of a paused leader that explains all differences; empty if none does."""
    points = {each.point for each in faults if each.action == "pause"}
    start = next((each for each in trace.events if each.point and each.point in points), None)
    if start is None:
        return ""
    late = [
        each
        for each in trace.events[start.number :]
        if each.process == start.process and each.kind in ("write", "external") and 0 < each.status < 300
    ]
    touched = {_object_of(each.text) for each in late if not _is_generated(each.text, each.body)}
    if late and all(_name_of(each.object) in touched for each in found):
        return late[0].text
    return ""


def _object_of(text: str) -> str:
    return text.rpartition(" ")[2]


def _name_of(key: str) -> str:
    return key.rpartition(" ")[2]


def _is_generated(text: str, body: bytes) -> bool:
    """Whether a write creates an object with a generated name: a fixed name prevents the second one."""
    return text.startswith("create ") and b'"generateName"' in body
