"""Path of the examples, and a server behind which an app runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.client import ClusterConfig
from kubewright.testing import TestServer, server_kinds, start_test_server

EXAMPLES = Path(__file__).parents[2] / "examples"
for example in (
    "exec_subresource",
    "ip_allocator",
    "metrics_adapter",
    "metrics_server",
    "restaurant",
    "wardle",
):
    sys.path.insert(0, str(EXAMPLES / example))


@pytest.fixture
async def cluster(real_config: ClusterConfig | None) -> AsyncIterator[TestServer]:
    """A control plane over TLS, or a real kube-apiserver with `KUBEBUILDER_ASSETS`."""
    kind = server_kinds()[-1]
    options = {} if kind == "real" else {"controllers": False}
    async with start_test_server(kind, real_config, **options) as server:
        yield server
