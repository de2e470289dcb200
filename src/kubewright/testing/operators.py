"""An operator that runs for the length of a test.

    async with served("in-process") as server:
        client = server.client()
        async with running(operator, client):
            shop = await client.create(Shop(metadata=ObjectMeta(name="a", namespace="default"), spec=...))
            await client.wait(shop, until=condition("Ready"), timeout=10)

It is the whole operator as `kubewright run --development` starts it: definitions are installed, startup
functions called, webhooks served on this machine and registered, leadership taken. When the block ends it is
stopped, clean-up functions are called, and whatever ended it early is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from kubewright.client import Client
from kubewright.manager import Manager, Operator
from kubewright.manager.operator_runtime import prepare


@asynccontextmanager
async def run_operator(operator: Operator, client: Client, **settings: Any) -> AsyncIterator[Manager]:
    """Run an operator until the block ends; gives its manager once it works.

    `settings` are those of `operator.settings`, for this run alone; development is on and `grace` is one
    second unless they say otherwise.
    """
    before = operator.settings
    operator.settings = replace(before, **{"development": True, "grace": 1.0, **settings})
    try:
        manager = (await prepare(operator, client)).manager
    finally:
        operator.settings = before
    manager.handle_signals = False
    stop = asyncio.Event()
    run = asyncio.create_task(manager.run(stop))
    leading = asyncio.create_task(manager.elected.wait())
    try:
        await asyncio.wait([run, leading], return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            await run
            raise RuntimeError(f"{operator.name} ended before it worked")
        yield manager
    finally:
        leading.cancel()
        stop.set()
        await asyncio.wait([run])
    await run


__all__ = ["run_operator"]
