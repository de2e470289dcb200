"""Connections to extension API servers: address, trust and user headers.

The user is sent in headers (`X-Remote-User`, `X-Remote-Group`, ...), which the extension API server accepts
because the connection has the front proxy's client certificate.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.resources.objects import Object
from kubewright.client.transport.headers import InvalidHeader, escape_headers, escape_key, identity_value
from kubewright.tls.self_issued import SelfIssuedServers

if TYPE_CHECKING:
    import aiohttp

    from kubewright.tls.certificates import KeyPair

T = TypeVar("T")
Resolve = Callable[[str, str, int], Awaitable[tuple[str, int]]]

RESPONSE_LIMIT = 64 * 1024 * 1024
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "host",
        "authorization",
    )
)


class Service(NamedTuple):
    """Service reference and CA of an APIService."""

    namespace: str
    name: str
    port: int
    ca_bundle: str
    insecure: bool

    @classmethod
    def of(cls, spec: Object) -> Service | None:
        """Parse the `spec` of an APIService; return `None` for a local one."""
        service = spec.get("service")
        if not service:
            return None
        return cls(
            service.get("namespace") or "",
            service.get("name") or "",
            service.get("port") or 443,
            spec.get("caBundle") or "",
            bool(spec.get("insecureSkipTLSVerify")),
        )


def identity_headers(user: User) -> list[tuple[str, str]]:
    """Return the user headers of a forwarded request; raises `InvalidHeader` for a user that they cannot
    name."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        headers += [(f"X-Remote-Extra-{escape_key(key)}", value) for value in values]
    return [(name, identity_value(name, value)) for name, value in headers]


def forwarded_headers(headers: Any) -> list[tuple[str, str]]:
    """Return the client's headers without connection and identity headers."""
    return escape_headers(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in _HOP_BY_HOP
        and not name.lower().startswith(("x-remote-", "impersonate-", "sec-websocket"))
    )


class Upstream(Protocol):
    """What a proxy forwards requests to."""

    async def address(self, service: Service) -> str:
        """Return host and port."""

    async def session(self) -> aiohttp.ClientSession:
        """Return the connection pool."""

    def context(self, service: Service) -> ssl.SSLContext | None:
        """Return the TLS context; `None` for connections without TLS."""

    def name(self, service: Service) -> str | None:
        """Return the name to verify in the certificate; `None` for that of the address."""

    async def other_context(
        self, service: Service, problem: Exception, address: str
    ) -> ssl.SSLContext | None:
        """Return another context to try, after a certificate could not be verified."""


