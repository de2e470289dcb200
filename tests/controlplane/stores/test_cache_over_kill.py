"""A cache resyncs after its server, another process, was killed and restarted."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench._ports import unused_port

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.cache import Cache
from kubewright.client import Client


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


async def versions(reader: Client | Cache) -> dict[str | None, str | None]:
    """What a reader sees."""
    return {
        each.metadata.name: each.metadata.resource_version
        async for each in reader.list(ConfigMap, namespace="default")
    }


async def test_cache_converges_to_the_state_of_the_server(
    tmp_path: Path, start: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--store", f"sqlite:{tmp_path / 'state.db'}", "--port", str(unused_port()), "--no-controllers")
    up = start(tmp_path, *options)
    async with (
        Client.connect(up.kubeconfig, metrics=False) as client,
        Cache(client, namespaces=["default"]) as cache,
    ):
        await cache.informer(ConfigMap)
        await cache.wait_for_sync()

        async def same() -> None:
            async with asyncio.timeout(60):
                while await versions(cache) != await versions(client):
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(client.create(config_map(f"first-{number}")) for number in range(20)))
        await same()
        with caplog.at_level(logging.WARNING):
            up.process.send_signal(signal.SIGKILL)
            up.process.wait()
            up = start(tmp_path, *options)
            async with Client.connect(up.kubeconfig, metrics=False) as other:
                await other.delete(config_map("first-0"))
                await other.create(config_map("second"))
            await same()
        errors = [
            record.__dict__.get("error", record.getMessage())
            for record in caplog.records
            if record.name.startswith("kubewright.cache")
        ]
        assert all(one != next_ for one, next_ in pairwise(errors)), "an error is not logged again"
    up.stop()
