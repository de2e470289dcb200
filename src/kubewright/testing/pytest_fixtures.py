"""Fixtures of the pytest plug-in that need an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.extension import APIServerApp, RunningAPIServer
    from kubewright.manager import Manager, Operator

    from .apiservers import AppOverrides
    from .operators import SettingOverrides
    from .server import TestServer


class RunningOperator(Protocol):
    """Starts an operator that is stopped when the test ends."""

    async def __call__(
        self, operator: Operator, *, client: Client | None = None, **settings: Unpack[SettingOverrides]
    ) -> Manager:
        """Start an operator; return its manager when controllers have been started."""
        ...


class RunningApp(Protocol):
    """Starts an extension API server that is stopped when the test ends."""

    async def __call__(
        self, app: APIServerApp, *, client: Client | None = None, **settings: Unpack[AppOverrides]
    ) -> RunningAPIServer:
        """Start an app; return when the control plane forwards requests to it."""
        ...


@pytest.fixture
def kubernetes_version(request: pytest.FixtureRequest) -> str:
    """The version of Kubernetes of `control_plane`: of its marker, else one of `--kubernetes-version`."""
    from kubewright.api.kubernetes_version import KubernetesVersion

    marker = request.node.get_closest_marker("control_plane")
    given = marker.kwargs.get("kubernetes", "") if marker is not None else ""
    return str(KubernetesVersion.parse(given or getattr(request, "param", "")))


@pytest_asyncio.fixture
async def control_plane(request: pytest.FixtureRequest, kubernetes_version: str) -> AsyncIterator[TestServer]:
    """A control plane of its own for the test, in this process.

    The marker `control_plane(kind, kubernetes="1.34", **options)` selects a version of Kubernetes, and passes
    options to `start_test_server`. With `nodes="real"`, this machine is a node with a real kubelet
    (`kubewright.testing.real_nodes`); without one, the test is skipped.
    """
    from .server import start_test_server

    marker = request.node.get_closest_marker("control_plane")
    arguments = marker.args if marker is not None else ()
    options: dict[str, Any] = {"kind": "in-process", "kubernetes_version": kubernetes_version}
    options |= marker.kwargs if marker is not None else {}
    options.pop("kubernetes", None)
    if arguments:
        (options["kind"],) = arguments
    if options.get("nodes") == "real":
        from .real_nodes import start_real_node_server, why_unavailable

        if reason := why_unavailable():
            pytest.skip(reason)
        async with start_real_node_server(**options) as server:
            yield server
        return
    async with start_test_server(**options) as server:
        yield server


@pytest_asyncio.fixture
async def running_operator(control_plane: TestServer) -> AsyncIterator[RunningOperator]:
    """A function that runs an operator until the test ends: `await running_operator(operator)`.

    It takes the settings of `run_operator`, and `client=` to run the operator with another client. An error
    that stopped an operator fails the test.
    """
    from .operators import run_operator

    async with AsyncExitStack() as running:

        async def start(
            operator: Operator, *, client: Client | None = None, **settings: Unpack[SettingOverrides]
        ) -> Manager:
            used = client if client is not None else control_plane.client()
            return await running.enter_async_context(run_operator(operator, used, **settings))

        yield start


@pytest_asyncio.fixture
async def running_app(control_plane: TestServer) -> AsyncIterator[RunningApp]:
    """A function that runs an extension API server until the test ends: `await running_app(app)`.

    It takes the settings of `run_app`, and `client=` to run the app with another client of the cluster.
    """
    from .apiservers import run_app

    async with AsyncExitStack() as running:

        async def start(
            app: APIServerApp, *, client: Client | None = None, **settings: Unpack[AppOverrides]
        ) -> RunningAPIServer:
            used = client if client is not None else control_plane.client()
            return await running.enter_async_context(run_app(app, used, **settings))

        yield start
