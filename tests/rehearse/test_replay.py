"""Three incidents are recorded, become failing tests, and pass with the fix."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.cli import main
from kubewright.client import Client, merge_patch
from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.recording import (
    ClusterRecorder,
    RecordedChange,
    Recording,
    RecordingRing,
    Redactor,
    read_recording,
    write_recording,
)
from kubewright.recording.cluster_recorder import select_resources
from kubewright.rehearse import replay_recording
from kubewright.rehearse.replays.moments import objects_at
from kubewright.testing import run_operator, start_test_server

HEAD = '''
from kubewright import Context, Operator, Result
from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import NotFound


class ShopSpec(Spec):
    size: int = 1


class ShopStatus(Status):
    created: bool = False
    checks: int = 0


@resource(group="example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


operator = Operator("shops")


def config(shop: Shop) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=f"{shop.name}-config"), data={"size": str(shop.spec.size)})
'''
HOT_LOOP = """

@operator.reconcile(Shop, owns=(ConfigMap,))
async def reconcile(shop: Shop, ctx: Context) -> None:
    await ctx.ensure([config(shop)])
    if shop.spec.size > 2:
        shop.status.checks += 1
        await ctx.update_status()
"""
LOST_CHILD = """

@operator.reconcile(Shop, owns=(ConfigMap,))
async def reconcile(shop: Shop, ctx: Context) -> None:
    if shop.status.created:
        return
    await ctx.ensure([config(shop)])
    shop.status.created = True
    await ctx.update_status()
"""
STUCK_FINALIZER = """

@operator.reconcile(Shop, owns=(ConfigMap,))
async def reconcile(shop: Shop, ctx: Context) -> None:
    await ctx.ensure([config(shop)])


@operator.finalize(Shop)
async def finalize(shop: Shop, ctx: Context) -> None:
    await ctx.client.uncached.get(ConfigMap, "backups", namespace=shop.namespace)
"""


async def grow(client: Client) -> None:
    await client.patch("Shop.example.com", "a", merge_patch({"spec": {"size": 3}}))
    await asyncio.sleep(0.5)


async def lose(client: Client) -> None:
    await client.delete(ConfigMap, "a-config")


async def remove(client: Client) -> None:
    await client.delete(ConfigMap, "backups")
    await client.delete("Shop.example.com", "a")


@dataclass(frozen=True)
class Incident:
    check: str
    broken: str
    fixed: str
    act: Callable[[Client], Awaitable[None]]


INCIDENTS = [
    Incident("hot-loop", HOT_LOOP, HOT_LOOP.replace("checks += 1", "checks = shop.spec.size"), grow),
    Incident("lost-child", LOST_CHILD, LOST_CHILD.replace("shop.status.created:", "False:"), lose),
    Incident(
        "stuck-finalizer",
        STUCK_FINALIZER,
        STUCK_FINALIZER.replace("uncached.get(", "uncached.get_or_none("),
        remove,
    ),
]


def load(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the module `shops`, and import it."""
    (folder / "shops.py").write_text(HEAD + source)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("shops", None)
    importlib.invalidate_caches()
    return importlib.import_module("shops")


@pytest.fixture(autouse=True)
def forget() -> Any:
    yield
    sys.modules.pop("shops", None)


async def wait_until_idle(plane: Any, manager: Any) -> None:
    async with asyncio.timeout(60):
        revision = -1
        while not manager.is_idle or revision != await plane.storage.revision():
            revision = await plane.storage.revision()
            await asyncio.sleep(0.2)


async def record(module: Any, path: Path, act: Callable[[Client], Awaitable[None]], *, ring: bool) -> None:
    """Record an incident among other objects and changes, as `kubewright record` or a ring."""
    async with start_test_server("in-process") as server:
        client = server.client()
        for number in range(5):
            await client.create(ConfigMap(metadata=ObjectMeta(name=f"noise-{number}"), data={"a": "b"}))
        await client.create(ConfigMap(metadata=ObjectMeta(name="backups")))
        secret = Secret(metadata=ObjectMeta(name="planted"), string_data={"password": "zq-planted"})
        await client.create(secret)
        settings: dict[str, Any] = {"allow": (ConfigMap,)}
        if ring:
            settings |= {"recording_minutes": 10.0, "recording_directory": str(path.parent)}
        async with run_operator(module.operator, server.client(), development=True, **settings) as manager:
            for name in ("a", "b", "c"):
                await client.create(module.Shop(metadata=ObjectMeta(name=name), spec=module.ShopSpec()))
            await wait_until_idle(server.plane, manager)
            resources = await select_resources(client, ["shops", "cm", "crd", "ns", "secrets"])
            recorder = ClusterRecorder(client, resources)
            stop, started = asyncio.Event(), asyncio.Event()
            recording = asyncio.create_task(
                recorder.run(path, stop, redactor=Redactor(), on_start=started.set)
            )
            await started.wait()
            await client.patch(ConfigMap, "noise-0", merge_patch({"data": {"a": "c"}}))
            await client.delete(ConfigMap, "noise-1")
            await act(client)
            await client.patch(ConfigMap, "noise-2", merge_patch({"data": {"a": "c"}}))
            async with asyncio.timeout(60):
                while recorder.changes < 4:
                    await asyncio.sleep(0.01)
            stop.set()
            await recording
            if ring:
                (found,) = [each for each in manager.runnables if isinstance(each, RecordingRing)]
                await found.write("a test", path)


