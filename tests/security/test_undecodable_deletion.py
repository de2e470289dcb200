"""Deletion of stored objects that cannot be decoded: the delete option, and `kubewright undecodable`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.apiserver.conftest import Talk, make_server
from tests.controlplane.encryption.test_encrypted_storage import KEY, OTHER, keyed, write_config
from tests.controlplane.path_client import PathClient
from tests.security.test_undecodable_reads import BASE, DAMAGES, create, write
from tests.security.test_undecodable_reads import KEY as WIDGET
from tests.storage.conftest import etcd_server, new_url, postgresql_server  # noqa: F401

from kubewright.api.errors import APIError, StoreReadError
from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.apiserver import HTTPRequest, User
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.cli import main
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.undecodable_values import find_undecodable_values
from kubewright.storage import open_storage
from kubewright.storage.memory import MemoryStorage

OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
UNSAFE = {"kind": "DeleteOptions", "apiVersion": "v1", OPTION: True}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("in_query", [False, True])
async def test_an_undecodable_object_is_deleted(kind: str, in_query: bool) -> None:
    storage = MemoryStorage()
    async with storage, make_server(storage) as server:
        talk = Talk(server)
        await create(talk)
        await write(storage, DAMAGES[kind])
        if in_query:
            response = await talk.ok("DELETE", f"{BASE}/b?{OPTION}=true")
        else:
            response = await talk.ok("DELETE", f"{BASE}/b", UNSAFE)
        assert response == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "b", "kind": "Widget"},
            "code": 200,
        }
        assert await storage.get(WIDGET) is None
        await server.dispatcher.catch_up()
        assert [each["metadata"]["name"] for each in (await talk.ok("GET", BASE))["items"]] == ["a", "c"]
        revision = server.dispatcher.revision
        query = f"watch=1&timeoutSeconds=1&resourceVersion={revision}"
        stream = (await server.handle(HTTPRequest("GET", BASE, query=query, user=SYSTEM))).stream
        assert stream is not None
        assert [chunk async for chunk in stream] == []
        metrics = (await server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))).body
        assert b'kubewright_undecodable_objects{group="example.com",resource="widgets"} 0.0' in metrics


async def test_a_watch_ends_with_the_deletion() -> None:
    storage = MemoryStorage()
    async with storage, make_server(storage) as server:
        talk = Talk(server)
        await create(talk)
        await write(storage, DAMAGES["garbage"])
        await server.dispatcher.catch_up()
        before = server.dispatcher.revision
        await talk.ok("DELETE", f"{BASE}/b", UNSAFE)
        await server.dispatcher.catch_up()
        query = f"watch=1&resourceVersion={before}"
        stream = (await server.handle(HTTPRequest("GET", BASE, query=query, user=SYSTEM))).stream
        assert stream is not None
        (event,) = [json.loads(chunk) async for chunk in stream]
        assert event["type"] == "ERROR"
        assert event["object"]["reason"] == "StorageReadError"
        assert event["object"]["message"].startswith("saw a DELETED event, but object data is corrupt - ")


@pytest.mark.parametrize(("name", "code"), [("a", 200), ("missing", 404)])
async def test_other_objects_are_deleted_regularly_in_former_versions(name: str, code: int) -> None:
    """As by a kube-apiserver without the feature gate, which is the default until 1.36."""
    async with make_server() as server:
        server.kubernetes_version = KubernetesVersion.parse("1.36")
        talk = Talk(server)
        await create(talk)
        status, _ = await talk("DELETE", f"{BASE}/{name}", UNSAFE)
        assert status == code
        remaining = [each["metadata"]["name"] for each in (await talk.ok("GET", BASE))["items"]]
        assert remaining == [each for each in ("a", "b", "c") if each != name]


@pytest.mark.parametrize(("name", "code"), [("a", 409), ("missing", 404)])
async def test_objects_that_can_be_decoded_are_not_deleted(name: str, code: int) -> None:
    async with make_server() as server:
        talk = Talk(server)
        await create(talk)
        status, body = await talk("DELETE", f"{BASE}/{name}", UNSAFE)
        assert status == code
        assert code != 409 or "unsafe deletion is not allowed" in body["message"]
        assert len((await talk.ok("GET", BASE))["items"]) == 3


@pytest.mark.parametrize(
    ("other", "value"),
    [
        ("dryRun", ["All"]),
        ("propagationPolicy", "Background"),
        ("orphanDependents", False),
        ("gracePeriodSeconds", 0),
        ("preconditions", {}),
    ],
)
async def test_other_options_are_rejected(other: str, value: Any) -> None:
    async with make_server() as server:
        status, error = await Talk(server)("DELETE", f"{BASE}/b", {**UNSAFE, other: value})
        assert status == 422
        assert error["message"] == (
            f'DeleteOptions.meta.k8s.io "" is invalid: {OPTION}: Invalid value: true: cannot be set together '
            f"with .{other}"
        )


async def test_collections_are_rejected() -> None:
    async with make_server() as server:
        status, error = await Talk(server)("DELETE", BASE, UNSAFE)
        assert status == 422
        assert "is not allowed with DELETECOLLECTION, try again after removing the option" in error["message"]


async def test_it_requires_its_own_verb() -> None:
    class Authorizer:
        async def authorize(self, attributes: AuthorizationAttributes) -> tuple[Decision, str]:
            seen.append(attributes)
            allowed = not attributes.verb.startswith("unsafe") or attributes.user.name == "admin"
            return (Decision.ALLOW if allowed else Decision.NO_OPINION), "not granted"

    seen: list[AuthorizationAttributes] = []
    storage = MemoryStorage()
    async with storage, make_server(storage, authorizer=Authorizer()) as server:
        await create(Talk(server))
        await write(storage, DAMAGES["empty"])
        status, error = await Talk(server, User("alice"))("DELETE", f"{BASE}/b", UNSAFE)
        assert status == 403
        assert error["message"] == (
            'widgets.example.com "b" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", '
            "reason: not granted"
        )
        assert await storage.get(WIDGET) is not None
        verb = seen[-1]
        assert (verb.group, verb.resource, verb.namespace, verb.name) == (
            "example.com",
            "widgets",
            "default",
            "b",
        )
        await Talk(server, User("admin")).ok("DELETE", f"{BASE}/b", UNSAFE)
        assert await storage.get(WIDGET) is None


async def lost(tmp_path: Path, url: str, kind: str) -> tuple[Path, Path]:
    """Write Secrets to a store with one key; return a configuration with another key, and the first one."""
    config = write_config(tmp_path / "first.yaml", keyed(kind, ("key1", KEY)))
    async with ControlPlane(
        store=url, port=None, controllers=False, encryption_provider_config=config
    ) as plane:
        client = PathClient(plane.server, SYSTEM)
        for name in ("a", "b"):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
            await client.create("/api/v1/namespaces/default/secrets", secret)
    return write_config(tmp_path / "second.yaml", keyed(kind, ("key1", OTHER))), config


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm", "secretbox"])
async def test_secrets_of_a_lost_key(tmp_path: Path, kind: str) -> None:
    """An empty list after the key was lost would look as if there were no Secrets."""
    url = f"sqlite:{tmp_path}/state.db"
    second, first = await lost(tmp_path, url, kind)
    secrets = "/api/v1/namespaces/default/secrets"
    async with ControlPlane(
        store=url, port=None, controllers=False, encryption_provider_config=second
    ) as plane:
        client = PathClient(plane.server, SYSTEM)
        for _ in range(2):
            with pytest.raises(StoreReadError, match=r"/registry/secrets/default/a, .*/b"):
                await client.get(secrets)
        with pytest.raises(APIError, match=r"not transformable.*key1"):
            await client.get(f"{secrets}/a")
        await client.send("DELETE", f"{secrets}/b", UNSAFE)
        with pytest.raises(StoreReadError, match=r"/registry/secrets/default/a$"):
            await client.get(secrets)
    async with ControlPlane(
        store=url, port=None, controllers=False, encryption_provider_config=first
    ) as plane:
        client = PathClient(plane.server, SYSTEM)
        assert [each["metadata"]["name"] for each in (await client.get(secrets))["items"]] == ["a"]


async def test_values_in_every_store(new_url: Callable[[], str]) -> None:  # noqa: F811
    url = new_url()
    secret = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default"}}'
    custom = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}'
    damaged = {
        "/registry/secrets/default/truncated": secret[:-1],
        "/registry/secrets/default/empty": b"",
        "/registry/secrets/default/kind": custom,
        "/registry/example.com/widgets/default/list": b"[]",
        "/registry/clusterroles/bytes": b"\xff\x00",
    }
    sound = {
        "/registry/secrets/default/sound": secret,
        "/registry/example.com/widgets/default/sound": custom,
        "/registry/ports/record": b"not an object",
        "/kubewright/private/ca": b"not an object",
    }
    async with open_storage(url) as storage:
        for key, value in {**damaged, **sound, "/registry/secrets/a/b": b"k8s:enc:aescbc:v1:k:x"}.items():
            await storage.create(key, value)
        found = await find_undecodable_values(storage)
        assert {each.key for each in found.values} == set(damaged)
        assert found.encrypted == ["/registry/secrets/a/b"]
        for each in found.values:
            await storage.delete(each.key, expected=each.revision)
        assert (await find_undecodable_values(storage)).values == []
        assert await storage.get("/registry/secrets/default/sound") is not None


def test_the_command_on_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    second, first = asyncio.run(lost(tmp_path, "sqlite:state.db", "secretbox"))

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["undecodable", *arguments])
        return result.exit_code, result.output

    store = ("--store", "sqlite:state.db", "--encryption-provider-config")
    assert run(*store, str(first)) == (0, "all objects can be decoded\n")
    cause = "no key of the encryption configuration decrypts it"
    assert run(*store, str(second)) == (
        0,
        f"/registry/secrets/default/a: {cause}\n/registry/secrets/default/b: {cause}\n",
    )
    code, output = run(*store, str(second), "-o", "json")
    assert (code, [each["key"][-1] for each in json.loads(output)]) == (0, ["a", "b"])
    code, output = run(*store[:2])
    assert "Warning: 2 encrypted objects were not checked; add --encryption-provider-config" in output
    assert "all other objects can be decoded" in output
    delete = ("--delete", "/registry/secrets/default/b")
    assert "is encrypted and was not checked" in run(*store[:2], *delete, "--yes")[1]
    code, output = run(*store, str(second), *delete)
    assert code == 1
    assert "nothing was deleted; confirm the list above with --yes" in output
    code, output = run(*store, str(second), "--delete", "/registry/secrets/default/c", "--yes")
    assert (code, "is not an object that cannot be decoded" in output) == (1, True)
    assert run(*store, str(first), *delete, "--yes")[0] == 1, "it can be decoded with the first key"
    assert run(*store, str(second), *delete, "--yes") == (0, "deleted /registry/secrets/default/b\n")
    assert run(*store, str(second)) == (0, f"/registry/secrets/default/a: {cause}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "sqlite:missing.db"], "the store missing.db does not exist"),
        (["--store", "memory:"], "memory: is not a store that can be read later"),
        (["--store", "other:x"], "unknown storage 'other'"),
        (["--store", "sqlite:a.db", "--context", "x"], "omit --kubeconfig and --context"),
        (["--encryption-provider-config", __file__], "--encryption-provider-config requires --store"),
    ],
)
def test_the_command_rejects_bad_input(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["undecodable", *arguments])
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


async def test_the_command_on_a_server(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig=kubeconfig, cert_dir=tmp_path, controllers=False) as plane:
        client = PathClient(plane.server, SYSTEM)
        for name in ("a", "b"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            await client.create("/api/v1/namespaces/default/configmaps", body)
        item = await plane.storage.get("/registry/configmaps/default/b")
        assert item is not None
        await plane.storage.update(item.key, item.value[:-1], expected=item.mod_revision)

        async def run(*arguments: str) -> tuple[int, str]:
            command = ["undecodable", "--kubeconfig", str(kubeconfig), *arguments]
            result = await asyncio.to_thread(CliRunner().invoke, main, command)
            return result.exit_code, result.stdout

        code, output = await run()
        assert code == 0, output
        assert output.startswith("/registry/configmaps/default/b: object not decodable revision=")
        assert len(output.splitlines()) == 1
        assert (await run("--delete", item.key))[0] == 1
        assert (await run("--delete", "/registry/configmaps/default/a", "--yes"))[0] == 1
        assert await run("--delete", item.key, "--yes") == (0, f"deleted {item.key}\n")
        assert await run() == (0, "all objects can be decoded\n")
        found = await client.get("/api/v1/namespaces/default/configmaps")
        assert "a" in [each["metadata"]["name"] for each in found["items"]]
