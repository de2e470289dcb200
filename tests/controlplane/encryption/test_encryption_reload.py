"""Reload of the encryption configuration while the server runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.controlplane.encryption.test_encrypted_storage import KEY, OTHER, keyed, rewrite, write_config

from kubewright.api import ObjectMeta
from kubewright.api.core import v1 as core
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration import config_reload
from kubewright.controlplane.configuration.config_reload import ConfigReloader, ReloadMetrics
from kubewright.controlplane.encryption import EncryptedStorage
from kubewright.storage import MemoryStorage

STORED = "/registry/secrets/default/a"
OLD, NEW = keyed("aescbc", ("key1", KEY)), keyed("aesgcm", ("key2", OTHER))


@pytest.fixture(autouse=True)
def check_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_reload, "INTERVAL", 3600.0)


def plane_of(inner: MemoryStorage, config: Path) -> ControlPlane:
    return ControlPlane(
        store=inner,
        port=None,
        controllers=False,
        encryption_provider_config=config,
        encryption_provider_config_automatic_reload=True,
    )


async def key_of(inner: MemoryStorage) -> bytes:
    item = await inner.get(STORED)
    assert item is not None
    return b":".join(item.value.split(b":")[:5])


async def metrics(plane: ControlPlane) -> dict[str, float]:
    """Return the metrics of reloads, by name and status."""
    response = await plane.server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))
    found = {}
    for line in response.body.decode().splitlines():
        if line.startswith("apiserver_encryption_config_controller_"):
            name, _, rest = line.removeprefix("apiserver_encryption_config_controller_").partition("{")
            status = rest.partition('status="')[2].partition('"')[0]
            found[f"{name} {status}".strip()] = float(line.rpartition(" ")[2])
    return found


async def test_a_changed_file_takes_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a key rotation, without a restart."""
    monkeypatch.setattr(config_reload, "INTERVAL", 0.01)
    inner, config = MemoryStorage(), write_config(tmp_path / "c.yaml", OLD)
    async with plane_of(inner, config) as plane:
        client = plane.client()
        secret = core.Secret(metadata=ObjectMeta(name="a", namespace="default"), string_data={"k": "v"})
        first = await client.create(secret)
        assert await key_of(inner) == b"k8s:enc:aescbc:v1:key1"
        for number, providers in enumerate(((OLD, NEW), (NEW, OLD)), start=1):
            write_config(config, *providers)
            async with asyncio.timeout(60):
                while plane.reloaders["encryption"].metrics.counts.get("success", 0) < number:
                    await asyncio.sleep(0.01)
            after = await rewrite(client)
            is_new_key = number == 2
            assert (after.metadata.resource_version != first.metadata.resource_version) is is_new_key
        assert await key_of(inner) == b"k8s:enc:aesgcm:v1:key2"
        assert (await rewrite(client)).metadata.resource_version == after.metadata.resource_version
        values = await metrics(plane)
        assert values["automatic_reloads_total success"] == 2
        assert values["automatic_reload_last_timestamp_seconds success"] > 1e9
        assert values["last_config_info"] == 1


async def test_an_invalid_file_keeps_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inner, config = MemoryStorage(), write_config(tmp_path / "c.yaml", OLD)
    async with plane_of(inner, config) as plane:
        reloader = plane.reloaders["encryption"]
        config.write_text("apiVersion: v1\n")
        assert not await reloader.check()
        assert not await reloader.check(), "the same content is not loaded again"
        config.unlink()
        assert not await reloader.check()
        secret = core.Secret(metadata=ObjectMeta(name="a", namespace="default"), string_data={"k": "v"})
        await plane.client().create(secret)
        assert await key_of(inner) == b"k8s:enc:aescbc:v1:key1"
        assert (await metrics(plane))["automatic_reloads_total failure"] == 2
        write_config(config, OLD)
        assert not await reloader.check(), "the content is in use already"
        write_config(config, NEW, OLD)
        assert await reloader.check()
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert messages == ["cannot reload configuration, the previous one stays in use"] * 2


async def test_a_kms_plugin_that_does_not_respond_is_tried_again(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    from tests.controlplane.encryption.test_kms import Plugin

    from kubewright.controlplane.encryption.kms import KEY_MANAGEMENT
    from kubewright.node.rpc import UnixServer

    inner, config = MemoryStorage(), write_config(tmp_path / "c.yaml", {"identity": {}})
    socket = tmp_path / "kms.sock"
    kms = {"apiVersion": "v2", "name": "vault", "endpoint": f"unix://{socket}", "timeout": "30s"}
    async with plane_of(inner, config) as plane:
        reloader = plane.reloaders["encryption"]
        write_config(config, {"kms": kms}, {"identity": {}})
        assert not await reloader.check()
        response = await plane.server.handle(HTTPRequest("GET", "/readyz?verbose", user=SYSTEM))
        assert response.status == 200, "the providers in use are healthy"
        for check in (b"kms-providers", b"poststarthook/start-encryption-provider-config-automatic-reload"):
            assert b"[+]%b ok" % check in response.body
        server = UnixServer(socket)
        server.add(KEY_MANAGEMENT, Plugin())
        await server.start()
        try:
            assert not await reloader.check(), "the next attempt is not due yet"
            reloader._retry_at = 0.0
            assert await reloader.check()
            secret = core.Secret(metadata=ObjectMeta(name="a", namespace="default"), string_data={"k": "v"})
            await plane.client().create(secret)
            assert await key_of(inner) == b"k8s:enc:kms:v2:vault"
            write_config(config, {"identity": {}}, {"kms": kms})
            assert await reloader.check()
            await rewrite(plane.client())
            assert (await key_of(inner)).startswith(b"{")
        finally:
            await plane.stop()
            await server.stop()


async def test_values_of_a_key_that_only_another_process_has_loaded(tmp_path: Path) -> None:
    """Processes with one store check the file at different times; a new key can immediately be the first."""
    inner, config = MemoryStorage(), write_config(tmp_path / "c.yaml", OLD)
    async with inner:
        first, second = (EncryptedStorage.from_config(inner, config) for _ in range(2))
        for each in (first, second):
            await each.rules.open()
        reloader = ConfigReloader(config, lambda: second.reload(config), ReloadMetrics("encryption", "b"))
        await reloader.start()
        second.load_changes = reloader.check
        watch = second.watch("/registry/", await inner.revision())
        write_config(config, NEW, OLD, resources=["secrets", "configmaps"])
        await first.reload(config)
        for number, kind in enumerate(("secrets", "configmaps"), start=1):
            key = f"/registry/{kind}/default/a"
            await first.create(key, b"{}")
            stored = await inner.get(key)
            assert stored is not None
            assert stored.value.startswith(b"k8s:enc:aesgcm:v1:key2:")
            (event,) = await anext(aiter(watch))
            assert event.value == b"{}"
            found = await second.get(key)
            assert found is not None
            assert found.value == b"{}"
            assert reloader.metrics.counts == {"success": 1}, number
        assert [item.value for item in (await second.list("/registry/")).items] == [b"{}", b"{}"]
        # A key that is in no file is an error of that object, which is reported once.
        await inner.create(STORED + "2", b"k8s:enc:aesgcm:v1:key3:abc")
        broken = await second.get(STORED + "2")
        assert broken is not None
        assert broken.value.startswith(b"k8s:enc:")
        watch.close()
        await reloader.stop()
