"""`kubewright diagnose`: one archive, complete, without secrets."""

from __future__ import annotations

import asyncio
import json
import stat
import tarfile
from pathlib import Path

import pytest
from tests.deployment_project import make_project

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import Namespace, Secret
from kubewright.testing.server import start_test_server

SECRET = "hunter2hunter2"
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"


def content(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            member.name.partition("/")[2]: file.read().decode()
            for member in archive.getmembers()
            if (file := archive.extractfile(member)) is not None
        }


def test_collects_the_operator_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, monkeypatch)
    project.settings(f'env = {{PASSWORD = "{SECRET}"}}')

    async def main() -> None:
        async with start_test_server("tls") as server:
            client = server.client()
            await client.create(Namespace(metadata=ObjectMeta(name="shop-system")))
            password = Secret(
                metadata=ObjectMeta(name="database", namespace="shop-system"),
                string_data={"password": SECRET},
            )
            await client.create(password)
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "a", "namespace": "shop-system"},
                "involvedObject": {"kind": "Pod", "namespace": "shop-system", "name": "a"},
                "message": f"login failed with Bearer {TOKEN}",
                "reason": "Failed",
                "type": "Warning",
            }
            await client.create(Unstructured(event))
            kubeconfig = str(server.plane.kubeconfig)
            await asyncio.to_thread(project.run, "deploy", "--no-wait", "--kubeconfig", kubeconfig)
            await asyncio.to_thread(project.run, "diagnose", "--kubeconfig", kubeconfig)

    asyncio.run(main())
    path = project.directory / "diagnosis.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = content(path)
    assert {
        "versions.json",
        "settings.json",
        "secrets.json",
        "errors.txt",
        "objects/deployments.apps.json",
        "objects/events.json",
        "objects/customresourcedefinitions.apiextensions.k8s.io.json",
    } <= files.keys()
    everything = "".join(files.values())
    assert SECRET not in everything
    assert TOKEN not in everything
    assert "redacted-" in files["objects/events.json"]
    assert {"name": "database", "type": "Opaque", "keys": ["password"]} in json.loads(files["secrets.json"])
    assert json.loads(files["versions.json"])["kubewright"]
    assert str(project.directory) not in everything


def test_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, monkeypatch)
    project.run("diagnose", "--no-cluster", "-o", "a.tar.gz")
    assert content(project.directory / "a.tar.gz").keys() == {"versions.json", "settings.json", "errors.txt"}


def test_outside_of_a_project_the_namespace_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    (project.directory / "pyproject.toml").unlink()
    assert "name the namespace" in project.run("diagnose", exit_code=2).output
