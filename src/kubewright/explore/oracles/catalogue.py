"""All variations of a scenario, and those of a replay token."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubewright.explore.state import is_of_user

from .clock import Clock
from .collisions import Collisions
from .control import Control
from .deletion import Deletion, EarlyDeletion, NamespaceDeletion, belongs_to, early_deletions
from .inputs import ChangedInput, LateInput, inputs
from .instances import Instances
from .names import VARIATIONS
from .probe import Probe
from .repetition import ApplyAgain, Split
from .representations import Pages, Versions, served_versions
from .restart import OtherProcess, Restart, Settled, operator_reference
from .round_trip import CreateAgain, RoundTrip, round_trips
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.state import ClusterState, StateObject

CLASSES: Final = (
    Restart,
    Settled,
    OtherProcess,
    Deletion,
    EarlyDeletion,
    NamespaceDeletion,
    CreateAgain,
    Instances,
    Collisions,
    ApplyAgain,
    Split,
    Pages,
    Versions,
    RoundTrip,
    ChangedInput,
    LateInput,
    Control,
    Clock,
)
MAX_ROUND_TRIPS = 20
"""Number of fields of a scenario that are changed and changed back."""


def parse_variation(text: str) -> Variation:
    """Return the variation of a text; raise `ValueError`."""
    name, _, target = text.partition(":")
    for each in CLASSES:
        if each.name == name:
            return each(target)
    raise ValueError(f"unknown variation {name!r}; expected one of {', '.join(VARIATIONS)}")


def variations_of(probe: Probe, reference: Run, allowed: Collection[str]) -> list[str]:
    """Return the texts of the variations of a scenario, without those that are allowed to differ.

    `probe` is that of a cluster in which only the setup exists; the steps are those of the reference run.
    """
    return [str(each) for each in _all(probe, reference) if each.name not in allowed]


def _all(probe: Probe, reference: Run) -> Iterator[Variation]:
    yield Restart()
    yield Settled()
    yield Deletion()
    yield ApplyAgain()
    yield Pages()
    if operator_reference(probe.run) and Path(probe.run.scenario.file).is_file():
        yield OtherProcess()
    state = _newest_with_objects(probe, reference)
    if state is None:
        return
    found = [
        each for objects in (state.baseline, state.objects) for each in objects.values() if is_of_user(each)
    ]
    custom = [each for each in found if each.key[:2] in probe.custom_kinds and not each.is_deleting]
    requests = {each.text.partition(" ")[2] for each in reference.trace.points("reconcile")}
    reconciled = [each for each in custom if f"{each.namespace}/{each.name}".lstrip("/") in requests]
    if reconciled:
        yield CreateAgain()
        yield CreateAgain("quick")
        yield Split()
        yield Instances("name")
        yield Collisions()
        if state is reference.state and any(_has_children_elsewhere(state, each) for each in reconciled):
            yield Instances("namespace")
        if any(each.namespace for each in reconciled):
            yield NamespaceDeletion()
        yield from early_deletions(reference.trace)
    if any(len(served_versions(probe, each.key[:2])) > 1 for each in custom):
        yield Versions()
    trips = list(round_trips(probe, state, reconciled))
    yield from trips[:MAX_ROUND_TRIPS]
    later = [each.partition(" ") for each in reference.steps]
    steps = " ".join(rest for verb, _, rest in later if verb in ("patch", "delete"))
    changed = frozenset(str(each) for each in found if f"{each.key.kind} {each.name}" in steps)
    read = {
        each.text.rpartition(" ")[2]
        for each in reference.trace.points("read")
        if each.text.startswith("get ")
    }
    others = [each for each in found if each not in reconciled]
    yield from inputs(others, changed, read, lambda each: each.key[:2] in probe.custom_kinds)


def _newest_with_objects(probe: Probe, reference: Run) -> ClusterState | None:
    """Return the newest state of the reference run with a custom resource of the user, or the last one."""
    last = reference.state
    if last is None:
        return None
    for state in (last, *last.earlier()):
        for objects in (state.objects, state.baseline):
            if any(
                is_of_user(each) and each.key[:2] in probe.custom_kinds and not each.is_deleting
                for each in objects.values()
            ):
                return state
    return last


def _has_children_elsewhere(state: ClusterState, obj: StateObject) -> bool:
    """Whether objects outside of the namespace of an instance belong to it: their names can collide."""
    return bool(obj.namespace) and any(
        each.namespace != obj.namespace and not is_of_user(each) and belongs_to(each, obj) for each in state
    )
