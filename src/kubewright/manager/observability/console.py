"""Live view of a running operator in a terminal.

A table of controllers (queued, waiting, active, rate, errors), below it the last reconciles with their cause,
duration and result, and the latest event of each object. It reads the metrics of the controllers, the spans
of the manager and the events of the recorder. Log lines scroll above it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubewright.controller.controller import Controller
from kubewright.manager.events import EventRecorder, RecordedEvent
from kubewright.manager.manager import Manager
from kubewright.runnable import BaseRunnable
from kubewright.tracing.spans import ReconcileSpan, Span

from .trace_feed import controllers_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

REFRESH_SECONDS = 0.5
RATE_SECONDS = 5.0
"""Seconds over which the reconcile rate is computed."""
MAX_OBJECTS = 8
MAX_RECONCILES = 6


class ConsoleView(BaseRunnable):
    """Displays the state of a manager. A runnable of the manager."""

    needs_leader = False
    group = "http"
    name = "view"

    def __init__(self, title: str, manager: Manager, recorder: EventRecorder, console: Console) -> None:
        self._title = title
        self._manager = manager
        self._recorder = recorder
        self._console = console
        self._samples: dict[str, deque[tuple[float, int]]] = {}
        self._reconciles = LastReconciles()

    async def run(self, stop: asyncio.Event) -> None:
        """Update the display until `stop` is set."""
        from rich.live import Live

        root = logging.getLogger()
        others = root.handlers[:]
        unsubscribe = self._manager.spans.subscribe(self._reconciles)
        root.handlers[:] = [_ConsoleHandler(self._console, handler.formatter) for handler in others]
        try:
            with Live(self.render(), console=self._console, auto_refresh=False, transient=True) as live:
                while not stop.is_set():
                    live.update(self.render(), refresh=True)
                    try:
                        await asyncio.wait_for(stop.wait(), REFRESH_SECONDS)
                    except TimeoutError:
                        continue
        finally:
            unsubscribe()
            root.handlers[:] = others

    def render(self) -> RenderableType:
        """Return the current view."""
        from rich.console import Group
        from rich.table import Table

        state = "leader" if self._manager.elected.is_set() else "waiting for leadership"
        if not self._manager.ready:
            state = "starting"
        work = Table(title=f"{self._title}: {state}", title_justify="left", expand=False, box=None)
        headings = ("controller", "queued", "waiting", "active", "reconciles", "per second", "errors")
        for heading in headings:
            work.add_column(heading, justify="left" if heading == "controller" else "right", style="cyan")
        for controller in controllers_of(self._manager.runnables):
            metrics = controller.metrics
            queue = controller.queue
            queued, waiting = (len(queue), queue.waiting) if queue is not None else (0, 0)
            errors = f"[red]{metrics.errors}[/red]" if metrics.errors else "0"
            work.add_row(
                controller.name,
                str(queued),
                str(waiting),
                f"{metrics.active}/{metrics.workers}",
                str(metrics.reconciles),
                f"{self._rate(controller):.1f}",
                errors,
            )
        events = Table(expand=True, box=None)
        for heading, width in (("when", 8), ("object", 28), ("reason", 12), ("message", None)):
            ratio = 1 if width is None else None
            events.add_column(heading, overflow="ellipsis", no_wrap=True, width=width, ratio=ratio)
        for each in self._latest_events():
            about = "/".join(part for part in (each.about.namespace, each.about.name) if part)
            reason = f"[yellow]{each.reason}[/yellow]" if each.type == "Warning" else each.reason
            row: tuple[Any, ...] = (each.at.strftime("%H:%M:%S"), f"{each.about.kind} {about}", reason)
            events.add_row(*row, each.message.replace("[", r"\["))
        tables = [table for table in (work, self._render_reconciles(), events) if table.row_count]
        return Group(*tables) if tables else work

    def _render_reconciles(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(expand=True, box=None)
        for heading, width in (
            ("reconcile", 8),
            ("object", 28),
            ("seconds", 8),
            ("cause", None),
            ("result", None),
        ):
            ratio = 1 if width is None else None
            table.add_column(heading, overflow="ellipsis", no_wrap=True, width=width, ratio=ratio)
        for span in self._reconciles.latest():
            started = datetime.fromtimestamp(span.started).strftime("%H:%M:%S")
            result = Text(span.error or span.result.replace("_", " "), style="red" if span.error else "")
            causes = "; ".join(map(str, span.causes))
            about = f"{span.kind[2]} {span.request}".strip()
            table.add_row(started, Text(about), f"{span.duration:.3f}", Text(causes), result)
        return table

    def _rate(self, controller: Controller[Any]) -> float:
        now, count = time.monotonic(), controller.metrics.reconciles
        samples = self._samples.setdefault(controller.name, deque())
        samples.append((now, count))
        while samples[0][0] < now - RATE_SECONDS:
            samples.popleft()
        then, before = samples[0]
        return (count - before) / (now - then) if now > then else 0.0

    def _latest_events(self) -> list[RecordedEvent]:
        """Return the latest event of each object, newest first."""
        latest: OrderedDict[tuple[str | None, ...], RecordedEvent] = OrderedDict()
        for each in reversed(self._recorder.recent):
            latest.setdefault((each.about.kind, each.about.namespace, each.about.name), each)
        return list(latest.values())[:MAX_OBJECTS]


class LastReconciles:
    """Subscriber that stores the last reconcile of each object."""

    def __init__(self) -> None:
        self._spans: OrderedDict[tuple[str, str], ReconcileSpan] = OrderedDict()

    def start(self, span: Span) -> None:
        """Do nothing: only finished reconciles are shown."""

    def end(self, span: Span) -> None:
        """Store a reconcile."""
        if isinstance(span, ReconcileSpan):
            key = (span.controller, span.request)
            self._spans.pop(key, None)
            self._spans[key] = span
            if len(self._spans) > MAX_RECONCILES:
                self._spans.popitem(last=False)

    def latest(self) -> list[ReconcileSpan]:
        """Return the last reconciles, newest first."""
        return list(reversed(self._spans.values()))


class _ConsoleHandler(logging.Handler):
    """Prints log lines above the view."""

    def __init__(self, console: Console, formatter: logging.Formatter | None) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        self._console.print(Text.from_ansi(self.format(record)))
