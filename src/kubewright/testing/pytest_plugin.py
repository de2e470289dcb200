"""pytest plug-in: fixtures for a control plane, a client and running operators.

    async def test_greeting(client, running_operator):
        await running_operator(operator)
        ...

pytest loads it in every environment where kubewright is installed. This module imports nothing of kubewright
except its fixtures, and only if pytest-asyncio is installed; the fixtures import the rest when a test uses
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any

import pytest

FIXTURES = frozenset(("control_plane", "running_app", "running_operator"))
"""Fixtures that make an async test run with pytest-asyncio in its strict mode, too."""
OTHER_CLIENTS = ("django", "flask")
"""Plug-ins with a fixture `client` of their own, which takes precedence."""
MARKER = (
    "control_plane(kind='in-process', kubernetes='', **options): version of Kubernetes and options of "
    "kubewright.testing.start_test_server for the fixture control_plane"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs tests on several versions of Kubernetes."""
    parser.getgroup("kubewright").addoption(
        "--kubernetes-version",
        default="",
        metavar="VERSIONS",
        help="run tests with the fixture control_plane on each of these versions of Kubernetes, "
        "as in 1.33,1.36 or 1.33-1.36; all for every supported one",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test for each version of `--kubernetes-version`, unless its marker names one."""
    text = metafunc.config.getoption("--kubernetes-version", "")
    if not text or "kubernetes_version" not in metafunc.fixturenames:
        return
    from kubewright.api.kubernetes_version import parse_versions

    marker = metafunc.definition.get_closest_marker("control_plane")
    if marker is not None and "kubernetes" in marker.kwargs:
        return
    try:
        versions = [str(version) for version in parse_versions(text)]
    except ValueError as error:
        raise pytest.UsageError(f"--kubernetes-version: {error}") from None
    metafunc.parametrize("kubernetes_version", versions, indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, with pytest-asyncio, the fixtures."""
    config.addinivalue_line("markers", MARKER)
    plugins = config.pluginmanager
    if not plugins.hasplugin("asyncio"):
        return
    from . import pytest_client_fixture, pytest_fixtures

    plugins.register(pytest_fixtures, "kubewright-fixtures")
    if not any(plugins.hasplugin(name) for name in OTHER_CLIENTS):
        plugins.register(pytest_client_fixture, "kubewright-client-fixture")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Mark async tests that use the fixtures for pytest-asyncio, before it looks for its marker."""
    result = yield
    for item in result if isinstance(result, list) else (result,):
        if (
            isinstance(item, pytest.Function)
            and inspect.iscoroutinefunction(item.obj)
            and not FIXTURES.isdisjoint(item.fixturenames)
            and not any(item.get_closest_marker(name) for name in ("asyncio", "anyio"))
        ):
            item.add_marker("asyncio")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> None:
    """Explain errors of constructors before the traceback is formatted."""
    if call.excinfo is not None:
        from kubewright.api.constructor_errors import add_explanation

        add_explanation(call.excinfo.value)