class ConnectionPool:
    """HTTP connections of a server to others; close it when the server stops."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def session(self) -> aiohttp.ClientSession:
        """Return the connection pool."""
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        import aiohttp

        return aiohttp.TCPConnector(limit=0, keepalive_timeout=60)

    async def other_context(
        self, service: Service, problem: Exception, address: str
    ) -> ssl.SSLContext | None:
        """Return `None`: the certificate stays rejected."""
        return None


class Remote(ConnectionPool):
    """Connections to extension API servers."""

    def __init__(self, resolve: Resolve, client: Callable[[], KeyPair]) -> None:
        super().__init__()
        self._resolve = resolve
        self._client = client
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        self._self_issued = SelfIssuedServers[Service](self._trusting)

    async def address(self, service: Service) -> str:
        """Return the address of the service; raise `ServiceNotResolved`."""
        host, port = await self._resolve(service.namespace, service.name, service.port)
        return f"{f'[{host}]' if ':' in host else host}:{port}"

    def context(self, service: Service) -> ssl.SSLContext:
        """Return the TLS context: CA of the APIService, and the front proxy's client certificate."""
        return self._self_issued.context(service) or self._usual_context(service)

    async def other_context(
        self, service: Service, problem: Exception, address: str
    ) -> ssl.SSLContext | None:
        """Return a context for a certificate that Go accepts and OpenSSL rejects, or that is new."""
        usual = self._usual_context(service)
        used = self.context(service)
        if service.insecure:
            return None
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        verified = await self._self_issued.verify(
            service,
            problem,
            base64.b64decode(service.ca_bundle),
            (host, int(port)),
            self.name(service) or host,
        )
        return verified or (usual if used is not usual else None)

    def _usual_context(self, service: Service) -> ssl.SSLContext:
        key = (service.ca_bundle, service.insecure)
        context = self._contexts.get(key)
        if context is None:
            bundle = base64.b64decode(service.ca_bundle)
            context = self._contexts[key] = self._trusting(bundle, insecure=service.insecure)
        return context

    def _trusting(self, bundle: bytes, *, insecure: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif bundle:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            try:
                context.load_verify_locations(cadata=bundle.decode("ascii"))
            except (ValueError, ssl.SSLError) as error:
                raise OSError(
                    "unable to load root certificates: unable to parse bytes as PEM block"
                ) from error
        else:
            context.load_default_certs()
        pair = self._client()
        with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
            certificate, key = Path(folder) / "client.crt", Path(folder) / "client.key"
            pair.write(certificate, key)
            context.load_cert_chain(certificate, key)
        return context

    async def get(
        self,
        service: Service,
        path: str,
        user: User,
        *,
        accept: str = "application/json",
        timeout: float = 5.0,
    ) -> tuple[int, bytes, dict[str, str]]:
        """Send a short request; raise `OSError`, `ServiceNotResolved` or `TimeoutError`.

        Without `accept`, the request has no such header, as that of a health check.
        """
        import asyncio

        import aiohttp

        session = await self.session()
        accepted = [("Accept", accept)] if accept else []
        address = await self.address(service)
        url = f"https://{address}{path}"

        def request(context: ssl.SSLContext | None) -> Awaitable[aiohttp.ClientResponse]:
            return session.get(
                url,
                headers=[*identity_headers(user), *accepted, ("Accept-Encoding", "identity")],
                skip_auto_headers=("Accept",),
                ssl=context or True,
                server_hostname=self.name(service),
                allow_redirects=False,
            )

        try:
            async with asyncio.timeout(timeout), await connect(self, service, address, request) as response:
                data = await read_bounded(response)
                return response.status, data, dict(response.headers)
        except (aiohttp.ClientError, InvalidHeader) as error:
            raise OSError(f"failing or missing response from {url}: {explain(url, error)}") from None
        except TimeoutError:
            raise OSError(
                f'failing or missing response from {url}: Get "{url}": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)"
            ) from None

    def name(self, service: Service) -> str | None:
        """Return the server name for certificate verification."""
        return f"{service.name}.{service.namespace}.svc"


async def connect(
    upstream: Upstream,
    service: Service,
    address: str,
    open_: Callable[[ssl.SSLContext | None], Awaitable[T]],
) -> T:
    """Open a connection with the context of a service; once more, if its certificate needs another one."""
    try:
        return await open_(upstream.context(service))
    except ssl.SSLCertVerificationError as error:
        # The error of aiohttp has this type as well, but has its fields in an attribute.
        problem = getattr(error, "certificate_error", error)
        context = await upstream.other_context(service, problem, address)
        if context is None:
            raise
    return await open_(context)


async def read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the response body up to the size limit."""
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > RESPONSE_LIMIT:
            raise OSError(f"the response of {response.url} exceeds {RESPONSE_LIMIT} bytes")
    return bytes(data)


def explain(url: str, error: Exception) -> str:
    """Return a connection error with the wording of Go's HTTP client."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f'Get "{url}": tls: failed to verify certificate: x509: {error.certificate_error}'
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        # asyncio replaces the text of the operating system with one of its own.
        reason = os.strerror(number) if number and number > 0 else str(error.os_error)
        return f'Get "{url}": dial tcp {error.host}:{error.port}: connect: {reason.lower()}'
    return f'Get "{url}": {str(error) or type(error).__name__}'
