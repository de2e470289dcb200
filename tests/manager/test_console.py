"""The console view: contents, and log lines beside it."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable
from typing import Any

from rich.console import Console

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.controller import ControllerBuilder, Request
from kubewright.manager import Cluster, EventRecorder, Manager
from kubewright.manager.observability.console import ConsoleView


async def test_view_shows_queues_errors_and_last_events(
    client: Client, running: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=120, force_terminal=True, color_system=None)
    manager = Manager(Cluster(client, allow=[ConfigMap]), handle_signals=False)
    recorder = EventRecorder(client, "viewed")
    view = ConsoleView("viewed", manager, recorder, console)

    async def reconcile(request: Request) -> None:
        obj = await manager.client.get(ConfigMap, request.name, namespace=request.namespace)
        recorder.event(obj, "Normal", "First", "not shown")
        recorder.event(obj, "Warning", "Second", "look [here]")
        logging.getLogger("test").warning("a line from the log")
        raise RuntimeError("no luck")

    controller = ControllerBuilder(manager, "viewed-controller").for_(ConfigMap).complete(reconcile)
    manager.add(view)
    assert "viewed: starting" in shown(view)
    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    before = logging.getLogger().handlers[:]
    async with running(manager):
        await eventually(lambda: controller.metrics.errors)
        text = shown(view)
    assert logging.getLogger().handlers == before
    assert "viewed: leader" in text
    (row,) = [line.split() for line in text.splitlines() if "viewed-controller" in line]
    assert row[3] in ("0/1", "1/1")
    assert int(row[6]) >= 1
    (last,) = [line for line in text.splitlines() if "no luck" in line and "ConfigMap default/a" in line]
    assert "(list)" in last
    assert "ConfigMap default/a" in text
    assert "Second" in text
    assert "look [here]" in text
    assert "First" not in text
    await asyncio.sleep(0)
    assert "a line from the log" in screen.getvalue()
    assert "viewed-controller" in screen.getvalue()


def shown(view: ConsoleView) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(view.render())
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text
