"""Restarts of `kubewright up` on durable storage, and its errors when it cannot start."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap, ServiceAccount
from kubewright.cli import main
from kubewright.cli.clusters import up_start
from kubewright.client import Client, condition, load_config

from .conftest import gadgets

DEFINITION = gadgets("stores.example.com", {"x-kubernetes-preserve-unknown-fields": True})
GADGET = {
    "apiVersion": "stores.example.com/v1",
    "kind": "Gadget",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"size": 3},
}
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
WHO = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def established(client: Client) -> None:
    crd = await client.create(Unstructured(DEFINITION))
    await client.wait(crd, until=condition("Established"), timeout=60)


@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
async def test_restart_restores_the_state(
    kind: str, tmp_path: Path, start: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    if kind == "etcd":
        store = f"etcd://{request.getfixturevalue('etcd')}/kept?timeout=60"
    up = start(tmp_path, "--store", store)
    first = yaml.safe_load(up.kubeconfig.read_text())
    async with Client.connect(up.kubeconfig, metrics=False) as client:
        await established(client)
        gadget = await client.create(Unstructured(GADGET))
        account = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))
        account = await client.create(account)
        response = await client.subresource("token", account).create(Unstructured(TOKEN))
        token = response["status"]["token"]
        await client.delete(
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        )
        latest = await client.create(ConfigMap(metadata=ObjectMeta(name="last", namespace="default")))
    up.stop()

    up = start(tmp_path, "--store", store)
    again = yaml.safe_load(up.kubeconfig.read_text())
    again["clusters"][0]["cluster"]["server"] = first["clusters"][0]["cluster"]["server"]
    assert again == first, "authority and the administrator's certificate are kept"
    config = load_config(up.kubeconfig)
    robot = replace(config, client_certificate=None, client_key=None, token=token)
    async with Client.connect(config, metrics=False) as client, Client.connect(robot, metrics=False) as other:
        kept = await client.get(gadget.gvk, "one", namespace="default")
        assert kept == gadget
        assert (await client.get(ConfigMap, "last", namespace="default")).metadata == latest.metadata
        new = await client.create(ConfigMap(metadata=ObjectMeta(name="new", namespace="default")))
        assert int(new.metadata.resource_version or 0) > int(latest.metadata.resource_version or 0)
        me = await other.create(Unstructured(WHO))
        assert me["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    up.stop()


def failed_start(folder: Path, store: str) -> str:
    """Return the error of `kubewright up`, which must be one line without traceback."""
    command = [sys.executable, "-m", "kubewright.cli", "up", "--store", store]
    ran = subprocess.run(
        [*command, "--kubeconfig", str(folder / "unused")], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stdout == ""
    line, *more = ran.stderr.splitlines()
    assert more == []
    assert not (folder / "unused").exists()
    return line


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, 1), (1.0, 2)])
def test_unreachable_storage_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, lines: int
) -> None:
    monkeypatch.setattr(up_start, "STORAGE_TIMEOUT", seconds)
    store = "etcd://127.0.0.1:1/prefix?timeout=1"
    result = CliRunner().invoke(main, ["up", "--store", store, "--kubeconfig", str(tmp_path / "unused")])
    assert result.exit_code == 1
    *warnings, error = result.output.splitlines()
    assert error.startswith("Error: etcd at 127.0.0.1:1: ")
    assert len([*warnings, error]) == lines
    assert not (tmp_path / "unused").exists()


def test_failed_start_prints_one_line(tmp_path: Path, start: Callable[..., Any]) -> None:
    path = tmp_path / "state.db"
    up = start(tmp_path, "--store", f"sqlite:{path}", "--no-controllers")
    line = failed_start(tmp_path, f"sqlite:{path}")
    assert f"{path} is already in use by process {up.process.pid}: stop that" in line
    up.stop()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE facts SET value = 99 WHERE name = 'format'")
    database.close()
    assert "newer version of Kubewright (format 99" in failed_start(tmp_path, f"sqlite:{path}")
