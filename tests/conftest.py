"""Settings of property tests, and a fixture: the kube-apiserver of `KUBEBUILDER_ASSETS`, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kubewright.client import ClusterConfig
from kubewright.testing.server import server_kinds, start_kube_apiserver

# A busy machine is not an error of a test: neither the time of an example nor that of its data is checked.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    """Directory of the binaries; `None` if the tests use the embedded servers only."""
    if server_kinds() != ("real",):
        yield None
        return
    with start_kube_apiserver() as config:
        yield config
