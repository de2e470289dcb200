"""`replay_recording`: runs an operator on a recording, in virtual time.

1. The control plane starts with the objects at the start of the recording, `WARM_UP` seconds before it.
2. CRDs and webhooks of the operator are installed, and it starts.
3. The inputs are written at their recorded times.
4. It runs until nothing has changed for 30 virtual seconds, at most ten minutes.

The wall clock of the operator is that of the recording.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from kubewright.explore.simulation.loop import Livelock
from kubewright.explore.state import split_kind
from kubewright.manager import Operator
from kubewright.manager.operators.installation import definitions_of
from kubewright.recording import Recording
from kubewright.recording.recording import Object, RecordedKey
from kubewright.rehearse.rehearsal import QUIET_SECONDS, OperatorError, Rehearsal
from kubewright.rehearse.snapshot import ClusterSnapshot

from .checks import ReplayViolation, check_replay
from .comparison import Difference, compare_changes
from .history import ReplayHistory
from .input_writer import InputWriter
from .inputs import RecordedInputs, read_inputs

if TYPE_CHECKING:
    from kubewright.explore.simulation.factories import OperatorFactory

WARM_UP = 30.0
LIMIT_SECONDS = 600.0
RESOLUTION = 0.0001


@dataclass(slots=True, kw_only=True)
class ReplayedRecording:
    """The result of a replay."""

    recording: Recording = field(repr=False)
    operator: str
    history: ReplayHistory = field(repr=False)
    recorded: RecordedInputs = field(repr=False)
    violations: list[ReplayViolation] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    """Where this version acts differently."""
    errors: list[OperatorError] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Recorded changes that could not be repeated."""
    applied: int = 0
    """Number of recorded changes that were repeated."""
    is_settled: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


def replay_recording(
    recording: Recording,
    factory: OperatorFactory,
    *,
    managers: Sequence[str] = (),
    seed: int = 0,
    limit: float = LIMIT_SECONDS,
) -> ReplayedRecording:
    """Run an operator on a recording.

    The changes of the recorded operator are not repeated: those with the name of this one, or of that in the
    recording, as their field manager, or one of `managers`.
    """
    operator = factory()
    if not isinstance(operator, Operator):
        raise TypeError("only operators of Kubewright can be replayed")
    names = tuple(dict.fromkeys((*managers, operator.name, *filter(None, (recording.operator,)))))
    start = recording.start - timedelta(seconds=WARM_UP)
    snapshot = ClusterSnapshot.of(
        [*_missing_definitions(recording, operator), *recording.objects],
        kubernetes_version=recording.kubernetes_version,
        time=start,
    )
    rehearsal = Rehearsal(snapshot, seed=seed)
    recorded = read_inputs(recording, names)
    with rehearsal.started():
        loop, cluster = rehearsal.loop, rehearsal.cluster
        history = ReplayHistory(lambda: loop.now, recording.start.timestamp(), names)
        history.base = WARM_UP
        replay = ReplayedRecording(
            recording=recording, operator=operator.name, history=history, recorded=recorded
        )
        rehearsal.run(cluster.install(operator))
        history.load(recording.objects)
        cluster.plane.server.dispatcher.listeners.append(history)
        cluster.on_manager = history.follow
        cluster.on_limit = _both(cluster.on_limit, history.end_run)
        rehearsal.start_operator(factory)
        writer = InputWriter(cluster.plane, history, recorded)
        try:
            rehearsal.run(_drive(replay, rehearsal, writer, limit))
        except Livelock as error:
            replay.violations.append(ReplayViolation("hot-loop", str(error)))
        history.attribute_requests(cluster.requests)
        kinds = frozenset(split_kind(each.kind) for each in operator.reconcilers)
        replay.violations += check_replay(rehearsal, history, kinds, names)
        replay.errors, replay.skipped = list(rehearsal.errors), writer.skipped
        replay.applied = writer.applied
        if rehearsal.cluster.loaded.unserved:
            unserved = ", ".join(sorted(rehearsal.cluster.loaded.unserved))
            replay.notes.append(f"objects of kinds that are not served were left out: {unserved}")
    replay.differences = compare_changes(recording, recorded, history)
    return replay


def _both(first: Callable[[Exception], None], second: Callable[[], None]) -> Callable[[Exception], None]:
    def call(error: Exception) -> None:
        first(error)
        second()

    return call


def _missing_definitions(recording: Recording, operator: Operator) -> Iterator[Object]:
    """Return the CRDs of the operator that were not recorded; without them its objects are not served."""
    known = {RecordedKey.of(each) for each in recording.objects}
    for each in definitions_of(operator.kinds):
        if RecordedKey.of(each) not in known:
            yield each


async def _drive(replay: ReplayedRecording, rehearsal: Rehearsal, writer: InputWriter, limit: float) -> None:
    history, recording = replay.history, replay.recording
    await _until(0.0, history)
    for each in replay.recorded.inputs:
        await _until(each.at, history)
        if history.over.is_set():
            return
        await writer.write(each)
    end = max(recording.duration, history.now)
    await _until(end + QUIET_SECONDS, history)
    while not history.over.is_set() and history.now < end + limit:
        quiet = rehearsal.loop.now - rehearsal.cluster.changed_at
        if quiet >= QUIET_SECONDS:
            replay.is_settled = True
            break
        await _until(history.now + QUIET_SECONDS - quiet, history)
    writer.finish()


async def _until(at: float, history: ReplayHistory) -> None:
    """Wait for a time of the recording, or for a hot loop."""
    with contextlib.suppress(TimeoutError):
        # Not less than the resolution of times, or the clock would not advance.
        async with asyncio.timeout(max(at - history.now, RESOLUTION)):
            await history.over.wait()
