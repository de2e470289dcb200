"""The whole control plane: starting it, what it holds, and requests through every stage of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kubewright.apiserver import Request, User
from kubewright.controlplane import ControlPlane

from . import Benchmark

_TICK = os.sysconf("SC_CLK_TCK")
_USER = User("bench", ("system:masters", "system:authenticated"))
_CLERK = User("system:serviceaccount:default:clerk", ("system:serviceaccounts", "system:authenticated"))


def _start() -> float:
    """CPU seconds from the start of the process until it answers."""
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory, "ready")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kubewright.cli", "up", "--quiet"),
                *("--kubeconfig", str(Path(directory, "kubeconfig")), "--ready-file", str(ready)),
            ]
        )
        try:
            deadline = time.monotonic() + 30
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the control plane did not start")
                time.sleep(0.005)
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICK
        finally:
            process.terminate()
            process.wait()


class _Running:
    """One control plane that all request benchmarks share, on a loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.plane = ControlPlane(port=None, controllers=False)
        self.loop.run_until_complete(self.plane.start())
        self.count = 0

    def do(self, method: str, path: str, body: Any = None, user: User = _USER) -> None:
        data = msgspec.json.encode(body) if body is not None else b""
        response = self.loop.run_until_complete(
            self.plane.server.handle(Request(method, path, body=data, user=user))
        )
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {response.body!r}")


@cache
def _running() -> _Running:
    return _Running()


def _create() -> None:
    running = _running()
    running.count += 1
    body = {"metadata": {"name": f"c{running.count}"}, "data": {"k": "v" * 1000}}
    running.do("POST", "/api/v1/namespaces/default/configmaps", body)


def _get() -> None:
    _running().do("GET", "/api/v1/namespaces/default")


def _get_by_role() -> None:
    running = _running()
    running.do("GET", "/api/v1/namespaces/default/configmaps/kept", user=_CLERK)


def _prepare_role() -> None:
    running = _running()
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    running.do("POST", f"{rbac}/roles", {"metadata": {"name": "clerk"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "clerk"}
    subject = {"kind": "ServiceAccount", "name": "clerk", "namespace": "default"}
    binding = {"metadata": {"name": "clerk"}, "roleRef": reference, "subjects": [subject]}
    running.do("POST", f"{rbac}/rolebindings", binding)
    running.do("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})


def benchmarks() -> list[Benchmark]:
    """Start, and requests in process."""
    _prepare_role()
    return [
        Benchmark(name="start to ready (process)", target_ms=500, run=_start, self_timed=True),
        Benchmark(name="get a namespace", target_us=100, run=_get),
        Benchmark(name="get a config map, allowed by a role", target_us=100, run=_get_by_role),
        Benchmark(name="create a config map of 1 KB", target_us=700, run=_create),
    ]
