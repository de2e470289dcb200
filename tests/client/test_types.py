"""Programs that use the clients type-check: each form of a kind has objects of its type."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kubewright

SOURCE = Path(kubewright.__file__).parents[1]

PROGRAM = """
from typing import Any

from kubewright import Client, SyncClient, Unstructured
from kubewright.api import GroupVersionKind, GroupVersionResource, PartialObjectMetadata
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.cache import Cache, CachedClient
from kubewright.client import AnyKind, Reader, Writer, is_deleted, merge_patch, metadata_of

GVK = GroupVersionKind("apps", "v1", "Deployment")
GVR = GroupVersionResource("apps", "v1", "deployments")
PATCH = merge_patch({})


def wants(deployment: Deployment) -> None: ...
def wants_any(obj: Unstructured) -> None: ...
def wants_metadata(obj: PartialObjectMetadata) -> None: ...


async def reads(client: Client | CachedClient | Cache | Reader, kind: AnyKind) -> None:
    wants(await client.get(Deployment, "web", namespace="shop"))
    wants_any(await client.get(GVK, "web"))
    wants_any(await client.get(GVR, "web"))
    wants_any(await client.get("deploy", "web"))
    wants_metadata(await client.get(metadata_of(GVK), "web"))
    if (found := await client.get_or_none(Deployment, "web")) is not None:
        wants(found)
    for each in await client.list(Deployment, namespace="shop", labels="app=web", limit=1):
        wants(each)
    async for item in client.list("deploy"):
        wants_any(item)
    async for header in client.list(metadata_of(Deployment)):
        wants_metadata(header)
    await client.get(kind, "web")


async def streams(client: Client) -> None:
    async for event in client.watch(Deployment, namespace="shop"):
        wants(event.object)
    async for other in client.watch(GVK):
        wants_any(other.object)
    ready = await client.wait(Deployment, "web", until=lambda found: found is not None and bool(found.spec))
    assert ready is not None
    wants(ready)
    await client.wait(ready, until=is_deleted, timeout=None)
    await client.wait("deploy", "web", until=lambda found: found is None or found["spec"] == {})


async def writes(client: Client | CachedClient | Writer, deployment: Deployment) -> None:
    wants(await client.create(deployment))
    wants(await client.update(deployment, dry_run=True))
    wants(await client.patch(Deployment, "web", PATCH, namespace="shop"))
    wants_any(await client.patch("deploy", "web", PATCH))
    wants_metadata(await client.patch(metadata_of(GVK), "web", PATCH))
    wants(await client.patch(deployment, PATCH))
    wants(await client.patch(deployment))
    wants(await client.apply(deployment, force=True, field_manager="me"))
    if (deleted := await client.delete(Deployment, "web")) is not None:
        wants(deleted)
    if (deleted := await client.delete(deployment)) is not None:
        wants(deleted)
    if (other := await client.delete(GVK, "web")) is not None:
        wants_any(other)


def blocking(client: SyncClient, deployment: Deployment) -> None:
    wants(client.get(Deployment, "web", namespace="shop"))
    wants_any(client.get("deploy", "web"))
    wants_metadata(client.get(metadata_of(Deployment), "web"))
    for each in client.list(Deployment):
        wants(each)
    for item in client.iterate(GVK, limit=3):
        wants_any(item)
    for event in client.watch(Deployment):
        wants(event.object)
    wants(client.create(deployment))
    wants(client.patch(Deployment, "web", PATCH))
    wants(client.patch(deployment))
    wants(client.in_namespace("shop").with_dry_run().apply(deployment, field_manager="me"))
    wants_any(client.subresource("status", deployment).get())
    print(client.exec("web-0", ["ls"]).stdout, client.log("web-0", tail=1).read())
"""

WRONG = """
async def wrong(client: Client, blocking: SyncClient, cache: Cache) -> None:
    wants(await client.get("deploy", "web"))  # error
    wants(await client.get(GVK, "web"))  # error
    wants(await client.get(ConfigMap, "web"))  # error
    await client.get(Deployment, "web", namespaces="shop")  # error
    await client.get(3, "web")  # error
    await client.patch(Deployment, PATCH, name="web")  # error
    await client.list(Deployment, label="app=web")  # error
    wants(blocking.get("deploy", "web"))  # error
    blocking.list(Deployment, label="app=web")  # error
    wants(await cache.get(metadata_of(Deployment), "web"))  # error
"""


def expected_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# error")]


@pytest.mark.slow
def test_forms_of_kinds_have_their_types_with_mypy(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    result = subprocess.run(
        [*command, "program.py"],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(line) for line in re.findall(r"^program\.py:(\d+): error", result.stdout, re.M)}
    assert sorted(found) == expected_lines(PROGRAM + WRONG), result.stdout


@pytest.mark.slow
def test_forms_of_kinds_have_their_types_with_pyright(tmp_path: Path) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    settings = {"extraPaths": [str(SOURCE)], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    result = subprocess.run(
        [pyright, "--outputjson", "--pythonpath", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [each for each in json.loads(result.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    found = {each["range"]["start"]["line"] + 1 for each in errors}
    assert sorted(found) == expected_lines(PROGRAM + WRONG), result.stdout
