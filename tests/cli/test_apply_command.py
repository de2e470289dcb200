"""`kubewright apply` on a control plane over TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubewright.api.core.v1 import ConfigMap
from kubewright.cli import main
from kubewright.testing.server import TestServer, start_test_server

MANIFEST = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.apply.example.com}
spec:
  group: apply.example.com
  names: {kind: Toy, plural: toys}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: "1"}}
  - {apiVersion: apply.example.com/v1, kind: Toy, metadata: {name: b}}
"""


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("tls", None, controllers=False) as made:
        yield made


async def apply(server: TestServer, *arguments: str, text: str | None = None) -> Result:
    options = ["apply", "--kubeconfig", str(server.plane.kubeconfig), *arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, options, input=text)


async def test_changes_are_printed(server: TestServer, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(MANIFEST)
    result = await apply(server, "-f", str(tmp_path))
    assert result.output.splitlines() == [
        "customresourcedefinition.apiextensions.k8s.io/toys.apply.example.com created",
        "configmap/a created",
        "toy.apply.example.com/b created",
    ]
    changed = MANIFEST.replace('"1"', '"2"')
    result = await apply(server, "-f", "-", "--dry-run", text=changed)
    assert "configmap/a configured (dry run)" in result.output.splitlines()
    result = await apply(server, "-f", "-", text=changed)
    assert result.exit_code == 0
    assert [line.rpartition(" ")[2] for line in result.output.splitlines()][1:] == ["configured", "unchanged"]
    assert (await server.client().get(ConfigMap, "a", namespace="default")).data == {"size": "2"}


async def test_errors_are_one_line(server: TestServer, tmp_path: Path) -> None:
    config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '1'}}\n"
    assert (await apply(server, "-f", "-", text=config)).exit_code == 0
    result = await apply(server, "-f", "-", "--field-manager", "other", text=config.replace("'1'", "'2'"))
    assert result.exit_code == 1
    assert "take over the fields with --force-conflicts" in result.output
    result = await apply(server, "-f", str(tmp_path / "missing.yaml"))
    assert result.output == f"Error: cannot read {tmp_path}/missing.yaml: No such file or directory\n"
    result = await apply(server, "-f", "-", text="kind: Toy\n")
    assert result.exit_code == 1
    assert "apiVersion" in result.output
    result = await apply(server)
    assert result.exit_code == 2
