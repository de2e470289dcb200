"""What must hold at the end of every replay, whatever the operator is for.

| check | violated if |
|---|---|
| `hot-loop` | an object is reconciled or written again and again, although no other client changes anything |
| `failing-reconcile` | a reconcile fails at the end, and is retried |
| `stuck-finalizer` | an object that the operator reconciles is being deleted and keeps its finalizers |
| `lost-child` | another client deleted an object of an owner that the operator reconciles, for good |
| `process-ended` | the process of the operator ended with an error |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubewright.recording.recording import Object, RecordedKey

from .attribution import finalizer_owners, is_of
from .history import WINDOW

if TYPE_CHECKING:
    from kubewright.rehearse.rehearsal import Rehearsal

    from .history import ReplayHistory

CHECKS: Final = ("hot-loop", "failing-reconcile", "stuck-finalizer", "lost-child", "process-ended")
MAX_RATE: Final = 1.0
"""Reconciles of one request per second, at the end of a replay."""
Kinds = Set[tuple[str | None, str]]
"""Groups, `None` for any, and lower-case kinds."""
_SERVER_FINALIZERS: Final = ("foregroundDeletion", "orphan", "kubernetes.io/", "kubernetes")


@dataclass(frozen=True, slots=True)
class ReplayViolation:
    """Something that must not be so at the end of a replay."""

    check: str
    message: str
    object: str = ""
    """The key of the object, or the request (namespace and name)."""

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


def check_replay(
    rehearsal: Rehearsal,
    history: ReplayHistory,
    kinds: Kinds,
    managers: Sequence[str],
) -> list[ReplayViolation]:
    """Return what a replay violates; `kinds` are the groups and kinds that the operator reconciles."""
    return [
        *_hot_loops(rehearsal, history),
        *_failing(rehearsal),
        *_stuck(history, kinds, managers),
        *_lost_children(history, kinds),
    ]


def _hot_loops(rehearsal: Rehearsal, history: ReplayHistory) -> Iterator[ReplayViolation]:
    if rehearsal.limit is not None:
        text = str(rehearsal.limit).removeprefix("hot loop: ")
        yield ReplayViolation("hot-loop", text, text.rpartition(" ")[2])
        return
    for controller, request in history.requests:
        rate = history.reconcile_rate((controller, request))
        if (controller, request) == history.hot or rate > MAX_RATE:
            message = f"{controller} reconciles {request} {rate:.1f} times per second for {WINDOW:g} s"
            yield ReplayViolation("hot-loop", message, request)


def _failing(rehearsal: Rehearsal) -> Iterator[ReplayViolation]:
    for error in rehearsal.failing():
        yield ReplayViolation("failing-reconcile", str(error), error.request)
    for error in rehearsal.errors:
        if error.message.startswith("the process ended"):
            yield ReplayViolation("process-ended", error.message)


def _stuck(history: ReplayHistory, kinds: Kinds, managers: Sequence[str]) -> Iterator[ReplayViolation]:
    for key, obj in history.current.items():
        metadata = obj.get("metadata") or {}
        own = [
            each
            for each in metadata.get("finalizers") or ()
            if each not in _SERVER_FINALIZERS and not each.startswith(_SERVER_FINALIZERS)
        ]
        if not _is_one_of(key, kinds) or not metadata.get("deletionTimestamp") or not own:
            continue
        owners = finalizer_owners(obj)
        if not owners or is_of(owners, managers):
            names = ", ".join(own)
            yield ReplayViolation("stuck-finalizer", f"{key} is being deleted and has {names}", str(key))


def _lost_children(history: ReplayHistory, kinds: Kinds) -> Iterator[ReplayViolation]:
    deleted = {
        change.key: change for change in history.changes if change.after is None and change.actor == "input"
    }
    for key, change in deleted.items():
        if key in history.current or change.before is None:
            continue
        owner = _controller(change.before, key, history)
        if owner is None or not _is_one_of(owner, kinds):
            continue
        is_intended = any(
            each.key == owner and each.actor == "input" and each.at >= change.at for each in history.changes
        )
        if not is_intended:
            message = f"{key} was deleted by another client, and {owner} did not restore it"
            yield ReplayViolation("lost-child", message, str(key))


def _controller(child: Object, key: RecordedKey, history: ReplayHistory) -> RecordedKey | None:
    """Return the owner that controls an object, if it exists and is not being deleted."""
    for reference in (child.get("metadata") or {}).get("ownerReferences") or ():
        if not reference.get("controller"):
            continue
        group = str(reference.get("apiVersion") or "").rpartition("/")[0]
        for namespace in (key.namespace, ""):
            owner = RecordedKey(group, str(reference.get("kind")), namespace, str(reference.get("name")))
            metadata = (history.current.get(owner) or {}).get("metadata") or {}
            if metadata.get("uid") == reference.get("uid") and not metadata.get("deletionTimestamp"):
                return owner
    return None


def _is_one_of(key: RecordedKey, kinds: Kinds) -> bool:
    return (key.group, key.kind.lower()) in kinds or (None, key.kind.lower()) in kinds
