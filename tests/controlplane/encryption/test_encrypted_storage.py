"""Encryption of stored objects: what is on disk, key rotation, and the storage contract."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import ObjectMeta
from kubewright.api.core import v1 as core
from kubewright.api.errors import APIError
from kubewright.client import Client
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration.config_file import ConfigFileError
from kubewright.controlplane.encryption import (
    EncryptedStorage,
    load_encryption_config,
)
from kubewright.storage import KeyValue, MemoryStorage, Storage
from kubewright.storage.testing import StorageLaws

KEY = base64.b64encode(b"k" * 32).decode()
OTHER = base64.b64encode(b"o" * 32).decode()


def keyed(kind: str, *names_and_secrets: tuple[str, str]) -> dict[str, Any]:
    return {kind: {"keys": [{"name": name, "secret": secret} for name, secret in names_and_secrets]}}


def write_config(path: Path, *providers: dict[str, Any], resources: list[str] | None = None) -> Path:
    entry = {"resources": resources or ["secrets"], "providers": list(providers)}
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [entry],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm", "secretbox"])
async def test_values_are_encrypted_in_storage(tmp_path: Path, kind: str) -> None:
    inner = MemoryStorage()
    config = write_config(tmp_path / "c.yaml", keyed(kind, ("key1", KEY)), {"identity": {}})
    async with EncryptedStorage.from_config(inner, config) as storage:
        key = "/registry/secrets/default/a"
        watch = storage.watch("/registry/", 0)
        revision = await storage.create(key, b"plain")
        stored = await inner.get(key)
        assert stored is not None
        assert stored.value.startswith(f"k8s:enc:{kind}:v1:key1:".encode())
        assert b"plain" not in stored.value
        assert await storage.get(key) == KeyValue(key, b"plain", revision, revision)
        async for batch in watch:
            assert [event.value for event in batch] == [b"plain"]
            break
        # The same value is encrypted differently every time.
        await storage.update(key, b"plain", expected=revision)
        assert (await inner.get(key)).value != stored.value  # type: ignore[union-attr]
        # Other resources are stored as they are.
        await storage.create("/registry/configmaps/default/a", b"plain")
        assert (await inner.get("/registry/configmaps/default/a")).value == b"plain"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["aesgcm", "secretbox"])
async def test_wrong_keys_and_moved_values_are_not_decrypted(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    inner = MemoryStorage()
    async with EncryptedStorage.from_config(
        inner, write_config(tmp_path / "c.yaml", keyed(kind, ("key1", KEY)))
    ) as storage:
        await storage.create("/registry/secrets/default/a", b"plain")
        stored = await inner.get("/registry/secrets/default/a")
        assert stored is not None
        wrong = EncryptedStorage.from_config(
            inner, write_config(tmp_path / "d.yaml", keyed(kind, ("key1", OTHER)))
        )
        assert await wrong.get(stored.key) == stored
        assert "stored object cannot be decrypted" in caplog.text
        if kind == "aesgcm":
            # The storage key is authenticated: a value that was copied to another object is rejected.
            await inner.create("/registry/secrets/default/b", stored.value)
            assert (await storage.get("/registry/secrets/default/b")).value == stored.value  # type: ignore[union-attr]


async def test_key_rotation_and_rewrite(tmp_path: Path) -> None:
    """Objects of an old key are readable and stale; a write that changes nothing encrypts them anew."""
    database = tmp_path / "state.db"

    def prefix(name: str) -> bytes:
        with sqlite3.connect(database) as connection:
            rows = connection.execute(
                "SELECT value FROM changes WHERE key = ? ORDER BY revision DESC LIMIT 1",
                (f"/registry/secrets/default/{name}",),
            ).fetchall()
        return b":".join(bytes(rows[0][0]).split(b":")[:5])

    def plane(*providers: dict[str, Any]) -> ControlPlane:
        config = write_config(tmp_path / "config.yaml", *providers)
        return ControlPlane(
            store=f"sqlite:{database}", port=None, controllers=False, encryption_provider_config=config
        )

    async with plane({"identity": {}}) as cluster:
        secret = core.Secret(metadata=ObjectMeta(name="a", namespace="default"), string_data={"k": "v"})
        await cluster.client().create(secret)
    assert prefix("a").startswith(b"{")
    async with plane(keyed("aescbc", ("key1", KEY)), {"identity": {}}) as cluster:
        client = cluster.client()
        assert (await client.get(core.Secret, "a", namespace="default")).data == {"k": b"v"}
        await rewrite(client)
    assert prefix("a") == b"k8s:enc:aescbc:v1:key1"
    async with plane(keyed("aesgcm", ("key2", OTHER)), keyed("aescbc", ("key1", KEY))) as cluster:
        client = cluster.client()
        before = await client.get(core.Secret, "a", namespace="default")
        after = await rewrite(client)
        assert after.metadata.resource_version != before.metadata.resource_version
        again = await rewrite(client)
        assert again.metadata.resource_version == after.metadata.resource_version, "not stale any more"
    assert prefix("a") == b"k8s:enc:aesgcm:v1:key2"
    async with plane(keyed("aesgcm", ("key2", OTHER))) as cluster:
        assert (await cluster.client().get(core.Secret, "a", namespace="default")).data == {"k": b"v"}
    async with plane(keyed("aesgcm", ("key3", KEY))) as cluster:
        with pytest.raises(APIError, match="data from the storage is not transformable"):
            await cluster.client().get(core.Secret, "a", namespace="default")


async def rewrite(client: Client) -> core.Secret:
    """Update without a change, as `kubectl get secrets -o json | kubectl replace -f -` does."""
    return await client.update(await client.get(core.Secret, "a", namespace="default"))


@pytest.mark.parametrize(
    ("resources", "encrypted"),
    [
        (["secrets"], {"secrets/d/a"}),
        (["*."], {"secrets/d/a", "services/d/a", "events/d/a"}),
        (["deployments.apps"], {"deployments/d/a"}),
        (["*.apps"], {"deployments/d/a"}),
        (["widgets.example.com"], {"example.com/widgets/d/a"}),
        (
            ["customresourcedefinitions.apiextensions.k8s.io"],
            {"apiextensions.k8s.io/customresourcedefinitions/a"},
        ),
    ],
)
async def test_rules_select_resources(tmp_path: Path, resources: list[str], encrypted: set[str]) -> None:
    keys = [
        *("secrets/d/a", "services/d/a", "events/d/a", "deployments/d/a", "example.com/widgets/d/a"),
        "apiextensions.k8s.io/customresourcedefinitions/a",
    ]
    inner = MemoryStorage()
    config = write_config(tmp_path / "c.yaml", keyed("aesgcm", ("k", KEY)), resources=resources)
    async with EncryptedStorage.from_config(inner, config) as storage:
        for key in keys:
            await storage.create(f"/registry/{key}", b"plain")
        stored = {key for key in keys if (await inner.get(f"/registry/{key}")).value != b"plain"}  # type: ignore[union-attr]
    assert stored == encrypted


class TestEncryptedLaws(StorageLaws):
    """An encrypted storage is a storage."""

    examples = 30

    @pytest.fixture(autouse=True)
    def set_config(self, tmp_path: Path) -> None:
        self.config = write_config(tmp_path / "c.yaml", keyed("aesgcm", ("k", KEY)), resources=["*.*"])

    def new_storage(self) -> Storage:
        rules = load_encryption_config(self.config)
        return EncryptedStorage(MemoryStorage(), rules, lambda key: ("", "secrets"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Other"}, "apiVersion and kind are"),
        ({"resources": []}, "resources: at least one entry"),
        ({"resources": [{"resources": ["Secrets"], "providers": [{"identity": {}}]}]}, "capital letters"),
        ({"resources": [{"resources": ["*"], "providers": [{"identity": {}}]}]}, r"use '\*\.'"),
        (
            {"resources": [{"resources": ["*.", "secrets"], "providers": [{"identity": {}}]}]},
            "already includes",
        ),
        ({"resources": [{"resources": ["a"], "providers": []}]}, "at least one provider"),
        ({"resources": [{"resources": ["a"], "providers": [{}]}]}, "has no provider"),
        (
            {"resources": [{"resources": ["a"], "providers": [keyed("aesgcm", ("k", "AAAA"))]}]},
            r"providers\[0\].aesgcm.keys\[0\].secret: the secret has 3 bytes, not 16 or 24 or 32",
        ),
        (
            {"resources": [{"resources": ["a"], "providers": [keyed("aescbc", ("k", "!"))]}]},
            "not valid base64",
        ),
        ({"resources": [{"resources": ["a"], "providers": [{"kms": {"name": "x"}}]}]}, "use 'v2'"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_invalid_configurations_name_the_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_config(tmp_path / "c.yaml", {"identity": {}})
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(ConfigFileError, match=message) as error:
        load_encryption_config(path)
    assert str(error.value).startswith(str(path))
    assert KEY not in str(error.value)