def run_pytest(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("incident", "ring"),
    [*((each, False) for each in INCIDENTS), (INCIDENTS[1], True)],
    ids=[*(each.check for each in INCIDENTS), "lost-child-ring"],
)
def test_an_incident_becomes_a_test(
    incident: Incident, ring: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(tmp_path, incident.broken, monkeypatch)
    path = tmp_path / "incident.recording.gz"
    asyncio.run(record(module, path, incident.act, ring=ring))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main,
        ["replay", str(path), "shops:operator", "--to-test", "test_incident.py", "--check", incident.check],
    )
    assert result.exit_code == 1, result.output
    assert f"violated: {incident.check}" in result.output
    source = (tmp_path / "test_incident.py").read_text()
    assert "noise" not in source
    assert "planted" not in source
    values = {
        node.targets[0].id: node.value  # type: ignore[attr-defined]
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
    }
    assert len(values["OBJECTS"].elts) <= 3, source  # type: ignore[attr-defined]
    assert len(values["CHANGES"].elts) <= 2, source  # type: ignore[attr-defined]
    failed = run_pytest(tmp_path, "test_incident.py")
    assert failed.returncode == 1, failed.stdout
    assert incident.check in failed.stdout
    (tmp_path / "shops.py").write_text(HEAD + incident.fixed)
    passed = run_pytest(tmp_path, "test_incident.py")
    assert passed.returncode == 0, passed.stdout
    fixed = CliRunner().invoke(main, ["replay", str(path), "shops:operator"])
    assert fixed.exit_code == 0, fixed.output
    assert "different: " in fixed.output


STEADY = """

@operator.reconcile(Shop, owns=(ConfigMap,))
async def reconcile(shop: Shop, ctx: Context) -> None:
    await ctx.ensure([config(shop)])
    shop.status.checks = shop.spec.size
    await ctx.update_status()
"""


def shop(size: int = 1, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "default", "uid": "uid-a", "generation": 1, **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": meta, "spec": {"size": size}}


def change(at: float, type_: Any, obj: dict[str, Any], **options: Any) -> RecordedChange:
    return RecordedChange(at=at, type=type_, object=obj, **options)


async def test_the_recorded_version_acts_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(tmp_path, STEADY, monkeypatch)
    path = tmp_path / "steady.recording.gz"
    await record(module, path, grow, ring=False)
    replay = await asyncio.to_thread(replay_recording, read_recording(path), ModuleFactory("shops:operator"))
    assert (replay.violations, replay.differences, replay.skipped) == ([], [], [])
    inputs = [str(each) for each in replay.recorded.inputs]
    assert "patch Shop.example.com default/a" in inputs
    assert not any("config" in each for each in inputs), "the operator writes them itself"
    # Another version acts differently.
    (tmp_path / "shops.py").write_text(HEAD + STEADY.replace("config(shop)]", "]"))
    other = await asyncio.to_thread(replay_recording, read_recording(path), ModuleFactory("shops:operator"))
    found = {str(each.key): each.text for each in other.differences}
    assert "does not exist at the end" in found["ConfigMap default/a-config"]


def test_changes_of_others_apply_to_what_this_version_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path, STEADY, monkeypatch)
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a-config",
            "namespace": "default",
            "uid": "recorded-child",
            "ownerReferences": [
                {
                    "apiVersion": "example.com/v1",
                    "kind": "Shop",
                    "name": "a",
                    "uid": "uid-a",
                    "controller": True,
                }
            ],
        },
        "data": {"size": "1"},
    }
    labelled = {**child, "metadata": {**child["metadata"], "labels": {"by": "another"}}}  # type: ignore[dict-item]
    grandchild = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "grandchild",
            "namespace": "default",
            "uid": "recorded-grandchild",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "a-config", "uid": "recorded-child"}
            ],
        },
    }
    recording = Recording(
        changes=[
            change(1, "ADDED", shop()),
            change(1, "ADDED", child, own=True),
            change(1.0001, "MODIFIED", labelled),
            change(2, "ADDED", grandchild),
            change(3, "MODIFIED", shop(4)),
            change(4, "ADDED", {**grandchild, "kind": "Unknown"}),
        ],
        operator="shops",
        duration=5,
    )
    replay = replay_recording(recording, ModuleFactory("shops:operator"))
    assert replay.skipped == ["create Unknown default/grandchild: the kind is not served"]
    found = {key.name: obj for key, obj in replay.history.current.items() if key.kind == "ConfigMap"}
    assert found["a-config"]["metadata"]["labels"]["by"] == "another"
    assert found["a-config"]["data"] == {"size": "4"}
    uid = found["a-config"]["metadata"]["uid"]
    assert uid != "recorded-child"
    assert found["grandchild"]["metadata"]["ownerReferences"][0]["uid"] == uid, "it was not collected"
    made = next(obj for key, obj in replay.history.current.items() if key.kind == "Shop")
    assert made["metadata"]["generation"] == 2
    assert replay.ok


