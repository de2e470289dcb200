"""Server restarts; request metrics and traces."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Backoff, Client, RetryPolicy
from kubewright.controlplane import ControlPlane


def outages(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the reports of the outage: no connection, or 503 on one that the server has not closed yet."""
    return [each for each in caplog.records if each.message == "API server is unavailable, retrying"]


async def test_watch_and_reads_survive_server_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reserved_port: int
) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    def plane() -> ControlPlane:
        store = f"sqlite:{tmp_path / 'state.db'}"
        return ControlPlane(store=store, port=reserved_port, kubeconfig=kubeconfig, controllers=False)

    def made(name: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels={"mine": "yes"}))

    seen: list[str | None] = []
    async with plane():
        retries = RetryPolicy(transient_attempts=1000, max_delay=0.5)  # until the server is back
        client = Client.connect(kubeconfig, metrics=False, retries=retries)
        watch = client.watch(ConfigMap, namespace="default", labels="mine")
        watch._backoff = Backoff(initial=0.01, maximum=0.1)

        async def follow() -> None:
            async for event in watch:
                seen.append(event.object.metadata.name)
                if event.object.metadata.name == "after":
                    return

        await client.create(made("before"))
        following = asyncio.create_task(follow())
        while not seen:
            await asyncio.sleep(0.01)
    with caplog.at_level(logging.WARNING, "kubewright.client"):
        reading = asyncio.create_task(client.get(ConfigMap, "before", namespace="default"))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(60):
            while not outages(caplog):
                await asyncio.sleep(0.01)
        async with plane():
            assert (await reading).metadata.name == "before"
            await client.create(made("after"))
            async with asyncio.timeout(60):
                await following
            await watch.aclose()
            await client.aclose()
    assert seen == ["before", "after"]
    assert 1 <= len(outages(caplog)) <= 2


async def test_request_metrics_and_spans(tmp_path: Path) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    kubeconfig = tmp_path / "kubeconfig"
    async with (
        ControlPlane(port=0, kubeconfig=kubeconfig, controllers=False),
        Client.connect(kubeconfig, registry=registry, tracing=True) as client,
        Client.connect(kubeconfig, registry=registry) as other,
    ):
        await client.list(ConfigMap)
        await other.list(ConfigMap)
        text = generate_latest(registry).decode()
    assert 'rest_client_requests_total{code="200",host="127.0.0.1:' in text
    assert 'method="GET"} 2.0' in text
    assert 'rest_client_request_duration_seconds_count{host="127.0.0.1:' in text
