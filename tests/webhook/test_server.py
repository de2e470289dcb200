"""The webhook server over TLS: paths, errors, exceptions, certificate rotation."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.tls.certificates import CertificateAuthority
from kubewright.webhook import (
    AdmissionRequest,
    AdmissionResponse,
    CertificateFiles,
    SelfSignedCertificates,
    WebhookServer,
)
from kubewright.webhook.server import MAX_BODY

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}},
}


@asynccontextmanager
async def running(server: WebhookServer) -> AsyncIterator[str]:
    stop = asyncio.Event()
    task = asyncio.create_task(server.run(stop))
    await asyncio.wait(
        [task, asyncio.create_task(server.wait_until_started())], return_when=asyncio.FIRST_COMPLETED
    )
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        stop.set()
        await task


def trusting(authority: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.decode())


@pytest.fixture
def certificates() -> SelfSignedCertificates:
    return SelfSignedCertificates()


@pytest.fixture
async def server(certificates: SelfSignedCertificates) -> WebhookServer:
    made = WebhookServer(certificates, host="127.0.0.1", port=0)

    async def allow(request: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(warnings=["seen"])

    async def crash(request: AdmissionRequest) -> AdmissionResponse:
        raise RuntimeError("out of ideas")

    made.add_admission("/allow", allow)
    made.add_admission("/crash", crash)
    return made


async def post(url: str, body: Any, certificates: SelfSignedCertificates) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=data, ssl=trusting(certificates.ca_bundle)) as response,
    ):
        return response.status, await response.text()


async def test_review(server: WebhookServer, certificates: SelfSignedCertificates) -> None:
    async with running(server) as url:
        status, text = await post(f"{url}/allow", REVIEW, certificates)
    assert status == 200
    assert json.loads(text)["response"] == {"uid": "1", "allowed": True, "warnings": ["seen"]}


async def test_error_responses(
    server: WebhookServer, certificates: SelfSignedCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(server) as url:
        assert (await post(f"{url}/nowhere", REVIEW, certificates))[0] == 404
        assert await post(f"{url}/allow", b"{", certificates) == (
            400,
            "the body is not an AdmissionReview: Input data was truncated\n",
        )
        assert (await post(f"{url}/allow", b" " * (MAX_BODY + 1), certificates))[0] == 413
        status, text = await post(f"{url}/crash", REVIEW, certificates)
        assert (status, text) == (500, "webhook failed: RuntimeError: out of ideas\n")
        assert (await post(f"{url}/allow", REVIEW, certificates))[0] == 200
    assert "out of ideas" in caplog.text


async def test_conversion_path_requires_a_converter(
    server: WebhookServer, certificates: SelfSignedCertificates
) -> None:
    assert server.paths == ["/allow", "/crash"]
    async with running(server) as url:
        assert (await post(f"{url}/convert", {}, certificates))[0] == 404


async def test_two_webhooks_cannot_share_a_path(server: WebhookServer) -> None:
    with pytest.raises(ValueError, match="/allow"):
        server.add_admission("/allow", lambda request: None)  # type: ignore[arg-type, return-value]


async def test_port_in_use_is_one_error(server: WebhookServer, certificates: SelfSignedCertificates) -> None:
    async with running(server):
        other = WebhookServer(certificates, host="127.0.0.1", port=server.port)
        with pytest.raises(OSError, match=f"webhook server cannot listen on 127.0.0.1:{server.port}"):
            await other.run(asyncio.Event())


async def test_new_certificate_files_are_used_for_new_connections(tmp_path: Path) -> None:
    first, second = CertificateAuthority.create("first"), CertificateAuthority.create("second")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    first.issue("w", hosts=["127.0.0.1"], server=True).write(certificate, key)
    server = WebhookServer(CertificateFiles(certificate, key, period=0.02), host="127.0.0.1", port=0)

    async def reachable(url: str, authority: CertificateAuthority) -> bool:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(url, ssl=trusting(authority.certificate)):
                    return True
            except aiohttp.ClientConnectorCertificateError:
                return False

    async with running(server) as url:
        assert await reachable(url, first)
        second.issue("w", hosts=["127.0.0.1"], server=True).write(certificate, key)
        async with asyncio.timeout(60):
            while not await reachable(url, second):
                await asyncio.sleep(0.02)
        assert not await reachable(url, first)


async def test_a_missing_certificate_names_the_file(tmp_path: Path) -> None:
    server = WebhookServer(CertificateFiles(tmp_path / "no.crt", tmp_path / "no.key"), port=0)
    with pytest.raises(OSError, match=r"cannot read serving certificate .*no\.crt"):
        await server.run(asyncio.Event())


async def test_compressed_bodies_are_not_unpacked() -> None:
    async def allow(request: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse()

    certificates = SelfSignedCertificates()
    server = WebhookServer(host="127.0.0.1", port=0, certificates=certificates)
    server.add_admission("/hook", allow)
    async with running(server) as url, aiohttp.ClientSession() as session:
        headers = {"Content-Encoding": "gzip"}
        bomb = gzip.compress(b" " * 4 * MAX_BODY)
        tls = trusting(certificates.ca_bundle)
        async with session.post(f"{url}/hook", data=bomb, headers=headers, ssl=tls) as response:
            assert response.status == 400
