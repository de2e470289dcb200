"""Running an operator for the duration of a test.

    async with start_test_server("in-process") as server:
        client = server.client()
        async with run_operator(operator, client):
            shop = await client.create(Shop(metadata=ObjectMeta(name="a", namespace="default"), spec=...))
            await client.wait(shop, until=condition("Ready"), timeout=10)

The operator runs as with `kubewright run --development`: CRDs are installed, startup functions are called,
webhooks are served on this machine and registered, and leadership is acquired. At the end of the block it is
stopped and cleanup functions are called; an error that stopped it earlier is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypedDict, Unpack

from kubewright.cache import KindOptions
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind
from kubewright.manager import Manager, Operator
from kubewright.manager.operators.operator_runtime import prepare


class SettingOverrides(TypedDict, total=False):
    """Settings of an operator for one run; see `kubewright.manager.Settings`."""

    namespaces: Sequence[str] | None
    service_account: str
    development: bool
    adopt_crds: bool
    leader_election: bool
    leader_election_namespace: str
    leader_election_name: str
    leader_election_coordinated: bool
    leader_election_version: str
    shards: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    graceful_shutdown_timeout: float
    probe_port: int | None
    trace_port: int | None
    trace_token: str
    metrics_port: int | None
    metrics_secure: bool
    metrics_certificates: str
    webhook_host: str
    webhook_port: int
    webhook_certificates: str
    webhook_secret: str
    webhook_service: str
    tracing: bool
    recording_minutes: float
    recording_directory: str
    recording_errors: int
    resync: float
    failure_events: bool
    kinds: dict[AnyKind, KindOptions]
    allow: Sequence[AnyKind]


@asynccontextmanager
async def run_operator(
    operator: Operator, client: Client, **settings: Unpack[SettingOverrides]
) -> AsyncIterator[Manager]:
    """Run an operator until the block ends; returns its manager when controllers have been started.

    `settings` override `operator.settings` for this run. By default `development` is true and
    `graceful_shutdown_timeout` is ten seconds.
    """
    overrides = SettingOverrides(development=True, graceful_shutdown_timeout=10.0)
    overrides.update(settings)
    before = operator.settings
    operator.settings = replace(before, **overrides)
    try:
        manager = (await prepare(operator, client)).manager
    finally:
        operator.settings = before
    manager.handle_signals = False
    stop = asyncio.Event()
    run = asyncio.create_task(manager.run(stop))
    elected = asyncio.create_task(manager.elected.wait())
    try:
        await asyncio.wait([run, elected], return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            await run
            raise RuntimeError(f"operator {operator.name} stopped before its controllers were started")
        yield manager
    finally:
        elected.cancel()
        stop.set()
        await asyncio.wait([run])
    await run
