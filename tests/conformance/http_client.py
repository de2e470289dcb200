"""HTTP client of the tool: aiohttp, so that recordings do not depend on the client of this project."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kubewright.client import ClusterConfig

USER_AGENT = "conform/1.0"
"""Part of the recordings: managedFields name the manager `conform`."""

Headers = CIMultiDictProxy[str]


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; status 0 if the connection failed."""

    status: int
    headers: Headers
    body: bytes

    @property
    def content_type(self) -> str:
        """The Content-Type header, or an empty string."""
        return self.headers.get("Content-Type", "")

    def json(self) -> Any:
        """The parsed body, or `None` if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class HTTPClient:
    """Connections to one server: one pool as the user of the kubeconfig, one without credentials."""

    def __init__(self, config: ClusterConfig, timeout: float = 30.0) -> None:
        self._server = config.server.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._authorization = _authorization(config)
        self._sessions = {
            anonymous: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=_ssl_context(config, not anonymous), limit=0),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
                auto_decompress=False,
                read_bufsize=1 << 20,
            )
            for anonymous in (False, True)
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions.values():
            await session.close()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        *,
        anonymous: bool = False,
        timeout: float | None = None,
    ) -> Response:
        """Send one request and read the response.

        A response of 429 with Retry-After is retried. A broken connection becomes a response of status 0, so
        that the rest of the case runs.
        """
        for _ in range(20):
            try:
                async with self._open(method, target, headers, body, anonymous, timeout) as response:
                    result = Response(response.status, response.headers, await response.read())
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                empty = CIMultiDictProxy(CIMultiDict[str]())
                return Response(0, empty, f"{type(error).__name__}: {error}".encode())
            if result.status != 429 or "Retry-After" not in result.headers:
                break
            await asyncio.sleep(0.25)
        return result

    async def watch(
        self, target: str, headers: Mapping[str, Any] | None = None, *, anonymous: bool = False
    ) -> Watch:
        """Start a watch and collect its events in the background."""
        response = await self._open("GET", target, headers, None, anonymous, 120.0)
        if response.status != 200:
            watch = Watch(response, await response.read())
            response.release()
            return watch
        return Watch(response, None)

    def _open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, Any] | None,
        body: bytes | None,
        anonymous: bool,
        timeout: float | None,
    ) -> Any:
        sent = CIMultiDict({"Accept": "application/json", "Accept-Encoding": "identity"})
        sent["User-Agent"] = USER_AGENT
        if self._authorization and not anonymous:
            sent["Authorization"] = self._authorization
        for name, value in (headers or {}).items():
            sent.popall(name, None)
            if value is not None:
                sent[name] = str(value)
            if name.lower() == "authorization":
                # A client certificate would take precedence over the credentials of the step.
                anonymous = True
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = b""
        return self._sessions[anonymous].request(
            method,
            URL(self._server + target, encoded=True),
            headers=sent,
            data=body,
            allow_redirects=False,
            timeout=self._timeout if timeout is None else aiohttp.ClientTimeout(total=timeout),
        )


class Watch:
    """A watch whose events are collected by a background task."""

    def __init__(self, response: aiohttp.ClientResponse, body: bytes | None) -> None:
        """`body` is given for a response that is not a stream."""
        self.status = response.status
        self.headers = response.headers
        self.body = body or b""
        self.closed = body is not None
        self._events: list[Any] = []
        self._changed = asyncio.Event()
        self._response = response
        self._reader = None if self.closed else asyncio.create_task(self._read())

    async def _read(self) -> None:
        buffer = b""
        try:
            async for chunk in self._response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                self._events += [json.loads(line) for line in lines if line.strip()]
                self._changed.set()
            if buffer.strip():
                self._events.append(json.loads(buffer))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            pass
        finally:
            self.closed = True
            self._changed.set()

    async def collect(
        self, count: int, *, until_closed: bool, timeout: float, keep: Callable[[Any], bool]
    ) -> list[Any]:
        """Return `count` events that pass `keep`, or all of them when the stream has ended."""

        async def wait() -> None:
            while not self.closed and (until_closed or len(matching()) < count):
                self._changed.clear()
                await self._changed.wait()

        def matching() -> list[Any]:
            return [event for event in self._events if keep(event)]

        try:
            await asyncio.wait_for(wait(), timeout)
        except TimeoutError:
            return matching()
        return matching() if until_closed else matching()[:count]

    async def stop(self) -> None:
        """Close the connection."""
        self._response.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)


def _authorization(config: ClusterConfig) -> str:
    if config.token:
        return f"Bearer {config.token}"
    if config.token_file:
        with open(config.token_file) as file:
            return f"Bearer {file.read().strip()}"
    if config.username:
        pair = f"{config.username}:{config.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _ssl_context(config: ClusterConfig, with_certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if config.ca is not None:
        context.load_verify_locations(cadata=config.ca.read().decode())
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if with_certificate and config.client_certificate is not None and config.client_key is not None:
        with tempfile.NamedTemporaryFile() as certificate, tempfile.NamedTemporaryFile() as key:
            certificate.write(config.client_certificate.read())
            certificate.flush()
            key.write(config.client_key.read())
            key.flush()
            context.load_cert_chain(certificate.name, key.name)
    return context
