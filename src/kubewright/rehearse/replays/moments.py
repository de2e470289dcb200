"""The steps of a replay as plain data, for a time slider: objects, queues and causes at each moment.

    document = moments_of(replay)
    objects = objects_at(document, 3)

`kubewright replay --json FILE` writes the document. It has these fields:

| field | content |
|---|---|
| `format` | 1 |
| `operator`, `source`, `start`, `duration` | of the recording; the start is a time, the duration seconds |
| `objects` | the objects before the operator started, by key: `ConfigMap shop/a`, `Shop.example.com shop/a` |
| `moments` | changes and reconciles, in order |
| `violations` | `check`, `message` and `object` |
| `differences` | `object`, `text`, `at` and `fields` (`path`, `recorded`, `replayed`) |
| `skipped`, `notes` | recorded changes that could not be repeated; what else is missing |

A moment has `at` (seconds since the start of the recording, negative while the operator starts), `kind`
(`change` or `reconcile`), a `text`, and `queues` (name, depth, waiting, active and failing requests of each
controller). A change has `actor` (`input`, `operator` or `control plane`), `operation`, `key`, the changed
`fields` and the `object`, which is null if it was deleted. A reconcile has `reconcile`: the span with its
causes, reads, writes, result and error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.recording.recording import Object
from kubewright.recording.redaction import Redactor

if TYPE_CHECKING:
    from .replayer import ReplayedRecording

FORMAT = 1
_OPERATIONS = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


def moments_of(replay: ReplayedRecording) -> dict[str, Any]:
    """Return the document of a replay; values of secrets are placeholders."""
    redactor, history = Redactor(), replay.history
    moments: list[tuple[float, int, dict[str, Any]]] = []
    for change in history.changes:
        operation = _OPERATIONS[change.type]
        moments.append(
            (
                change.at,
                0,
                {
                    "at": change.at,
                    "kind": "change",
                    "actor": change.actor,
                    "operation": operation,
                    "key": str(change.key),
                    "fields": change.paths,
                    "text": f"{operation} {change.key}",
                    "object": redactor.redact(change.after) if change.after is not None else None,
                    "queues": redactor.texts(change.queues),
                },
            )
        )
    for reconcile in history.reconciles:
        span = reconcile.span
        result = span["error"] or span["result"]
        moments.append(
            (
                reconcile.at,
                1,
                {
                    "at": reconcile.at,
                    "kind": "reconcile",
                    "actor": "operator",
                    "text": redactor.text(f"reconcile {span['controller']} {span['request']}: {result}"),
                    "reconcile": redactor.texts(span),
                    "queues": redactor.texts(reconcile.queues),
                },
            )
        )
    return {
        "format": FORMAT,
        "operator": replay.operator,
        "source": replay.recording.source,
        "start": replay.recording.start.isoformat(),
        "duration": replay.recording.duration,
        "objects": {str(key): redactor.redact(obj) for key, obj in history.initial.items()},
        "moments": [each for _, _, each in sorted(moments, key=lambda each: each[:2])],
        "violations": [
            {"check": each.check, "message": redactor.text(each.message), "object": each.object}
            for each in replay.violations
        ],
        "differences": [
            {
                "object": str(each.key),
                "text": each.text,
                "at": each.at,
                "fields": [
                    {"path": one.path, "recorded": one.before, "replayed": one.after} for one in each.fields
                ],
            }
            for each in replay.differences
        ],
        "skipped": redactor.texts(replay.skipped),
        "notes": redactor.texts([*replay.recording.notes, *replay.notes]),
    }


def objects_at(document: dict[str, Any], moment: int) -> dict[str, Object]:
    """Return the objects after a moment (its number; -1: before the first), by key."""
    found: dict[str, Object] = dict(document["objects"])
    for each in document["moments"][: moment + 1]:
        if each["kind"] == "change":
            if each["object"] is None:
                found.pop(each["key"], None)
            else:
                found[each["key"]] = each["object"]
    return found
