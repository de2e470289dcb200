"""Time travel of a control plane: rewind, branches, reads at revisions, and the commands."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Pod, Secret
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, load_config, merge_patch
from kubewright.controlplane.history import NoHistory
from kubewright.storage import MemoryStorage
from kubewright.testing import fake_time, start_test_server

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    },
}


async def pods(client: Client) -> dict[str, str | None]:
    return {each.metadata.uid: each.status.phase async for each in client.list(Pod)}


async def test_rewind_restores_objects_with_their_identity() -> None:
    async with start_test_server("in-process") as server:
        plane, client = server.plane, server.client()
        first = await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
        before = await plane.storage.revision()
        await client.delete(ConfigMap, "a")
        await client.create(ConfigMap(metadata=ObjectMeta(name="b")))
        await client.create(Unstructured(DEFINITION))
        await plane.wait_until_idle()
        await client.create(
            Unstructured({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s"}})
        )
        after = await plane.storage.revision()
        done = await plane.rewind(before)
        assert done.deleted >= 3
        found = await client.get(ConfigMap, "a")
        assert (found.metadata.uid, found.data) == (first.metadata.uid, {"x": "1"})
        assert await client.get_or_none(ConfigMap, "b") is None
        # An update with the resource version from before is a conflict, not a lost update.
        assert found.metadata.resource_version != first.metadata.resource_version
        await plane.rewind(after)
        await plane.wait_until_idle()
        fresh = server.client()
        shop = await fresh.get("Shop.example.com", "s")
        assert shop.metadata.name == "s"
        with pytest.raises(NoHistory, match="is in the future"):
            await plane.rewind(10**9)
        with pytest.raises(NoHistory, match="not in the history, which starts at"):
            await plane.rewind(datetime(2001, 1, 1, tzinfo=UTC))


async def test_namespaces_that_are_named_like_kept_resources_are_rewound() -> None:
    async with start_test_server("in-process") as server:
        plane, client = server.plane, server.client()
        before = await plane.storage.revision()
        for name in ("events", "leases"):
            await client.create(
                Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            )
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=name)))
        names = {each.key for each in await plane.history.changes(before, plane.history.revision)}
        assert {"/registry/configmaps/events/a", "/registry/namespaces/leases"} <= names
        await plane.rewind(before)
        for name in ("events", "leases"):
            assert await client.get_or_none(ConfigMap, "a", namespace=name) is None
            assert await client.get_or_none("Namespace", name) is None


def test_rewind_keeps_running_pods() -> None:
    async def run() -> None:
        async with start_test_server("in-process", nodes=1) as server:
            plane, client = server.plane, server.client()
            await client.create(Unstructured(DEPLOYMENT))
            await plane.wait_until_idle()
            running = await pods(client)
            assert list(running.values()) == ["Running"] * 2
            before = await plane.storage.revision()
            await client.patch("Deployment.apps", "web", merge_patch({"spec": {"replicas": 0}}))
            await plane.wait_until_idle()
            await asyncio.sleep(60)
            await plane.wait_until_idle()
            assert await pods(client) == {}
            await plane.rewind(before)
            await plane.wait_until_idle()
            await asyncio.sleep(60)
            await plane.wait_until_idle()
            assert await pods(client) == running
            # The same after the garbage collector has deleted the pods with their owners.
            await client.delete("Deployment.apps", "web")
            await asyncio.sleep(60)
            await plane.wait_until_idle()
            assert await pods(client) == {}
            await plane.rewind(before)
            await plane.wait_until_idle()
            await asyncio.sleep(60)
            await plane.wait_until_idle()
            assert await pods(client) == running

    fake_time(run())


async def test_a_branch_is_another_cluster_with_the_same_objects() -> None:
    async with start_test_server("in-process") as server:
        plane, client = server.plane, server.client()
        first = await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
        revision = await plane.storage.revision()
        await client.patch(ConfigMap, "a", merge_patch({"data": {"x": "2"}}))
        async with plane.branch(revision) as branch:
            other = branch.client()
            found = await other.get(ConfigMap, "a")
            assert (found.metadata.uid, found.data) == (first.metadata.uid, {"x": "1"})
            await other.create(ConfigMap(metadata=ObjectMeta(name="only-here")))
            assert await client.get_or_none(ConfigMap, "only-here") is None
        assert (await client.get(ConfigMap, "a")).data == {"x": "2"}


async def test_a_started_branch_shares_the_objects() -> None:
    count, size = 400, 50_000
    async with start_test_server("in-process") as server:
        plane, client = server.plane, server.client()
        for number in range(count):
            await client.create(
                ConfigMap(metadata=ObjectMeta(name=f"c{number}"), data={"x": f"{number:04}" * (size // 4)})
            )
        tracemalloc.start()
        try:
            async with plane.branch() as branch:
                found = [each async for each in branch.client().list(ConfigMap, limit=10)]
                cost, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found
        stored = sum(len(each.value) for each in (await plane.storage.list("")).items)
    assert stored > count * size
    assert cost < stored / 2, (cost, stored)


async def test_lists_are_served_at_exact_revisions() -> None:
    async with start_test_server("in-process", store=MemoryStorage()) as server:
        client = server.client()
        made = await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
        await client.patch(ConfigMap, "a", merge_patch({"data": {"x": "2"}}))
        await client.delete(ConfigMap, "a")
        version = str(made.metadata.resource_version)
        items = await client.list(ConfigMap, resource_version=version, resource_version_match="Exact")
        assert [each.data for each in items if each.metadata.name == "a"] == [{"x": "1"}]


def test_a_duration_that_is_too_long_is_wrong_usage() -> None:
    from kubewright.cli.clusters.history_requests import MOMENT

    for text in ("99999999h", "99999999999h", "xx"):
        with pytest.raises(click.BadParameter):
            MOMENT.convert(text, None, None)


def command(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kubewright.cli", *arguments, "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        timeout=120,
    )


async def test_the_commands_on_a_running_server(tmp_path: Path, start: Callable[..., Any]) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    up = start(tmp_path, "--history", "--store", store)
    async with Client.connect(load_config(up.kubeconfig)) as client:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
        await client.create(Secret(metadata=ObjectMeta(name="s"), string_data={"password": "hunter2"}))
        made = await client.get(ConfigMap, "a")
        await client.patch(ConfigMap, "a", merge_patch({"data": {"x": "2"}}))
        await client.patch(Secret, "s", merge_patch({"stringData": {"password": "hunter3"}}))
    listed = command(up.kubeconfig, "rewind", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "update   /registry/configmaps/default/a" in listed.stdout
    revision = str(made.metadata.resource_version)
    up.stop()
    up = start(tmp_path, "--history", "--store", store)  # the history is that of the file
    found = command(up.kubeconfig, "diff", "--from", revision, "--kind", "ConfigMap", "--kind", "Secret")
    assert found.returncode == 0, found.stderr
    assert '-  x: "1"\n+  x: "2"' in found.stdout or "-  x: '1'\n+  x: '2'" in found.stdout
    assert "+  password: cmVkYWN0ZWQ" in found.stdout
    assert "aHVudGVyM" not in found.stdout
    times = [
        each["time"]
        for each in json.loads(command(up.kubeconfig, "rewind", "--list=500", "-o", "json").stdout)["changes"]
    ]
    assert None not in times
    done = command(up.kubeconfig, "rewind", "--to", revision)
    assert done.returncode == 0, done.stderr
    assert f"rewound to revision {revision}: wrote" in done.stdout
    async with Client.connect(load_config(up.kubeconfig)) as client:
        assert (await client.get(ConfigMap, "a")).data == {"x": "1"}
    missing = command(up.kubeconfig, "rewind", "--to", "99999999")
    assert missing.returncode == 1
    assert "Error: revision 99999999 is in the future; the current one is" in missing.stderr
    assert command(up.kubeconfig, "rewind", "--to", "yesterday").returncode == 2
    up.stop()
    up = start(tmp_path, "--store", store)
    absent = command(up.kubeconfig, "diff", "--from", "5m")
    assert absent.returncode == 1
    assert (
        absent.stderr.splitlines()[-1]
        == "Error: the server has no history; start it with kubewright up --history"
    )
    up.stop()


async def test_only_administrators_can_use_the_endpoints() -> None:
    from kubewright.api.errors import Forbidden
    from kubewright.client.rest.request import APIRequest

    async with start_test_server("in-process", history=True, auth="rbac") as server:
        user = server.plane.client(user="jane")
        for method, path in (("GET", ""), ("GET", "/diff?from=1&to=2"), ("POST", "/rewind?to=1")):
            place, _, query = path.partition("?")
            request = APIRequest("get", method, f"/kubewright/history{place}", query=query)
            with pytest.raises(Forbidden):
                await user.rest.send(request)
