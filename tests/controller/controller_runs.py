"""Runs of a controller until a condition holds."""

import asyncio

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import ObjectMeta
from kubewright.controller import ChannelSource, Controller


def config_map(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data or None)


async def channel(*items):
    for item in items:
        yield item


async def run_until(controller, condition, step=0.001):
    """Run a controller until a condition holds; check it every `step` seconds of fake time."""
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    async with asyncio.timeout(step * 200_000):
        while not condition() and not task.done():
            await asyncio.sleep(step)
    stop.set()
    await task


def controller_of(reconcile, *items, **options):
    options.setdefault("name", "test")
    controller = Controller(options.pop("name"), reconcile, **options)
    controller.watch(ChannelSource(channel(*items)))
    return controller
