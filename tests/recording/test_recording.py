"""Recordings: files, lists and watches of a cluster, and the ring of an operator."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubewright import Context, Operator
from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import wall_time
from kubewright.client import merge_patch
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.recording import (
    ClusterRecorder,
    RecordedChange,
    Recording,
    RecordingError,
    RecordingRing,
    Redactor,
    read_recording,
    write_recording,
)
from kubewright.recording.cluster_recorder import select_resources
from kubewright.testing import run_operator, start_test_server

PLANTED = "zq-planted-4711"
HEADER = b'{"recording":1,"start":"2026-01-01T00:00:00Z"}\n'


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    recording = Recording(
        objects=[config_map("a", x="1")],
        changes=[
            RecordedChange(at=1.5, type="MODIFIED", object=config_map("a", x="2"), own=True),
            RecordedChange(at=2.0, type="ADDED", object=config_map("b")),
            RecordedChange(at=3.0, type="DELETED", object=config_map("a", x="2")),
        ],
        reconciles=[{"controller": "shop", "started": 1000.0}],
        start=datetime(2026, 1, 1, tzinfo=UTC),
        duration=10.0,
        operator="shop",
        kubernetes_version="1.36",
        is_redacted=True,
        notes=["a note"],
    )
    path = tmp_path / "a.recording.gz"
    write_recording(recording, path)
    assert read_recording(path) == recording
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    found = {str(key): obj["data"] for key, obj in recording.state_at(2.0).items()}
    assert found == {"ConfigMap shop/a": {"x": "2"}, "ConfigMap shop/b": {}}
    assert [each.at for each in recording.since(1.5).changes] == [0.5, 1.5]


def test_a_file_that_ends_early_is_read_up_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.recording.gz"
    changes = [
        RecordedChange(at=number, type="ADDED", object=config_map(os.urandom(200).hex()))
        for number in range(200)
    ]
    write_recording(Recording(changes=changes), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = read_recording(path)
    assert 0 < len(found.changes) < 200
    assert found.notes == ["the end of the file is missing"]
    for content, message in (
        (b"", "is empty"),
        (b"{}\n", "is not a recording"),
        (b"text without a line", "is not a recording"),
        (gzip.compress(b"text")[:12], "is not a recording"),
        (gzip.compress(b'{"recording":2,"start":"2026-01-01T00:00:00Z"}\n'), "newer version"),
        (gzip.compress(b'{"recording":1,"start":"2026-01-01T00:00:00Z"}\n[]\n'), "line 2"),
        (
            HEADER + b'{"object":{"kind":"Pod","metadata":"x"}}\n',
            "line 2: not valid: an object has no metadata",
        ),
        (HEADER + b'{"change":{"at":1,"type":"ADDED","object":{}}}\n', "line 2: .* no metadata"),
    ):
        path.write_bytes(content)
        with pytest.raises(RecordingError, match=message):
            read_recording(path)
    with pytest.raises(RecordingError, match="No such file"):
        read_recording(tmp_path / "missing")


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "folder", tmp_path / "file" / "x", Path("/dev/full/x")):
        with pytest.raises(RecordingError, match=f"cannot write {path}: "):
            write_recording(Recording(), path)


class Requests:
    """Records the methods of requests."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def __call__(self, request: APIRequest, proceed: CallNext) -> Any:
        self.methods.append(request.method)
        return await proceed(request)


