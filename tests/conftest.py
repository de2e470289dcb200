"""Shared by all tests: settings of property tests, restored loggers, reserved ports, a kube-apiserver."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.ports import reserve_ports

from kubewright.client import ClusterConfig
from kubewright.testing.server import server_kinds, start_kube_apiserver

# A busy machine is not an error of a test: neither the time of an example nor that of its data is checked.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")


@pytest.fixture(autouse=True)
def restored_loggers() -> Iterator[None]:
    """Undo what commands change that run in the process of the tests: other tests read log records, too."""
    root, package = logging.getLogger(), logging.getLogger("kubewright")
    handlers, level, package_level = root.handlers[:], root.level, package.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    package.setLevel(package_level)


@pytest.fixture
def reserved_port() -> Iterator[int]:
    """A port of 127.0.0.1 that no other process takes before the server of the test listens on it."""
    with reserve_ports(1) as (port,):
        yield port


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    """Directory of the binaries; `None` if the tests use the embedded servers only."""
    if server_kinds() != ("real",):
        yield None
        return
    with start_kube_apiserver() as config:
        yield config
