"""Fixture: the kube-apiserver of `KUBEBUILDER_ASSETS`, started once per test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubewright.client import ClusterConfig
from kubewright.testing.server import server_kinds, start_kube_apiserver


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    """Directory of the binaries; `None` if the tests use the embedded servers only."""
    if server_kinds() != ("real",):
        yield None
        return
    with start_kube_apiserver() as config:
        yield config
