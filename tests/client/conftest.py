"""One fixture chooses the server: ours in process and over TLS, or the real one of KUBEBUILDER_ASSETS."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Namespace
from kubewright.client import Client, ClusterConfig
from kubewright.testing.server import TestServer, choose, real_server, served

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    if choose() != ("real",):
        yield None
        return
    with real_server() as config:
        yield config


@pytest.fixture(params=choose())
async def server(
    request: pytest.FixtureRequest, real_config: ClusterConfig | None
) -> AsyncIterator[TestServer]:
    async with served(request.param, real_config, controllers=False) as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"test-{next(_numbers)}"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name