async def test_a_cluster_is_recorded_with_lists_and_watches_only(tmp_path: Path) -> None:
    async with start_test_server("in-process", auth="rbac") as server:
        admin = server.client()
        await admin.create(
            Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        )
        rules = [{"apiGroups": ["*"], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
        await admin.create(
            Unstructured(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "reader"},
                    "rules": rules,
                }
            )
        )
        await admin.create(
            Unstructured(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": "reader"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "reader",
                    },
                    "subjects": [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}],
                }
            )
        )
        meta = ObjectMeta(name="a", namespace="shop")
        await admin.create(ConfigMap(metadata=meta, data={"x": "1", "config": f"password={PLANTED}"}))
        await admin.create(Secret(metadata=meta, string_data={"token": PLANTED}))
        before = await server.plane.storage.revision()
        requests = Requests()
        client = server.plane.client(user="reader").with_interceptor(requests)
        recorder = ClusterRecorder(client, await select_resources(client, ["cm", "secrets"]))
        stop, started, path = asyncio.Event(), asyncio.Event(), tmp_path / "a.recording.gz"
        running = asyncio.create_task(
            recorder.run(path, stop, redactor=Redactor(), source="test", on_start=started.set)
        )
        await started.wait()
        assert await server.plane.storage.revision() == before
        await admin.patch(ConfigMap, "a", merge_patch({"data": {"x": "2"}}), namespace="shop")
        await admin.delete(ConfigMap, "a", namespace="shop")
        await wait_until(lambda: recorder.changes == 2)
        stop.set()
        await running
        assert set(requests.methods) == {"GET"}
    found = read_recording(path)
    assert "secrets cannot be listed" in found.notes[0]
    assert [(each.type, each.object["data"]["x"]) for each in found.changes] == [
        ("MODIFIED", "2"),
        ("DELETED", "2"),
    ]
    kept = [each for each in found.objects if each["metadata"]["name"] == "a"]
    assert kept[0]["data"]["x"] == "1"
    assert kept[0]["metadata"]["managedFields"], "they name the client of a change"
    assert PLANTED not in gzip.decompress(path.read_bytes()).decode()


async def test_unknown_kinds_are_an_error() -> None:
    async with start_test_server("in-process") as server:
        with pytest.raises(RecordingError, match="no resource 'shps'"):
            await select_resources(server.client(), ["shps"])
        names = {str(each.gvr.group_resource) for each in await select_resources(server.client())}
        assert {"configmaps", "deployments.apps", "secrets"} <= names
        assert not {"events", "leases.coordination.k8s.io"} & names


def make_operator() -> Operator:
    operator = Operator("copies")
    operator.settings.allow = (ConfigMap,)

    @operator.reconcile(ConfigMap, owns=(ConfigMap,))
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if (source.metadata.labels or {}).get("copy") != "yes":
            return
        if (source.data or {}).get("fail"):
            raise ValueError(f"cannot copy with password={PLANTED}")
        name = f"{source.metadata.name}-copy"
        if (source.data or {}).get("remove"):
            await ctx.client.delete(ConfigMap, name, namespace=source.metadata.namespace)
            return
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=name), data=source.data)])

    return operator


@pytest.fixture
async def recorded(tmp_path: Path) -> Any:
    """An operator with a ring, a client and the ring."""
    async with start_test_server("in-process") as server:
        operator = make_operator()
        operator.settings.recording_minutes = 10
        operator.settings.recording_directory = str(tmp_path)
        operator.settings.recording_errors = 3
        async with run_operator(operator, server.client()) as manager:
            ring = next(each for each in manager.runnables if isinstance(each, RecordingRing))
            yield server.client(), ring, tmp_path


async def test_a_ring_has_the_last_minutes_of_an_operator(recorded: Any) -> None:
    client, ring, folder = recorded
    meta = ObjectMeta(name="a", labels={"copy": "yes"})
    await client.create(ConfigMap(metadata=meta, data={"x": "1", "note": f"token: {PLANTED}"}))
    await wait_until(lambda: len(ring.log) >= 2)
    await client.patch(ConfigMap, "a", merge_patch({"data": {"remove": "yes"}}))
    await wait_until(lambda: len(ring.log) >= 4)
    os.kill(os.getpid(), signal.SIGUSR1)
    await wait_until(lambda: list(folder.glob("copies-*.recording.gz")))
    (path,) = folder.glob("copies-*.recording.gz")
    found = read_recording(path)
    assert PLANTED not in gzip.decompress(path.read_bytes()).decode()
    assert [(each.type, each.object["metadata"]["name"], each.own) for each in found.changes] == [
        ("ADDED", "a", False),
        ("ADDED", "a-copy", True),
        ("MODIFIED", "a", False),
        ("DELETED", "a-copy", True),
    ]
    assert "kube-root-ca.crt" in {each["metadata"]["name"] for each in found.objects}
    assert not {"a", "a-copy"} & {each["metadata"]["name"] for each in found.objects}
    assert found.operator == "copies"
    assert found.notes == ["written because of SIGUSR1"]
    span = found.reconciles[0]
    assert span["causes"][0]["operation"] == "created"
    assert [each["verb"] for each in span["writes"]] in (["apply"], ["patch"], ["create"])


