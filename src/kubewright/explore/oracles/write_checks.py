"""Checks of writes.

- `two-writers`: two controllers of the operator do not write the same field in turns
- `needless-writes`: an idle operator does not send writes that change nothing, again and again
- `deletions`: after a fault, the operator deletes nothing that it keeps in the reference run
- `regression`: after a fault, a field does not go back to an earlier value, and forward again
- `regenerated`: a random value of a Secret is not replaced by another one
- `claims`: a PersistentVolumeClaim is not deleted and created again, which loses its data
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .history import RunHistory, leaves

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.runs.trace import TraceEvent
    from kubewright.explore.state import RequestRecord

MAX_NEEDLESS = 90
"""Writes of one object without a change that are allowed in an hour: fewer than every 40 seconds."""
_CONTENT = (".spec", ".data", ".stringData", ".rules", ".subjects")
_WRITES = ("create ", "delete ", "patch ", "update ")


def fields_with_two_writers(history: RunHistory) -> Iterator[str]:
    """Return fields that two controllers change in turns."""
    writers: dict[tuple[str, str], list[str]] = {}
    for change in history.changes:
        if change.write is None or not change.write.reconcile:
            continue
        controller = change.write.reconcile.partition(" ")[0]
        before = dict(leaves(change.before.data)) if change.before is not None else {}
        for path, value in leaves(change.object.data):
            if not path.startswith((".spec", ".data", ".status")) or before.get(path) == value:
                continue
            known = writers.setdefault((change.object.uid, path), [])
            if not known or known[-1] != controller:
                known.append(controller)
            if len(known) == 3:
                yield (
                    f"{change.object}: {path[1:]} is written by the controllers {known[0]} and {known[1]} in "
                    "turns; let one of them own the field"
                )


def needless_writes(requests: Sequence[RequestRecord], since: float) -> Iterator[str]:
    """Return writes of an idle hour that change nothing, if there are too many of one object."""
    found = Counter(
        str(each)
        for each in requests
        if each.actor == "operator" and each.is_write and each.is_applied and not each.is_changed
        if each.time >= since
    )
    for text, count in found.items():
        if count > MAX_NEEDLESS:
            yield f"`{text}` changed nothing {count} times in an idle hour; compare before you write"


def unexpected_deletions(trace: Sequence[TraceEvent], reference: Run) -> Iterator[str]:
    """Return objects that the operator has deleted in this run, and keeps in the reference run."""
    expected = {each.text for each in reference.trace.events if _is_deletion(each)}
    state = reference.state
    kept = {} if state is None else {_where(each.namespace, each.name): each for each in state}
    external = {key.removeprefix("external ") for key in reference.final_state if key.startswith("external ")}
    for each in trace:
        if not _is_deletion(each) or each.text in expected:
            continue
        if each.kind == "external":
            if each.text.partition(" ")[2] in external:
                yield f"`{each.text}`: it is deleted, and not in the reference run"
            continue
        obj = kept.get(each.text.rpartition(" ")[2])
        resource = each.text.split(" ")[1].partition(".")[0]
        if obj is not None and f"/{resource}/" in obj.storage_key and not obj.metadata.get("generateName"):
            yield (
                f"{obj} is deleted by the operator, and not in the reference run; decide on deletions from "
                "current reads, with preconditions"
            )


def _is_deletion(event: TraceEvent) -> bool:
    return event.kind in ("write", "external") and event.text.startswith("delete ") and 0 < event.status < 300


def _where(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def regressions(history: RunHistory, reference: RunHistory) -> Iterator[str]:
    """Return fields that go back to an earlier value and forward again, and do not in the reference run."""
    expected = {(key, path) for key, path, _ in _returning(reference)}
    seen: set[str] = set()
    for key, path, text in _returning(history):
        if (key, path) not in expected and key not in seen:
            seen.add(key)
            yield text


def _returning(history: RunHistory) -> Iterator[tuple[str, str, str]]:
    values: dict[tuple[str, str], list[Any]] = {}
    for change in history.changes:
        obj = change.object
        is_written = change.write is not None
        for path, value in leaves(obj.data):
            if not path.startswith(_CONTENT):
                continue
            known = values.setdefault((obj.uid, path), [])
            if known and known[-1] == value:
                continue
            known.append(value)
            if is_written and len(known) >= 4 and known[-4:-2] == known[-2:]:
                old, new = known[-2:]
                yield (
                    str(obj.key),
                    path,
                    f"{obj}: {path[1:]} goes back to {old!r} and then to {new!r} again; do not act on stale "
                    "reads",
                )


def regenerated_values(history: RunHistory, random_values: Collection[str]) -> Iterator[str]:
    """Return random values of Secrets that were replaced by others.

    `random_values` are `namespace/name:key`. Values of a new Secret for another owner may differ.
    """
    known: dict[tuple[str, str], Any] = {}
    seen: set[str] = set()
    for change in history.changes:
        obj = change.object
        if obj.key[:2] != ("", "Secret"):
            continue
        for name, value in (obj.data.get("data") or {}).items():
            where = f"{obj.namespace}/{obj.name}:{name}"
            if where not in random_values or where in seen:
                continue
            if known.setdefault((where, obj.controller_uid), value) != value:
                seen.add(where)
                yield (
                    f"the value {name} of {obj} was generated again; what uses the old one fails, so keep it "
                    "if it exists"
                )


def replaced_claims(history: RunHistory) -> Iterator[str]:
    """Return PersistentVolumeClaims that were deleted and created again without a request of the user.

    A claim that is deleted when the user scales down, and created when they scale up again, is another one.
    """
    known: dict[str, tuple[str, int]] = {}
    requests = [
        each for each in history.trace.events if each.kind == "request" and each.process == "scenario"
    ]
    deletions = [each.number for each in requests if each.text.startswith("delete ")]
    writes = [each.number for each in requests if each.text.startswith(_WRITES)]
    for change in history.changes:
        obj = change.object
        if obj.key[:2] != ("", "PersistentVolumeClaim") or change.write is None:
            continue
        created = change.write.number
        uid, number = known.setdefault(obj.storage_key, (obj.uid, created))
        known[obj.storage_key] = (obj.uid, created)
        if uid == obj.uid or any(number < each < created for each in deletions):
            continue
        text = f"delete persistentvolumeclaims {obj.namespace}/{obj.name}"
        removed = max(
            (
                each.number
                for each in history.trace.events
                if number < each.number < created and each.kind == "write" and each.text.startswith(text)
            ),
            default=number,
        )
        if not any(removed < each < created for each in writes):
            yield f"{obj} was deleted and created again, and its data is lost; change it, or keep it"
