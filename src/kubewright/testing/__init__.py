"""Tests without a cluster, without waiting and without mocks.

- `served`: a control plane in this process, one over TLS, or a real kube-apiserver (`server`)
- `running`: an operator for the length of a test (`operators`)
- `fake_time`, `FakeTimeLoop`: a loop whose time jumps (`time`)
- `PermissionRecorder`: are the declared permissions the needed ones? (`permissions`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .operators import running
    from .permissions import PermissionRecorder
    from .server import TestServer, choose, real_server, served
    from .time import FakeTimeLoop, fake_time, wall_clock

__getattr__, __dir__ = lazy(
    __name__,
    {
        "operators": "running",
        "permissions": "PermissionRecorder",
        "server": "TestServer choose real_server served",
        "time": "FakeTimeLoop fake_time wall_clock",
    },
)

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
