"""Tests without a cluster, without waiting and without mocks.

- `served`: a control plane in this process, one over TLS, or a real kube-apiserver (`server`)
- `running`: an operator for the length of a test (`operators`)
- `fake_time`, `FakeTimeLoop`: a loop whose time jumps (`time`)
- `PermissionRecorder`: are the declared permissions the needed ones? (`permissions`)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .operators import running
    from .permissions import PermissionRecorder
    from .server import TestServer, choose, real_server, served
    from .time import FakeTimeLoop, fake_time, wall_clock

_HOMES = {
    "FakeTimeLoop": "time",
    "PermissionRecorder": "permissions",
    "TestServer": "server",
    "choose": "server",
    "fake_time": "time",
    "real_server": "server",
    "running": "operators",
    "served": "server",
    "wall_clock": "time",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


__all__ = [
    "FakeTimeLoop",
    "PermissionRecorder",
    "TestServer",
    "choose",
    "fake_time",
    "real_server",
    "running",
    "served",
    "wall_clock",
]
