"""The real server of `KUBEBUILDER_ASSETS`, started once for all tests that can be run against it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubewright.client import ClusterConfig
from kubewright.testing.server import server_kinds, start_kube_apiserver


@pytest.fixture(scope="session")
def real_config() -> Iterator[ClusterConfig | None]:
    """Where it is; `None` when tests are about our own servers."""
    if server_kinds() != ("real",):
        yield None
        return
    with start_kube_apiserver() as config:
        yield config