async def test_a_ring_is_written_when_many_reconciles_fail(recorded: Any) -> None:
    client, _, folder = recorded
    for number in range(5):
        meta = ObjectMeta(name=f"f{number}", labels={"copy": "yes"})
        await client.create(ConfigMap(metadata=meta, data={"fail": "yes"}))
    await wait_until(lambda: list(folder.glob("copies-*.recording.gz")))
    (path,) = folder.glob("copies-*.recording.gz")
    found = read_recording(path)
    assert found.notes[0].startswith("written because of 4 failed reconciles within 60 s")
    errors = [each["error"] for each in found.reconciles if each["error"]]
    assert len(errors) >= 4, "others may have failed meanwhile"
    assert all("password=redacted-" in each for each in errors)


async def test_a_clock_that_is_set_does_not_change_how_often_a_ring_is_written(recorded: Any) -> None:
    client, ring, folder = recorded
    steps = [0.0]
    ring._clock = lambda: wall_time() + steps[0]
    for number in range(5):
        meta = ObjectMeta(name=f"f{number}", labels={"copy": "yes"})
        await client.create(ConfigMap(metadata=meta, data={"fail": "yes"}))
    await wait_until(lambda: list(folder.glob("copies-*.recording.gz")))
    steps[0] = 3600.0
    failed = len(ring._reconciles)
    for number in range(5):
        await client.patch(ConfigMap, f"f{number}", merge_patch({"data": {"x": "1"}}))
    await wait_until(lambda: len(ring._reconciles) >= failed + 5)
    await wait_until(lambda: not ring._tasks)
    assert len(list(folder.glob("copies-*.recording.gz"))) == 1


async def test_a_ring_is_bounded() -> None:
    from kubewright.recording import ChangeLog

    now = [1000.0]
    async with start_test_server("in-process") as server:
        client = server.client()
        from kubewright.cache import Cache

        async with Cache(client, allow=(ConfigMap,)) as cache:
            informer = await cache.synced_informer(ConfigMap)
            log = ChangeLog(seconds=60, max_changes=5, max_bytes=4000, clock=lambda: now[0])
            log.follow(informer)
            await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"n": "0"}))
            for number in range(1, 9):
                now[0] += 1
                await client.patch(ConfigMap, "a", merge_patch({"data": {"n": str(number)}}))
            await wait_until(lambda: log.started >= 1003)
            from kubewright.recording.change_log import decode_changes, decode_objects

            def start() -> list[str]:
                objects = decode_objects(log.objects())
                return [each["data"]["n"] for each in objects if each["metadata"]["name"] == "a"]

            numbers = [each.object["data"]["n"] for each in decode_changes(log.entries(), log.started)]
            assert (start(), numbers) == (["3"], ["4", "5", "6", "7", "8"])
            now[0] += 100
            await client.patch(ConfigMap, "a", merge_patch({"data": {"n": "9"}}))
            await wait_until(lambda: len(log) == 1)
            assert start() == ["8"]
            await client.patch(ConfigMap, "a", merge_patch({"data": {"n": "x" * 5000}}))
            await client.patch(ConfigMap, "a", merge_patch({"data": {"n": "10"}}))
            await wait_until(lambda: len(log) == 0 or log.bytes < 4000)
            assert log.bytes <= 4000
