"""Rolling upgrade: a replica of the previous version and one of this version on one store.

The previous version is an older commit of this repository, `KUBEWRIGHT_PREVIOUS` or a fixed one; its sources
are extracted to a temporary directory and run as a process. This version runs in the test's process.

    KUBEWRIGHT_PREVIOUS=v0.1.0 pytest tests/controlplane/replicas/test_rolling_upgrade.py
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
from bench._ports import unused_port

from kubewright.client import load_config
from kubewright.client.transport.http import HTTPTransport
from kubewright.controlplane import ControlPlane

from .cluster import ServerProcess
from .conftest import SharedStore

PREVIOUS = {
    "etcd": "d3bec7e2ec4d5df2523810144ab60be8903b3ff5",
    "postgresql": "230282177d2d0d84f3706e81a66af3e9405024b9",
    "sqlite": "d3bec7e2ec4d5df2523810144ab60be8903b3ff5",
}
"""Commits of the previous version; on PostgreSQL the first one that can use it."""
IS_COMPLETE = "KUBEWRIGHT_PREVIOUS" in os.environ
"""Whether the way back, and files, are tested, too."""
ROOT = Path(__file__).parents[3]
Object = dict[str, Any]
DEFAULT = "/api/v1/namespaces/default"
APPLY = "application/apply-patch+yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: Object = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "default": 3}},
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
            for name in ("v1", "v2")
        ],
    },
}


def extract_previous(kind: str, folder: Path) -> Path:
    """Return the directory of the sources of the previous version; skip the test without them."""
    commit = os.environ.get("KUBEWRIGHT_PREVIOUS", PREVIOUS[kind])
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    try:
        archive = subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the commit {commit[:12]} of the previous version is not in this clone")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder / "previous", filter="data")
    sources = folder / "previous" / "src"
    if not (sources / "kubewright" / "storage" / f"{kind}.py").exists():
        pytest.skip(f"the previous version {commit[:12]} has no storage in {kind}")
    return sources


class Connection:
    """Requests to a server with the credentials of an administrator."""

    def __init__(self, kubeconfig: Path, url: str = "") -> None:
        config = load_config(kubeconfig)
        self._transport = HTTPTransport(replace(config, server=url) if url else config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._transport.aclose()

    async def send(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        path, _, query = path.partition("?")
        data = json.dumps(body).encode() if body is not None else b""
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        response = await self._transport.send(method, path, query, headers, data, timeout=30)
        return response.status, response.body

    async def get(self, path: str) -> Any:
        return await self._checked("GET", path)

    async def create(self, path: str, obj: Object) -> Any:
        return await self._checked("POST", path, obj)

    async def apply(self, path: str, obj: Object) -> Any:
        return await self._checked("PATCH", f"{path}?fieldManager=app", obj, APPLY)

    async def _checked(self, *request: Any) -> Any:
        status, body = await self.send(*request)
        assert status < 300, (request, body)
        return json.loads(body)


class PreviousServer(ServerProcess):
    """`kubewright up` of the previous version."""

    def __init__(self, sources: Path, folder: Path, store: str) -> None:
        self.kubeconfig = folder / "kubeconfig-previous"
        self._ready = folder / "ready-previous"
        command = ["env", f"PYTHONPATH={sources}", sys.executable, "-m", "kubewright.cli", "up"]
        command += ["--port", str(unused_port()), "--store", store, "--nodes", "1"]
        command += ["--kubeconfig", str(self.kubeconfig), "--ready-file", str(self._ready)]
        super().__init__("previous version", command, folder / "previous.log")

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        self._ready.unlink(missing_ok=True)
        self.spawn()
        async with asyncio.timeout(90):
            while not self._ready.exists():
                self.check_running()
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop it as an upgrade does, and wait until it has ended."""
        self.send(signal.SIGTERM)
        assert self._process is not None
        async with asyncio.timeout(60):
            while self._process.poll() is None:
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Connection]:
        await self.start()
        try:
            async with Connection(self.kubeconfig) as connection:
                yield connection
            await self.stop()
        finally:
            self.kill()


