"""Fixtures: a short directory for sockets, on a real event loop."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("requires unix sockets", allow_module_level=True)

EXAMPLES = Path(__file__).parents[2] / "examples"
for example in ("csi_directory", "device_plugin"):
    sys.path.insert(0, str(EXAMPLES / example))


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    return {"asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
def kubelets() -> Iterator[Path]:
    """The directory of the kubelets; paths of sockets are limited to 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="kw-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
