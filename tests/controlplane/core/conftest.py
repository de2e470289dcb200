"""Fixtures: a control plane without a port, one on a port, and functions that send requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from kubewright.apiserver import SYSTEM, HTTPRequest, User
from kubewright.controlplane import ControlPlane

Send = Callable[..., Awaitable[tuple[int, Any]]]


def sender(plane: ControlPlane) -> Send:
    async def send(
        method: str, path: str, body: Any = None, *, user: User | None = SYSTEM, **headers: str
    ) -> tuple[int, Any]:
        data = b"" if body is None else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await plane.server.handle(HTTPRequest(method, path, body=data, user=user, headers=named))
        whole = response.body or b"".join(getattr(response, "pieces", None) or ())
        return response.status, msgspec.json.decode(whole) if whole[:1] == b"{" else whole

    return send


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(port=None, controllers=False) as plane:
        yield plane


@pytest.fixture
def send(plane: ControlPlane) -> Send:
    return sender(plane)
