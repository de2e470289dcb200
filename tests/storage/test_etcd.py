"""etcd storage: restarts, several servers, authentication, TLS, leases."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubewright.storage import (
    Compacted,
    EtcdStorage,
    KeyExists,
    StorageError,
    StorageEvent,
    StorageWatch,
    open_storage,
)


def _conftest() -> Any:
    spec = importlib.util.spec_from_file_location("storage_conftest", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Any]:
    """An etcd that a test may kill."""
    server = _conftest().EtcdServer(tmp_path)
    server.start()
    yield server
    server.kill()


async def take(watch: StorageWatch, count: int) -> list[StorageEvent]:
    events: list[StorageEvent] = []
    async with asyncio.timeout(60):
        while len(events) < count:
            events += await anext(aiter(watch))
    return events


async def fails_with(message: str, call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call until its error has a message: the first one can be that of a timeout, too."""
    async with asyncio.timeout(60):
        while True:
            with pytest.raises(StorageError) as caught:
                await call()
            if re.search(message, str(caught.value)):
                return


async def test_servers_on_one_etcd_share_state(etcd_server: Any) -> None:
    options = "?timeout=60"
    url = f"etcd://{etcd_server.address}/shared"
    async with (
        open_storage(url + options) as one,
        open_storage(url + options) as two,
        open_storage(url + "-not" + options) as other,
    ):
        watch = two.watch("/", await two.revision())
        revision = await one.create("/k", b"1")
        assert [event.key for event in await take(watch, 1)] == ["/k"]
        found = await two.get("/k")
        assert found is not None
        assert found.mod_revision == revision
        with pytest.raises(KeyExists):
            await two.create("/k", b"2")
        assert (await other.list("")).items == []
        await other.create("/k", b"3")
        assert [item.value for item in (await one.list("")).items] == [b"1"]
        outcomes = await asyncio.gather(
            *(store.update("/k", b"x", expected=revision) for store in (one, two) for _ in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1


async def test_watch_resumes_after_etcd_restarts(own_etcd: Any) -> None:
    url = f"etcd://{own_etcd.address}/p?timeout=60&compact_every=0"
    async with open_storage(url) as store:
        assert isinstance(store, EtcdStorage)
        start = await store.revision()
        watch = store.watch("/", start)
        await store.create("/0", b"v")
        await take(watch, 1)
        own_etcd.kill()
        store._connection.options = replace(store.options, timeout=0.5)
        await fails_with("check that it is running", lambda: store.get("/0"))
        own_etcd.start()
        store._connection.options = store.options
        async with open_storage(url) as other:
            for number in range(1, 20):
                await other.create(f"/{number}", b"v")
        assert [event.key for event in await take(watch, 19)] == [f"/{number}" for number in range(1, 20)]
        assert await store.get("/0") is not None


async def test_failover_to_the_next_member(etcd_server: Any, closed_port: int) -> None:
    addresses = f"127.0.0.1:{closed_port},{etcd_server.address}"
    async with open_storage(f"etcd://{addresses}/failover?timeout=60") as store:
        revision = await store.create("/k", b"1")
        assert [event.revision for event in await take(store.watch("/", revision - 1), 1)] == [revision]


async def test_unreachable_etcd(closed_port: int) -> None:
    _conftest().etcd_binary()
    url = f"etcd://127.0.0.1:{closed_port}/p?timeout=0.5"
    message = rf"etcd at 127\.0\.0\.1:{closed_port}: .*check that it is running"
    await fails_with(message, lambda: open_storage(url).open())


async def test_keys_with_similar_expiry_share_a_lease(etcd_server: Any) -> None:
    """The keys of a lease are deleted with it; that etcd revokes it when it expires is left to etcd."""
    async with open_storage(f"etcd://{etcd_server.address}/ttl?compact_every=0&timeout=60") as store:
        assert isinstance(store, EtcdStorage)
        watch = store.watch("/", await store.revision())
        await asyncio.gather(*(store.create(f"/{n}", b"v", ttl=1200) for n in range(5)))
        first = await store.create("/long", b"v", ttl=3600)
        await store.update("/long", b"w", expected=first, ttl=3600)
        rpc = store._connection.rpc
        leases: dict[int, int] = {}
        for key in ("/0", "/long"):
            lease = (await store._range(key=store._key(key))).kvs[0].lease
            left = await store._connection.call(
                "lease", "LeaseTimeToLive", rpc.LeaseTimeToLiveRequest(ID=lease, keys=True), repeat=True
            )
            leases[left.grantedTTL] = lease
            assert len(left.keys) == (5 if key == "/0" else 1)
        assert set(leases) == {1260, 3660}
        await store._connection.call(
            "lease", "LeaseRevoke", rpc.LeaseRevokeRequest(ID=leases[1260]), repeat=True
        )
        # Keys expire with their last value.
        events = await take(watch, 12)
        gone = [event for event in events if event.type == "delete"]
        assert {event.key for event in gone} == {f"/{n}" for n in range(5)}
        assert all(event.previous is not None and event.previous.value == b"v" for event in gone)


async def test_one_of_several_servers_compacts(etcd_server: Any) -> None:
    url = f"etcd://{etcd_server.address}/compacting?compact_every=0.05&timeout=60"
    async with open_storage(url) as one, open_storage(url) as two:
        first = await one.create("/k", b"0")
        await two.update("/k", b"1", expected=first)
        async with asyncio.timeout(60):
            while True:
                try:
                    await one.list("/", revision=first)
                except Compacted as error:
                    oldest = error.oldest
                    break
                await asyncio.sleep(0.02)
        assert oldest > first
        assert [item.value for item in (await two.list("")).items] == [b"1"]


async def test_password_authentication(
    own_etcd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = own_etcd.binary.with_name("etcdctl")

    def etcdctl(*words: str) -> None:
        timeouts = ("--command-timeout=60s", "--dial-timeout=60s")
        subprocess.run(
            [control, f"--endpoints={own_etcd.address}", *timeouts, *words], check=True, capture_output=True
        )

    etcdctl("user", "add", "root:top-secret")
    etcdctl("user", "grant-role", "root", "root")
    etcdctl("user", "add", "app:hunter2")
    etcdctl("role", "add", "app")
    etcdctl("role", "grant-permission", "app", "--prefix=true", "readwrite", "/app")
    etcdctl("user", "grant-role", "app", "app")
    etcdctl("auth", "enable")
    address = f"etcd://{own_etcd.address}"
    with pytest.raises(StorageError, match="user name is empty"):
        await open_storage(f"{address}/app?timeout=60").open()
    monkeypatch.setenv("APP_PASSWORD", "wrong")
    with pytest.raises(StorageError) as caught:
        await open_storage(f"{address}/app?user=app&password_env=APP_PASSWORD&timeout=60").open()
    assert "wrong" not in str(caught.value)
    with pytest.raises(StorageError, match="check the user, its password and its role"):
        monkeypatch.setenv("APP_PASSWORD", "hunter2")
        await open_storage(f"{address}/elsewhere?user=app&password_env=APP_PASSWORD&timeout=60").open()
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    async with open_storage(f"{address}/app?user=app&password_file={secret}&timeout=60") as store:
        assert isinstance(store, EtcdStorage)
        assert "hunter2" not in repr(store.options) + repr(store._connection)
        revision = await store.create("/k", b"1")
        assert len(await take(store.watch("/", revision - 1), 1)) == 1
        store._connection.metadata = (("token", "stale.1"),)
        assert await store.get("/k") is not None, "an expired token is replaced"
        store._connection.metadata = (("token", "stale.1"),)
        assert len(await take(store.watch("/", revision - 1), 1)) == 1, "also by a watch"


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    server = _conftest().EtcdServer(
        tmp_path,
        f"--cert-file={certificates / 'server.pem'}",
        f"--key-file={certificates / 'server.key'}",
        f"--trusted-ca-file={certificates / 'ca.pem'}",
        "--client-cert-auth",
        scheme="https",
    )
    server.start()
    try:
        client = f"cacert={certificates}/ca.pem&cert={certificates}/client.pem&key={certificates}/client.key"
        async with open_storage(f"etcd://{server.address}/tls?{client}&timeout=60") as store:
            assert await store.create("/k", b"1") > 0
        await fails_with(
            "the TLS options", lambda: open_storage(f"etcd://{server.address}/tls?timeout=1").open()
        )
        with pytest.raises(StorageError, match=r"cannot read .*missing\.pem \(etcd option cacert\)"):
            await open_storage(f"etcd://{server.address}/tls?cacert={tmp_path}/missing.pem").open()
    finally:
        server.kill()


def make_certificates(directory: Path) -> Path:
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
    now = datetime.datetime.now(datetime.UTC)
    for name in ("ca", "server", "client"):
        key = authority_key if name == "ca" else ec.generate_private_key(ec.SECP256R1())
        subject = (
            authority_name
            if name == "ca"
            else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
            .sign(authority_key, hashes.SHA256())
        )
        (directory / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (directory / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return directory
