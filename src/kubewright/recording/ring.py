"""`RecordingRing`: the last minutes of an operator, which it writes to a file when it is asked to.

    KUBEWRIGHT_RECORDING_MINUTES=10 kubewright run shop
    kill -USR1 PID                       # writes shop-20260131T120000Z.recording.gz

The ring has references to the versions of objects that the informers had anyway, and the spans of reconciles,
so that it costs little while nothing is written (`python -m bench recording`). It is written

- on the signal `SIGUSR1`,
- for a `GET /recording` on the metrics server, to clients that may read that path,
- when more than `max_errors` reconciles have failed within a minute, once per length of the ring.

An incident can so be recorded after it happened. Only what the operator caches is recorded, without managed
fields; its own writes are marked. Secret values are replaced when the file is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import tempfile
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.api.values.times import monotonic_time, wall_time
from kubewright.runnable import BaseRunnable
from kubewright.tracing.spans import ReconcileSpan, Span

from .change_log import ChangeLog, decode_changes, decode_objects, mark_own_deletions
from .recording import Recording
from .recording_files import SUFFIX, RecordingError, write_recording
from .redaction import Redactor

if TYPE_CHECKING:
    from kubewright.cache import Cache
    from kubewright.tracing.source import SpanSource

logger = logging.getLogger(__name__)

MAX_RECONCILES = 20_000
ERROR_WINDOW = 60.0


class RecordingRing(BaseRunnable):
    """Keeps the changes and reconciles of the last `seconds`. A runnable of the manager."""

    needs_leader = False
    group = "http"
    name = "recording"

    def __init__(
        self,
        cache: Cache,
        spans: SpanSource,
        operator: str,
        *,
        seconds: float,
        directory: str | Path = "",
        max_errors: int = 0,
        source: str = "",
        clock: Callable[[], float] = wall_time,
        monotonic: Callable[[], float] = monotonic_time,
    ) -> None:
        """`directory`: where files are written, by default that for temporary files. `max_errors` 0: never
        because of errors. Times of changes are those of `clock`; limits are independent of its setting."""
        self.operator = operator
        self.seconds = seconds
        self.directory = Path(directory or tempfile.gettempdir())
        self.max_errors = max_errors
        self.log = ChangeLog(seconds=seconds, clock=clock)
        self._cache = cache
        self._spans = spans
        self._source = source
        self._clock = clock
        self._monotonic = monotonic
        self._reconciles: deque[ReconcileSpan] = deque(maxlen=MAX_RECONCILES)
        self._errors: deque[float] = deque()
        self._next_automatic = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Record until `stop` is set."""
        self._cache.follow_informers(self.log.follow)
        unsubscribe = self._spans.subscribe(self)
        loop = asyncio.get_running_loop()
        handled = False
        # Signal handlers require the main thread and a POSIX system.
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGUSR1, self.request, "SIGUSR1")
            handled = True
        logger.info("started recording", extra={"seconds": self.seconds, "directory": str(self.directory)})
        try:
            await stop.wait()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            if handled:
                loop.remove_signal_handler(signal.SIGUSR1)
            unsubscribe()
            self.log.close()

    # Subscriber of spans

    def start(self, span: Span) -> None:
        """Do nothing: only complete spans are recorded."""

    def end(self, span: Span) -> None:
        """Record a reconcile."""
        if not isinstance(span, ReconcileSpan):
            return
        self._reconciles.append(span)
        if span.error and self.max_errors:
            self._count_error()

    def _count_error(self) -> None:
        now = self._monotonic()
        errors = self._errors
        errors.append(now)
        while errors[0] < now - ERROR_WINDOW:
            errors.popleft()
        if len(errors) > self.max_errors and now >= self._next_automatic:
            self._next_automatic = now + self.seconds
            self.request(f"{len(errors)} failed reconciles within {ERROR_WINDOW:g} s")

    # Files

    def request(self, reason: str) -> None:
        """Write a file soon; errors are logged."""

        async def write() -> None:
            try:
                path = await self.write(reason)
            except RecordingError as error:
                logger.error("could not write the recording", extra={"error": str(error), "reason": reason})
            else:
                logger.warning("wrote a recording", extra={"path": str(path), "reason": reason})

        task = asyncio.get_running_loop().create_task(write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def write(self, reason: str = "", path: Path | None = None) -> Path:
        """Write what happened in the last minutes to a new file, and return its path."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        path = path or self.directory / f"{self.operator}-{now:%Y%m%dT%H%M%S.%fZ}{SUFFIX}"
        create = self.capture(reason)
        await asyncio.to_thread(lambda: write_recording(create(), path, redactor=Redactor()))
        return path

    def capture(self, reason: str = "") -> Callable[[], Recording]:
        """Return a function that decodes the current contents, which can run in another thread."""
        log, end = self.log, self._clock()
        objects, entries, spans = log.objects(), log.entries(), list(self._reconciles)
        started = log.started

        def create() -> Recording:
            recording = Recording(
                objects=list(decode_objects(objects)),
                changes=list(decode_changes(entries, started)),
                reconciles=[each.to_dict() for each in spans if each.started >= started],
                start=datetime.fromtimestamp(started, UTC),
                duration=end - started,
                source=self._source,
                operator=self.operator,
                notes=[f"written because of {reason}"] if reason else [],
            )
            mark_own_deletions(recording.changes, recording.reconciles, started)
            return recording

        return create
