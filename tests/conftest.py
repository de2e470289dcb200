"""Shared by all tests: settings of property tests, restored state, reserved ports, a kube-apiserver."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import waiting
from tests.ports import reserve_ports

from kubewright.client import ClusterConfig
from kubewright.testing.server import server_kinds, start_kube_apiserver

# A busy machine is not an error of a test: neither the time of an example nor that of its data is checked.
# CI has the same examples in every run; a developer's runs search for new ones.
settings.register_profile(
    "any-speed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("any-speed")
# As `kubewright run` does: control planes have many objects, and all tests have the same thresholds.
gc.set_threshold(50_000, 20, 50)


_durations: dict[str, float] = {}
"""Seconds of each test file in this run."""


_rerun: list[tuple[str, str]] = []
"""Tests that failed and were run once more, with the failure."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each test file; keep the failure of a test that is run once more."""
    path = report.location[0]
    _durations[path] = _durations.get(path, 0.0) + report.duration
    if str(report.outcome) == "rerun":
        _rerun.append((report.nodeid, report.longreprtext))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were run once more: each is a defect, and the second run hides it."""
    for test, failure in _rerun:
        terminalreporter.section(f"first run of {test}", "-")
        terminalreporter.write_line(failure)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record how long test files take, for `make quick` (tools/affected_tests.py)."""
    cache = getattr(session.config, "cache", None)  # absent with -p no:cacheprovider
    if cache is not None and not hasattr(session.config, "workerinput") and _durations:
        rounded = {path: round(seconds, 2) for path, seconds in _durations.items()}
        cache.set("kubewright/durations", cache.get("kubewright/durations", {}) | rounded)


@pytest.fixture(autouse=True)
def restored_process_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Undo what commands change in the process of the tests: loggers, garbage collection, signals, imports.

    The next tests read log records and signal handlers, too, and import modules with the same names.
    """
    root, package = logging.getLogger(), logging.getLogger("kubewright")
    handlers, level, package_level = root.handlers[:], root.level, package.level
    thresholds, collects = gc.get_threshold(), gc.isenabled()
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    path, modules = sys.path[:], set(sys.modules)
    temporary = os.path.join(tmp_path_factory.getbasetemp(), "")
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    package.setLevel(package_level)
    gc.set_threshold(*thresholds)
    (gc.enable if collects else gc.disable)()
    for number, handler in signals.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(temporary):
            del sys.modules[name]


@pytest.fixture
def reserved_port() -> Iterator[int]:
    """A port of 127.0.0.1 that no other process takes before the server of the test listens on it."""
    with reserve_ports(1) as (port,):
        yield port


@pytest.fixture
def eventually() -> Callable[..., Awaitable[Any]]:
    """Call a function until it returns a true value; see `tests.waiting`."""
    return waiting.eventually


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    """Directory of the binaries; `None` if the tests use the embedded servers only."""
    if server_kinds() != ("real",):
        yield None
        return
    with start_kube_apiserver() as config:
        yield config
