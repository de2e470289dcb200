"""Start and stop of a control plane: TLS, durable storage, failures."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
import yaml

from kubewright.apiserver import SYSTEM, HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane
from kubewright.storage import StorageError


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kubewright.cli", "up", *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_the_kubeconfig_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig=path, controllers=False) as plane:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        config = yaml.safe_load(path.read_text())
        assert config["current-context"] == config["contexts"][0]["name"]
        assert config["clusters"][0]["cluster"]["server"] == plane.url
        assert "client-certificate-data" in config["users"][0]["user"]


async def test_ready_after_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = ControlPlane(port=None, controllers=False)
    seen: list[HTTPResponse] = []
    control = plane._control

    async def look_then_control() -> None:
        seen.append(await plane.server.handle(HTTPRequest("GET", "/readyz", user=SYSTEM)))
        await control()

    monkeypatch.setattr(plane, "_control", look_then_control)
    async with plane:
        assert seen[0].status == 500
        assert b"[+]poststarthook/rbac/bootstrap-roles ok\n" in seen[0].body
        assert b"[-]informer-sync failed: reason withheld\n" in seen[0].body
        ready = await plane.server.handle(HTTPRequest("GET", "/readyz", query="verbose", user=SYSTEM))
        assert ready.status == 200
        assert {b"[+]ping ok", b"[+]etcd ok", b"[+]informer-sync ok", b"[+]shutdown ok"} < set(
            ready.body.splitlines()
        )
        with monkeypatch.context() as patched:
            patched.setattr(
                plane.server.storage, "get", AsyncMock(side_effect=StorageError("the disk is unavailable"))
            )
            broken = await plane.server.handle(HTTPRequest("GET", "/livez/etcd", user=SYSTEM))
        assert broken.status == 500


async def test_restart_with_durable_storage(tmp_path: Path) -> None:
    from .conftest import sender

    store = f"sqlite:{tmp_path / 'state.db'}"
    async with ControlPlane(store=store, port=None, controllers=False) as plane:
        send = sender(plane)
        await send("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        await send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bob"}})
        _, request = await send("POST", "/api/v1/namespaces/default/serviceaccounts/bob/token", {})
        authority, admin = plane.ca, plane.credentials.admin
        _, before = await send("GET", "/api/v1/namespaces/default/configmaps/a")
    async with ControlPlane(store=store, port=None, controllers=False) as plane:
        send = sender(plane)
        assert (plane.ca, plane.credentials.admin) == (authority, admin)
        assert (await send("GET", "/api/v1/namespaces/default/configmaps/a"))[1] == before
        header = f"Bearer {request['status']['token']}"
        assert (await send("GET", "/api", user=None, Authorization=header))[0] == 200


async def test_bootstrap_objects(send: Any) -> None:
    _, namespaces = await send("GET", "/api/v1/namespaces")
    assert [item["metadata"]["name"] for item in namespaces["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    _, service = await send("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    _, classes = await send("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert {item["value"] for item in classes["items"]} == {2_000_000_000, 2_000_001_000}


async def test_authorization_mode_always_allow() -> None:
    from kubewright.apiserver import User

    from .conftest import sender

    async with ControlPlane(port=None, controllers=False, auth="always-allow") as plane:
        status, _ = await sender(plane)("GET", "/api/v1/nodes", user=User("ann"))
        assert status == 200


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("--store", "foo:bar"), 1, "unknown storage 'foo'"),
        (("--token-auth-file", "/nosuch/file"), 1, "/nosuch/file: No such file"),
        (("--client-ca-file", __file__), 1, "contains no PEM certificates"),
        (("--service-cluster-ip-range", "foo"), 2, "'foo' does not appear to be"),
    ],
)
def test_invalid_setting_is_one_line(tmp_path: Path, args: tuple[str, ...], code: int, text: str) -> None:
    result = command("--kubeconfig", str(tmp_path / "kubeconfig"), *args)
    assert result.returncode == code
    assert result.stderr.startswith("Error: ")
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


async def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    async with ControlPlane(kubeconfig=tmp_path / "a", controllers=False) as plane:
        result = command("--port", str(plane.port), "--kubeconfig", str(tmp_path / "b"))
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{plane.port}" in result.stderr