async def write_objects(server: Connection, name: str) -> None:
    """Create objects of several kinds, and wait until controllers and the node have processed them."""
    metadata, labels = {"name": name}, {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    for path, fields in (
        (f"{DEFAULT}/configmaps", {"data": {"k": name}}),
        (f"{DEFAULT}/secrets", {"stringData": {"k": name}}),
        (f"{DEFAULT}/serviceaccounts", {}),
        (f"{DEFAULT}/services", {"spec": {"type": "NodePort", "selector": labels, "ports": [{"port": 80}]}}),
        (f"{rbac}/roles", {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
        (
            f"{rbac}/rolebindings",
            {
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            },
        ),
        (deployments, {"spec": {"selector": {"matchLabels": labels}, "template": template}}),
    ):
        await server.create(path, {"metadata": metadata, **fields})
    async with asyncio.timeout(60):
        while (await server.get(f"{deployments}/{name}"))["status"].get("availableReplicas") != 1:
            await asyncio.sleep(0.05)


RENEWED = frozenset(("leases", "events", "nodes", "apiservices", "endpoints", "endpointslices"))
"""Resources that servers and kubelets renew, or that have the address of the server that started last."""


async def read_everything(server: Connection) -> dict[str, Object]:
    """Return all objects of all resources in all versions, by path and name, except those in `RENEWED`."""
    groups = (await server.get("/apis"))["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    found: dict[str, Object] = {}
    for root in ["/api/v1", *(f"/apis/{version}" for version in versions if "metrics" not in version)]:
        for resource in (await server.get(root))["resources"]:
            if (
                "list" in resource["verbs"]
                and resource["name"] not in RENEWED
                and "/" not in resource["name"]
            ):
                path = f"{root}/{resource['name']}"
                for item in (await server.get(path))["items"]:
                    metadata = item["metadata"]
                    found[f"{path} {metadata.get('namespace', '')}/{metadata['name']}"] = item
    return found


async def user_of(server: Connection, token: str) -> str:
    """Return the user that a server takes the bearer of a token for."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    return str((await server.create(path, {"spec": {"token": token}}))["status"]["user"].get("username"))


async def leader(server: Connection) -> str:
    """Return the replica that runs the controllers; empty if none does."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
    status, body = await server.send("GET", path)
    return str(json.loads(body)["spec"].get("holderIdentity") or "") if status == 200 else ""


async def check_equal_objects(old: Connection, new: Connection) -> None:
    """Both versions return the same objects in the resources and versions that both serve."""
    one, other = await read_everything(old), await read_everything(new)
    assert len(one) > 150
    paths = {key.partition(" ")[0] for key in one} & {key.partition(" ")[0] for key in other}
    assert {key for key in one.keys() ^ other.keys() if key.partition(" ")[0] in paths} == set()
    different = [key for key in one if key in other and one[key] != other[key]]
    assert not different, [(one[key], other[key]) for key in different[:3]]


async def check_writes(old: Connection, new: Connection) -> None:
    """Each version accepts the tokens of the other, and continues what the other has written."""
    widgets = "/apis/example.com/v{}/namespaces/default/widgets"
    for writer, reader, name in ((old, new, "one"), (new, old, "two")):
        requested = await writer.create(f"{DEFAULT}/serviceaccounts/{name}/token", {"spec": {}})
        user = await user_of(reader, requested["status"]["token"])
        assert user == f"system:serviceaccount:default:{name}"
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
        await writer.create(widgets.format(1), {**widget, "metadata": {"name": "default"}, "spec": {}})
        path = f"{widgets.format(2)}/default"
        assert (await reader.get(path))["spec"] == {"size": 3}
        assert (await reader.send("DELETE", path))[0] == 200
        path = f"{widgets.format(1)}/{name}"
        await writer.apply(path, {**widget, "spec": {"size": 4}})
        status, body = await reader.send(
            "PATCH", f"{path}?fieldManager=other", {**widget, "spec": {"size": 6}}, APPLY
        )
        assert status == 409, body
        applied = await reader.apply(path, {**widget, "spec": {"size": 5}})
        assert [each["manager"] for each in applied["metadata"]["managedFields"]].count("app") == 1
        assert (await reader.send("DELETE", path))[0] == 200
        assert (await writer.send("GET", path))[0] == 404


async def wait_for_leader(server: Connection, *others: str) -> None:
    """Wait until another replica than these runs the controllers."""
    async with asyncio.timeout(30):
        while await leader(server) in ("", *others):
            await asyncio.sleep(0.05)


async def test_replicas_of_two_versions(shared_store: SharedStore, tmp_path: Path) -> None:
    """Upgrade a replica while the other one serves; with `KUBEWRIGHT_PREVIOUS`, go back."""
    store = shared_store.url()
    server = PreviousServer(extract_previous(shared_store.kind, tmp_path), tmp_path, store)
    async with AsyncExitStack() as stack:
        plane = ControlPlane(store=store, port=0, nodes=1)
        async with server.running() as old:
            await old.create(DEFINITIONS, DEFINITION)
            await write_objects(old, "one")
            first = await leader(old)
            await stack.enter_async_context(plane)
            new = await stack.enter_async_context(Connection(server.kubeconfig, plane.url))
            if first:  # versions before 0.1 have no leader election
                assert await leader(new) == first, "the new replica waits for the leader"
            await write_objects(new, "two")
            await check_equal_objects(old, new)
            await check_writes(old, new)
            version = (await new.get(f"{DEFAULT}/configmaps"))["metadata"]["resourceVersion"]
            await old.create(f"{DEFAULT}/configmaps", {"metadata": {"name": "later"}})
            query = f"?watch=1&timeoutSeconds=1&resourceVersion={version}"
            _, events = await new.send("GET", f"{DEFAULT}/configmaps{query}")
            assert [json.loads(line)["object"]["metadata"]["name"] for line in events.splitlines()] == [
                "later"
            ]
        # The previous version has stopped: this one continues the controllers.
        await wait_for_leader(new, first)
        second = await leader(new)
        await write_objects(new, "three")
        if not IS_COMPLETE:
            return
        # Back to the previous version, which reads what this one has written.
        async with server.running() as old:
            await check_equal_objects(old, new)
            await check_writes(old, new)
            await stack.aclose()
            if first:
                await wait_for_leader(old, second)
            await write_objects(old, "four")


@pytest.mark.skipif(not IS_COMPLETE, reason="set KUBEWRIGHT_PREVIOUS=COMMIT to run it, about 30 s")
async def test_a_file_of_the_previous_version(tmp_path: Path) -> None:
    """A SQLite file is opened by this version, and by the previous one afterwards."""
    store = f"sqlite:{tmp_path / 'cluster.db'}"
    server = PreviousServer(extract_previous("sqlite", tmp_path), tmp_path, store)
    async with server.running() as old:
        await old.create(DEFINITIONS, DEFINITION)
        await write_objects(old, "one")
        before = await read_everything(old)
    plane = ControlPlane(store=store, port=0, nodes=1)
    async with plane, AsyncExitStack() as stack:
        new = await stack.enter_async_context(Connection(server.kubeconfig, plane.url))
        after = await read_everything(new)
        changed = [
            key for key in before if key in after and before[key].get("spec") != after[key].get("spec")
        ]
        assert not changed
        assert "/api/v1/configmaps default/one" in after
        await write_objects(new, "two")
    async with server.running() as old:
        assert (await old.get(f"{DEFAULT}/configmaps/two"))["data"] == {"k": "two"}
        await write_objects(old, "three")
