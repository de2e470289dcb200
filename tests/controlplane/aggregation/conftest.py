"""A control plane with an extension API server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.controlplane.aggregation.toy_server import register, toy_server, until
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.server import HTTPServer
from kubewright.controlplane import ControlPlane


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as made:
        await made.wait_until_idle()
        yield made


@pytest.fixture
async def toy(plane: ControlPlane) -> AsyncIterator[HTTPServer]:
    async with toy_server(plane) as made:
        yield made


@pytest.fixture
def client(plane: ControlPlane) -> PathClient:
    return PathClient(plane.server, SYSTEM)


@pytest.fixture
async def aggregated(plane: ControlPlane, toy: HTTPServer, client: PathClient) -> PathClient:
    plane.service_resolver.overrides["toy.default"] = toy.url
    await register(client, insecureSkipTLSVerify=True)
    await until(client, "Passed")
    await plane.wait_until_idle()
    return client
