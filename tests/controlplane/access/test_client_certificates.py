"""Client certificates are verified when requests are authenticated, not in the TLS handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority, KeyPair
from kubewright.tls.client_certificates import leaf_certificate

Get = Callable[..., "asyncio.Future[int]"]
PATH = "/api/v1/namespaces/default"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,ada,1,"system:masters"\n')
    async with ControlPlane(token_auth_file=tokens, controllers=False) as made:
        yield made


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def get(request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path) -> Get:
    """Send requests on new connections; returns the last status."""

    async def send(pair: KeyPair | None = None, *, token: str = "", path: str = PATH, times: int = 1) -> int:
        context = ssl.create_default_context(cadata=plane.ca.decode())
        context.minimum_version = context.maximum_version = request.param
        if pair is not None:
            pair.write(tmp_path / "client.crt", tmp_path / "client.key")
            context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status = 0
        for _ in range(times):
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
                session.get(f"{plane.url}{path}", headers=headers) as response,
            ):
                await response.read()
                status = response.status
        return status

    return send  # type: ignore[return-value]


async def test_unknown_authority_is_401_unless_the_token_is_valid(plane: ControlPlane, get: Get) -> None:
    unknown = CertificateAuthority.create("other").issue("eve", groups=("system:masters",))
    assert await get(unknown) == 401
    assert await get(unknown, path="/version") == 401, "not anonymous"
    assert await get(unknown, token="wrong") == 401
    assert await get(unknown, token="secret") == 200
    assert await get(unknown) == 401, "nothing is remembered"


async def test_authority_with_the_name_of_the_cluster_authority(plane: ControlPlane, get: Get) -> None:
    """The signature decides, not the name of the issuer."""
    assert (
        await get(CertificateAuthority.create("kubewright-ca").issue("eve", groups=("system:masters",)))
        == 401
    )


async def test_known_authority(plane: ControlPlane, get: Get) -> None:
    known = plane.authority.issue("ann", groups=("system:masters",))
    assert await get(known, times=2) == 200
    assert await get(known, token="wrong") == 401, "the token takes precedence"
    assert await get(plane.authority.issue("bob"), token="secret") == 200, "the token takes precedence"
    assert await get(plane.authority.issue("ann", groups=("system:masters",), days=0)) == 401, "expired"
    assert await get(plane.credentials.front_proxy_client) == 401, "a front proxy is not a user"
    assert await get(path="/version") == 200
    assert await get() == 403


def test_certificate_messages() -> None:
    chain = bytes((0, 0, 8, 0, 0, 3)) + b"one" + bytes((0, 0))
    assert leaf_certificate(b"head" + chain, with_context=False) == b"one"
    assert leaf_certificate(b"head" + bytes((2, 9, 9)) + chain, with_context=True) == b"one"
    for message in (b"", b"head", b"head" + bytes((0, 0, 0)), b"head" + chain[:7]):
        assert leaf_certificate(message, with_context=False) == b""
