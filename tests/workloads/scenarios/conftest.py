"""Scenarios with our controllers run in simulated time."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.testing.time import FakeTimeLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Run the tests of this folder in simulated time."""
    return {"fake-time": FakeTimeLoop}
