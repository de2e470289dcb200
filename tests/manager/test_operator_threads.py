"""Long-running synchronous functions of an operator, in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kubewright.api import CustomResource, ObjectMeta, Spec, resource
from kubewright.client import Client
from kubewright.controller.daemons import StopEvent
from kubewright.manager import Context, Operator
from kubewright.manager.operators.installation import install_definitions


class LampSpec(Spec):
    on: bool = False


@resource(group="threads.example.com", version="v1")
class Lamp(CustomResource[LampSpec, None], kw_only=True):
    """A lamp."""


async def test_sync_daemon_runs_in_its_own_thread_and_stops(
    client: Client, eventually: Callable[..., Any]
) -> None:
    operator = Operator("lamps")
    log: list[str] = []

    @operator.daemon(Lamp)
    def glow(lamp: Lamp, stopped: StopEvent, ctx: Context[Lamp]) -> None:
        log.append(f"on {lamp.metadata.name}")
        ctx.event("Normal", "Lit", "it is on")
        stopped.wait_in_thread()
        log.append(f"off {lamp.metadata.name}")

    await install_definitions(client, [Lamp])
    for name in ("a", "b"):
        await client.create(Lamp(metadata=ObjectMeta(name=name, namespace="default"), spec=LampSpec()))
    stop = asyncio.Event()
    task = asyncio.create_task(operator.run(client, stop=stop))
    await eventually(lambda: len(log) == 2)
    await client.delete(Lamp, "a", namespace="default")
    await eventually(lambda: "off a" in log)
    assert "off b" not in log
    stop.set()
    await task
    assert "off b" in log
