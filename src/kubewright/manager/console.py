"""A live view of a running operator, for a terminal.

A table of controllers (what waits, what runs, how fast, what failed) and under it what was last said about
which object. It reads the numbers that metrics are made of and the recorder's memory; nothing reports to it.
Log lines scroll above it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from kubewright.controller.controller import Controller

from .events import EventRecorder, RecordedEvent
from .manager import Manager

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REFRESH_SECONDS = 0.5
RATE_SECONDS = 5.0
"""Reconciles per second are counted over so long."""
SHOWN_OBJECTS = 8


class ConsoleView:
    """Draws until the process ends. A runnable of the manager."""

    needs_leader = False
    group = "http"
    name = "view"

    def __init__(self, title: str, manager: Manager, recorder: EventRecorder, console: Console) -> None:
        self._title = title
        self._manager = manager
        self._recorder = recorder
        self._console = console
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Draw until `stop` is set."""
        from rich.live import Live

        root = logging.getLogger()
        others = root.handlers[:]
        root.handlers[:] = [_Above(self._console, handler.formatter) for handler in others]
        try:
            with Live(self.render(), console=self._console, auto_refresh=False, transient=True) as live:
                while not stop.is_set():
                    live.update(self.render(), refresh=True)
                    try:
                        await asyncio.wait_for(stop.wait(), REFRESH_SECONDS)
                    except TimeoutError:
                        continue
        finally:
            root.handlers[:] = others

    def render(self) -> RenderableType:
        """The view as it is now."""
        from rich.console import Group
        from rich.table import Table

        state = "leading" if self._manager.elected.is_set() else "waiting to lead"
        if not self._manager.ready:
            state = "starting"
        work = Table(title=f"{self._title}: {state}", title_justify="left", expand=False, box=None)
        for heading in ("controller", "waiting", "running", "reconciles", "per second", "errors"):
            work.add_column(heading, justify="left" if heading == "controller" else "right", style="cyan")
        for controller in self._controllers():
            metrics = controller.metrics
            waiting = len(controller.queue) if controller.queue is not None else 0
            errors = f"[red]{metrics.errors}[/red]" if metrics.errors else "0"
            work.add_row(
                controller.name,
                str(waiting),
                f"{metrics.active}/{metrics.workers}",
                str(metrics.reconciles),
                f"{self._rate(controller):.1f}",
                errors,
            )
        said = Table(expand=True, box=None)
        for heading, width in (("when", 8), ("object", 28), ("reason", 12), ("message", None)):
            ratio = 1 if width is None else None
            said.add_column(heading, overflow="ellipsis", no_wrap=True, width=width, ratio=ratio)
        for each in self._last_said():
            about = "/".join(part for part in (each.about.namespace, each.about.name) if part)
            reason = f"[yellow]{each.reason}[/yellow]" if each.type == "Warning" else each.reason
            row: tuple[Any, ...] = (each.at.strftime("%H:%M:%S"), f"{each.about.kind} {about}", reason)
            said.add_row(*row, each.message.replace("[", r"\["))
        return Group(work, said) if said.row_count else work

    def _controllers(self) -> list[Controller[Any]]:
        found = (getattr(each, "controller", each) for each in self._manager.runnables)
        return sorted((each for each in found if isinstance(each, Controller)), key=lambda each: each.name)

    def _rate(self, controller: Controller[Any]) -> float:
        now, count = time.monotonic(), controller.metrics.reconciles
        samples = self._samples.setdefault(controller.name, deque())
        samples.append((now, count))
        while samples[0][0] < now - RATE_SECONDS:
            samples.popleft()
        then, before = samples[0]
        return (count - before) / (now - then) if now > then else 0.0

    def _last_said(self) -> list[RecordedEvent]:
        """The last event of each object, newest first."""
        latest: OrderedDict[tuple[str | None, ...], RecordedEvent] = OrderedDict()
        for each in reversed(self._recorder.recent):
            latest.setdefault((each.about.kind, each.about.namespace, each.about.name), each)
        return list(latest.values())[:SHOWN_OBJECTS]


class _Above(logging.Handler):
    """Prints log lines above the view."""

    def __init__(self, console: Console, formatter: logging.Formatter | None) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        self._console.print(Text.from_ansi(self.format(record)))
