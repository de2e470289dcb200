"""Writes a replay as a test: a module with the objects and changes, and the check that is violated.

The module needs no file beside it. It fails with the version of the operator that violates the check, and
passes when it is fixed. `check_recording` is what it calls.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pprint import pformat
from typing import TYPE_CHECKING

from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.recording import Recording

from .replayer import replay_recording

if TYPE_CHECKING:
    from kubewright.explore.simulation.factories import OperatorFactory

    from .checks import ReplayViolation

WIDTH = 110


def check_recording(
    recording: Recording,
    operator: OperatorFactory | str,
    *,
    checks: Sequence[str] = (),
    managers: Sequence[str] = (),
) -> None:
    """Replay a recording, and raise `AssertionError` if a check is violated, by default any.

    `operator` is a function that returns a new operator, or `module:operator`.
    """
    factory = ModuleFactory(operator) if isinstance(operator, str) else operator
    replay = replay_recording(recording, factory, managers=managers)
    found = [str(each) for each in replay.violations if not checks or each.check in checks]
    if found:
        raise AssertionError("; ".join(found))
    if replay.skipped and not replay.applied:
        raise AssertionError(f"nothing was replayed: {replay.skipped[0]}")


def create_pytest_module(
    recording: Recording, reference: str, violation: ReplayViolation, *, managers: Sequence[str] = ()
) -> str:
    """Return the source of a test."""
    name = re.sub(r"\W+", "_", violation.check)
    changes = "".join(
        f"    RecordedChange(\n        at={each.at:g},\n        type={each.type!r},\n"
        + (f"        own={each.own!r},\n" if each.own else "")
        + f"        object={_literal(each.object, 8)},\n    ),\n"
        for each in recording.changes
    )
    objects = "".join(f"    {_literal(each, 4)},\n" for each in recording.objects)
    others = f", managers={tuple(managers)!r}" if managers else ""
    start = recording.start.replace(microsecond=0)
    return f'''"""Replays a recorded incident.

{_text(violation.message)}

Written by `kubewright replay --to-test` from a recording of {start:%Y-%m-%d %H:%M} UTC. It contains only
the objects and changes that matter.
"""

from datetime import UTC, datetime

from kubewright.recording import RecordedChange, Recording
from kubewright.rehearse import check_recording

OBJECTS = [
{objects}]
CHANGES = [
{changes}]


def test_{name}() -> None:
    recording = Recording(
        objects=OBJECTS,
        changes=CHANGES,
        start=datetime({start.year}, {start.month}, {start.day}, {start.hour}, {start.minute}, tzinfo=UTC),
        duration={recording.duration:g},
        kubernetes_version={recording.kubernetes_version!r},
    )
    check_recording(recording, {reference!r}, checks=[{violation.check!r}]{others})
'''


def _literal(value: object, indentation: int) -> str:
    """Return an object as source, with the lines indented."""
    text = pformat(value, width=WIDTH - indentation, sort_dicts=False)
    return text.replace("\n", "\n" + " " * indentation)


def _text(text: str) -> str:
    """Return a message as lines of a docstring."""
    text = text.replace('"""', "'''").replace("\\", "/")[:1000]
    return textwrap.fill(f"{text[:1].upper()}{text[1:]}.", WIDTH)