def test_moments_can_be_stepped_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, STEADY, monkeypatch)
    monkeypatch.chdir(tmp_path)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "uid": "s"},
        "data": {"password": "enE="},
    }
    recording = Recording(
        objects=[secret],
        changes=[change(1, "ADDED", shop()), change(5, "DELETED", shop())],
        duration=6,
    )
    write_recording(recording, tmp_path / "a.gz")
    arguments = ["replay", "a.gz", "shops:operator", "--json", "a.json", "--html", "a.html"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "a.json").read_text())
    texts = [each["text"] for each in document["moments"]]
    created = texts.index("create Shop.example.com default/a")
    deleted = texts.index("delete Shop.example.com default/a")
    collected = texts.index("delete ConfigMap default/a-config")
    assert created < deleted < collected
    assert "Shop.example.com default/a" not in objects_at(document, created - 1)
    assert "Shop.example.com default/a" in objects_at(document, created)
    assert {"Shop.example.com default/a", "ConfigMap default/a-config"} <= set(
        objects_at(document, deleted - 1)
    )
    assert "ConfigMap default/a-config" not in objects_at(document, collected)
    first = next(each for each in document["moments"] if each["kind"] == "reconcile")
    assert first["reconcile"]["causes"][0]["text"] == "Shop default/a created"
    assert first["queues"][0]["name"] == "shop"
    page = (tmp_path / "a.html").read_text()
    assert "enE=" not in page + json.dumps(document)
    assert page.count("<script") == 2


def test_faults_are_explored_from_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A crash between the two writes loses the status: it is only written after the creation.
    fragile = STEADY.replace(
        "    await ctx.ensure([config(shop)])\n    shop.status",
        '    found = await ctx.client.uncached.get_or_none(ConfigMap, f"{shop.name}-config")\n'
        "    if found is not None:\n"
        "        return\n    await ctx.ensure([config(shop)])\n    shop.status",
    )
    load(tmp_path, fragile, monkeypatch)
    monkeypatch.chdir(tmp_path)
    recording = Recording(changes=[change(1, "ADDED", shop())], duration=6)
    write_recording(recording, tmp_path / "a.gz")
    command = [sys.executable, "-m", "kubewright.cli", "replay", "a.gz", "shops:operator", "--explore"]
    result = subprocess.run(
        [*command, "--max-runs", "30"], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "crash" in result.stdout


def test_errors_of_the_operator_are_redacted_in_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = STEADY.replace(
        "    await ctx.ensure([config(shop)])\n",
        '    raise ValueError("cannot connect with password=zq-planted-4711")\n',
    )
    load(tmp_path, failing, monkeypatch)
    monkeypatch.chdir(tmp_path)
    write_recording(Recording(changes=[change(1, "ADDED", shop())], duration=6), tmp_path / "a.gz")
    arguments = ["replay", "a.gz", "shops:operator", "--json", "a.json", "--html", "a.html"]
    assert CliRunner().invoke(main, arguments).exit_code == 1
    text = (tmp_path / "a.json").read_text() + (tmp_path / "a.html").read_text()
    assert "cannot connect with password=redacted-" in text
    assert "zq-planted-4711" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.gz", "shops:operator"], "Error: cannot read missing.gz: No such file or directory"),
        (["a.gz", "shops:nothing"], "has no operator named 'nothing'"),
        (
            ["a.gz", "shops:operator", "--to-test", "t.py"],
            "does not violate a check; there is nothing to write",
        ),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path, STEADY, monkeypatch)
    monkeypatch.chdir(tmp_path)
    write_recording(Recording(changes=[change(1, "ADDED", shop())]), tmp_path / "a.gz")
    result = CliRunner().invoke(main, ["replay", *arguments])
    assert result.exit_code == 1
    assert message in result.output.splitlines()[-1]
