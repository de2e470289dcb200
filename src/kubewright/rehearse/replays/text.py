"""The result of a replay as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.rehearse.plans.change_tree import shown_value

if TYPE_CHECKING:
    from .replayer import ReplayedRecording

MAX_FIELDS = 6


def replay_text(replay: ReplayedRecording) -> Iterator[str]:
    """Return the lines of a replay."""
    recording, history = replay.recording, replay.history
    operators = sum(each.actor == "operator" for each in replay.recorded.changes)
    yield (
        f"replayed {len(recording.objects)} objects and {replay.applied} of {len(recording.changes)} changes "
        f"in {history.now:.0f} virtual seconds; {operators} changes are those of the recorded operator"
    )
    yield (
        f"{replay.operator}: {len(history.reconciles)} reconciles, "
        f"{sum(each.actor == 'operator' for each in history.changes)} changes, {len(replay.errors)} errors"
    )
    for note in (*recording.notes, *replay.notes):
        yield f"note: {note}"
    for text in replay.skipped:
        yield f"not repeated: {text}"
    for difference in replay.differences:
        at = f"{difference.at:+.2f}s " if difference.at is not None else ""
        yield f"different: {at}{difference}"
        for each in difference.fields[:MAX_FIELDS]:
            yield f"    {each.path.lstrip('.')}: {shown_value(each.before)} -> {shown_value(each.after)}"
        if len(difference.fields) > MAX_FIELDS:
            yield f"    and {len(difference.fields) - MAX_FIELDS} more"
    for violation in replay.violations:
        yield f"violated: {violation}"
    if not replay.differences and not replay.violations:
        yield "this version acts as the recorded one, and violates no check"
