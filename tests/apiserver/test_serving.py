"""Serving certificates, start hooks, request size, delegated authorization that fails, `resource_of`."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from kubewright.api import CustomResource, Spec, resource
from kubewright.api.errors import InternalError
from kubewright.apiserver import APIServer, HTTPServer, User, resource_of, serve
from kubewright.apiserver.authorization import AuthorizationAttributes
from kubewright.apiserver.authorization.delegated import DelegatedAuthorizer
from kubewright.storage import MemoryStorage, RequestTooLarge, open_storage
from kubewright.tls.certificates import CertificateAuthority, KeyPair


async def served_certificate(https: HTTPServer) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", https.port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return ssl.DER_cert_to_PEM_cert(der)


async def test_certificate_files_are_loaded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = CertificateAuthority.create()
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    first, second = (authority.issue("s", hosts=("127.0.0.1",), server=True) for _ in range(2))
    first.write(*files)
    pair = KeyPair.from_files(*files)
    assert pair == first
    async with serve(APIServer(MemoryStorage()), certificate=pair) as https:
        assert (await served_certificate(https)).encode() == first.certificate
        assert not https.reload_certificate()
        second.write(*files)
        assert https.reload_certificate()
        assert (await served_certificate(https)).encode() == second.certificate
        files[0].write_text("damaged")
        assert not https.reload_certificate()
        assert "cannot reload certificate" in caplog.text
        assert (await served_certificate(https)).encode() == second.certificate
    with pytest.raises(FileNotFoundError, match="missing"):
        KeyPair.from_files(tmp_path / "missing", files[1])


async def test_a_foreign_certificate_is_verified_by_its_own_authority(tmp_path: Path) -> None:
    own, foreign = CertificateAuthority.create("own"), CertificateAuthority.create("foreign")
    pair = foreign.issue("s", hosts=("127.0.0.1",), server=True)
    pair.write(tmp_path / "tls.crt", tmp_path / "tls.key")
    files = KeyPair.from_files(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = APIServer(MemoryStorage())
    assert HTTPServer(server, certificate=files, authority=own).authority_pem == pair.certificate
    (tmp_path / "ca.crt").write_bytes(foreign.certificate)
    assert HTTPServer(server, certificate=files, authority=own).authority_pem == foreign.certificate
    issued = own.issue("s", hosts=("127.0.0.1",), server=True)
    assert HTTPServer(server, certificate=issued, authority=own).authority_pem == own.certificate
    async with serve(server, certificate=files, authority=own) as https:
        context = ssl.create_default_context(cadata=https.authority_pem.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", https.port, ssl=context)
        writer.close()


async def test_start_hooks_run_before_the_port_is_opened() -> None:
    seen: list[object] = []
    storage = MemoryStorage()
    server = APIServer(storage)

    async def write_initial_objects() -> None:
        await storage.create("/registry/initial", b"1")
        seen.append(https_settings.get("started"))

    https_settings: dict[str, object] = {}
    server.add_start_hook(write_initial_objects)
    async with serve(server) as https:
        https_settings["started"] = https.port
        assert seen == [None]
        assert await storage.get("/registry/initial") is not None

    async def fail() -> None:
        raise RuntimeError("no initial objects")

    failing = APIServer(MemoryStorage())
    failing.add_start_hook(fail)
    with pytest.raises(RuntimeError, match="no initial objects"):
        await failing.start()
    assert not failing.started


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_stores_have_the_request_limit_of_etcd(scheme: str, tmp_path: Path) -> None:
    url = "memory:" if scheme == "memory" else f"sqlite:{tmp_path}/state.db"
    async with open_storage(url) as store:
        revision = await store.create("/a", b"x" * 1_500_000)
        with pytest.raises(RequestTooLarge, match="etcdserver: request is too large"):
            await store.create("/b", b"x" * 1_572_864)
        with pytest.raises(RequestTooLarge):
            await store.update("/a", b"x" * 1_572_864, expected=revision)
        assert await store.revision() == revision
    async with open_storage(url, max_request_bytes=3_000_000) as store:
        await store.create("/b", b"x" * 2_000_000)


async def test_an_object_over_the_limit_is_rejected(talk, widget, base) -> None:
    large = widget("large", spec={"color": "x" * 1_600_000})
    status, error = await talk("POST", base, large)
    assert (status, error["message"]) == (500, "etcdserver: request is too large")
    assert (await talk("GET", f"{base}/large"))[0] == 404


async def test_a_failed_access_review_is_an_error() -> None:
    async def review(body: object) -> dict[str, object]:
        raise ConnectionError("connection refused")

    with pytest.raises(InternalError, match="access review failed: connection refused"):
        await DelegatedAuthorizer(review).authorize(AuthorizationAttributes(User("ann"), "get"))


class LampSpec(Spec):
    watts: int = 0


@resource(group="lamps.example.com", version="v1", short_names=("lm",), storage=True, hub=True)
class Lamp(CustomResource[LampSpec, None]):
    """A lamp."""


@resource(
    group="lamps.example.com", version="v1beta1", kind="Lamp", short_names=("lm", "lmp"), categories=("home",)
)
class OldLamp(CustomResource[LampSpec, None]):
    """A lamp of the older version."""

    def convert_to(self, hub: type[Lamp]) -> Lamp:
        return hub(metadata=self.metadata, spec=self.spec)

    @classmethod
    def convert_from(cls, lamp: Lamp) -> OldLamp:
        return cls(metadata=lamp.metadata, spec=lamp.spec)


def test_short_names_and_categories_come_from_all_classes() -> None:
    declared = resource_of(Lamp, OldLamp)
    assert tuple(declared.short_names) == ("lm", "lmp")
    assert tuple(declared.categories) == ("home",)
