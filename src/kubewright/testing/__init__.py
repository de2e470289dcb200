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
    from .operators import run_operator
    from .permissions import PermissionRecorder
    from .server import TestServer, server_kinds, start_kube_apiserver, start_test_server
    from .time import FakeTimeLoop, fake_time, wall_clock

__getattr__, __dir__ = lazy(
    __name__,
    {
        "operators": "run_operator",
        "permissions": "PermissionRecorder",
        "server": "TestServer server_kinds start_kube_apiserver start_test_server",
        "time": "FakeTimeLoop fake_time wall_clock",
    },
)

__all__ = [
    "FakeTimeLoop",
    "PermissionRecorder",
    "TestServer",
    "fake_time",
    "run_operator",
    "server_kinds",
    "start_kube_apiserver",
    "start_test_server",
    "wall_clock",
]
