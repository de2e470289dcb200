"""Running an extension API server for the duration of a test.

    async with start_test_server("in-process") as server:
        client = server.client()
        async with run_app(app, client):
            await client.create(Pizza(metadata=ObjectMeta(name="margherita", namespace="default")))

The app runs as with `kubewright run --development`: on a port of this machine, behind the aggregator of the
control plane, with delegated authentication and authorization. Its objects are in memory. At the end of the
block its registration is removed and it is stopped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypedDict, Unpack

from kubewright.client import Client
from kubewright.extension import APIServerApp, RunningAPIServer, serve_app


class AppOverrides(TypedDict, total=False):
    """Settings of an app for one run; see `kubewright.extension.APIServerSettings`."""

    storage: str
    development: bool
    host: str
    port: int
    external_address: str
    service: str
    namespace: str
    certificates: str
    secret: str
    register: bool
    group_priority: int
    cluster_admission: bool
    audit_policy: str
    audit_log: str
    audit_webhook: str
    cbor: bool
    priority: bool
    max_requests_in_flight: int
    max_mutating_requests_in_flight: int


@asynccontextmanager
async def run_app(
    app: APIServerApp, client: Client, **settings: Unpack[AppOverrides]
) -> AsyncIterator[RunningAPIServer]:
    """Run an app behind the cluster of a client until the block ends.

    `settings` override `app.settings` for this run. By default `development` is true and the storage is in
    memory.
    """
    overrides = AppOverrides(development=True, storage="memory:")
    overrides.update(settings)
    before = app.settings
    app.settings = replace(before, **overrides)
    try:
        async with serve_app(app, client) as running:
            client.mapper.invalidate()
            yield running
    finally:
        app.settings = before
