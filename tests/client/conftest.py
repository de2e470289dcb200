"""Fixtures: a client of our server, in process or over TLS, or of kube-apiserver (KUBEBUILDER_ASSETS)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Namespace
from kubewright.client import Client, ClusterConfig
from kubewright.testing.server import TestServer, server_kinds, start_test_server

_numbers = itertools.count(1)


@pytest.fixture(params=server_kinds())
async def server(
    request: pytest.FixtureRequest, real_config: ClusterConfig | None
) -> AsyncIterator[TestServer]:
    async with start_test_server(request.param, real_config, controllers=False) as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"test-{next(_numbers)}"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name
