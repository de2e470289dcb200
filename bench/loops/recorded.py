"""An operator for `bench/recording.py`: each Widget gets a ConfigMap and a status.

It keeps its last minutes if `KUBEWRIGHT_RECORDING_MINUTES` is set.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import time

import uvloop

from kubewright import Context, Operator
from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.manager.operators.operator_runtime import prepare


class WidgetSpec(Spec):
    """The fields that the benchmark uses."""

    image: str = ""
    seq: int = 0


class WidgetStatus(Status):
    """Status that the loop writes."""

    phase: str = ""


@resource(group="bench.example.dev", version="v1")
class Widget(CustomResource[WidgetSpec, WidgetStatus]):
    """A widget."""


operator = Operator("widgets")


@operator.reconcile(Widget, owns=(ConfigMap,), workers=10)
async def reconcile(widget: Widget, ctx: Context) -> None:
    """Create the ConfigMap and set the status."""
    name = f"{widget.metadata.name}-cm"
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=name), data={"image": widget.spec.image})])
    widget.status = WidgetStatus(phase="Ready")
    await ctx.update_status()


async def main() -> None:
    """Run until SIGTERM."""
    gc.set_threshold(50_000, 20, 100)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    operator.settings.update_from_environment()
    async with Client.connect(metrics=False) as client:
        manager = (await prepare(operator, client)).manager
        manager.handle_signals = False
        running = asyncio.create_task(manager.run(stop))
        await manager.elected.wait()
        gc.freeze()
        print(json.dumps({"event": "synced", "t": time.monotonic()}), flush=True)
        await running


if __name__ == "__main__":
    uvloop.run(main())
