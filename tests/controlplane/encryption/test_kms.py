"""Encryption with a KMS plug-in, which is played by a gRPC server on a unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.controlplane.encryption.config import EncryptionRules
from kubewright.controlplane.encryption.kms import (
    KEY_MANAGEMENT,
    DecryptRequest,
    DecryptResponse,
    EncryptedObject,
    EncryptRequest,
    EncryptResponse,
    KMSProvider,
    StatusRequest,
    StatusResponse,
)
from kubewright.controlplane.encryption.providers import ProviderChain
from kubewright.controlplane.encryption.storage import EncryptedStorage
from kubewright.node.rpc import UnixServer
from kubewright.storage import MemoryStorage, StorageError

KEY = "/registry/secrets/default/a"


class Plugin:
    """Encrypts by exclusive or with the number of its key."""

    def __init__(self) -> None:
        self.key_id = "1"
        self.health = "ok"
        self.calls: list[str] = []

    def _apply(self, data: bytes, key_id: str) -> bytes:
        return bytes(byte ^ int(key_id) for byte in data)

    async def status(self, request: StatusRequest) -> StatusResponse:
        return StatusResponse(version="v2", healthz=self.health, key_id=self.key_id)

    async def encrypt(self, request: EncryptRequest) -> EncryptResponse:
        self.calls.append("encrypt")
        cipher = self._apply(request.plaintext, self.key_id)
        return EncryptResponse(ciphertext=cipher, key_id=self.key_id, annotations={"a.example.com": b"x"})

    async def decrypt(self, request: DecryptRequest) -> DecryptResponse:
        self.calls.append("decrypt")
        assert request.annotations == {"a.example.com": b"x"}
        return DecryptResponse(plaintext=self._apply(request.ciphertext, request.key_id))


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    found = Plugin()
    server = UnixServer(tmp_path / "kms.sock")
    server.add(KEY_MANAGEMENT, found)
    await server.start()
    yield found
    await server.stop()


def storage_of(provider: KMSProvider, inner: MemoryStorage) -> EncryptedStorage:
    rules = EncryptionRules([([("", "secrets")], ProviderChain([provider]))])  # type: ignore[list-item]
    return EncryptedStorage(inner, rules, lambda key: ("", "secrets"))


async def test_seeds_are_encrypted_by_the_plugin(plugin: Plugin, tmp_path: Path) -> None:
    inner = MemoryStorage()
    async with storage_of(KMSProvider("vault", str(tmp_path / "kms.sock"), 60), inner) as storage:
        await storage.create(KEY, b"plain")
        await storage.create(KEY + "2", b"plain")
        assert (await storage.get(KEY)).value == b"plain"  # type: ignore[union-attr]
        assert plugin.calls == ["encrypt"], "one call per seed, not per value"
        stored = (await inner.get(KEY)).value  # type: ignore[union-attr]
        assert stored.startswith(b"k8s:enc:kms:v2:vault:")
        message = EncryptedObject.decode(stored.removeprefix(b"k8s:enc:kms:v2:vault:"))
        assert (message.key_id, message.source_type) == ("1", 1)
        # Another server, or this one after a restart, asks the plug-in for the seed.
        other = KMSProvider("vault", str(tmp_path / "kms.sock"), 60)
        await other.open()
        assert [(await storage_of(other, inner).get(KEY)).value for _ in "ab"] == [b"plain"] * 2  # type: ignore[union-attr]
        assert plugin.calls == ["encrypt", "encrypt", "decrypt"]
        await other.close()


async def test_a_new_key_of_the_plugin_makes_values_stale(plugin: Plugin, tmp_path: Path) -> None:
    inner = MemoryStorage()
    provider = KMSProvider("vault", str(tmp_path / "kms.sock"), 60)
    async with storage_of(provider, inner) as storage:
        revision = await storage.create(KEY, b"plain")
        item = await storage.get(KEY)
        assert item is not None
        assert not storage.is_stale(item)
        plugin.key_id = "2"
        await provider.check()
        item = await storage.get(KEY)
        assert item is not None
        assert storage.is_stale(item)
        await storage.update(KEY, b"plain", expected=revision)
        item = await storage.get(KEY)
        assert item is not None
        assert not storage.is_stale(item)


async def test_writes_fail_when_the_plugin_was_unhealthy_for_long(plugin: Plugin, tmp_path: Path) -> None:
    now = [0.0]
    inner = MemoryStorage()
    provider = KMSProvider("vault", str(tmp_path / "kms.sock"), 60, clock=lambda: now[0])
    async with storage_of(provider, inner) as storage:
        await storage.create(KEY, b"plain")
        plugin.health = "the vault is sealed"
        await provider.check()
        with pytest.raises(RuntimeError, match="the vault is sealed"):
            storage.check_health()
        await storage.create(KEY + "2", b"plain")
        now[0] = 181.0
        with pytest.raises(StorageError, match="the vault is sealed"):
            await storage.create(KEY + "3", b"plain")
        assert (await storage.get(KEY)).value == b"plain"  # type: ignore[union-attr]
        plugin.health = "ok"
        await provider.check()
        storage.check_health()
        await storage.create(KEY + "3", b"plain")


async def test_a_missing_plugin_is_an_error_of_the_start(tmp_path: Path) -> None:
    provider = KMSProvider("vault", str(tmp_path / "none.sock"), timeout=0.5)
    with pytest.raises(StorageError, match="start it before the server"):
        await provider.open()
