"""HTTP client for admission and conversion webhooks.

A `clientConfig` has a URL, or a service reference that a resolver maps to an address. The server certificate
is verified against `caBundle` only, or against the system's CAs without one. A bundle may contain the
server's own certificate instead of its issuer's.

Errors raise `CallError` with the messages of Go's HTTP client, which kube-apiserver returns to clients.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from posixpath import normpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml

from kubewright.api.errors import APIError, from_response
from kubewright.apiserver.encoding.json_errors import json_error
from kubewright.apiserver.encoding.yaml import load_yaml
from kubewright.apiserver.tracing.context import current_traceparent
from kubewright.tls.self_issued import SelfIssuedServers, fetch_certificate

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from kubewright.tracing.admission_spans import WebhookType
    from kubewright.tracing.source import SpanSink

_MAX_RESPONSE: Final = 10 * 1024 * 1024
_CONTEXTS: Final = 200
_MISMATCHES: Final = (62, 64)
"""OpenSSL's errors for a host name or an address that is not in a certificate."""
_UNVERIFIED: Final = "tls: failed to verify certificate: x509: "
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_GO_KINDS: Final = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    type(None): "null",
}

Resolve = Callable[[str, str, int], Awaitable[tuple[str, int]]]
"""Maps namespace, name and port of a service to an address; raises `ServiceNotResolved`."""


class CallError(Exception):
    """A webhook could not be called, or its response is invalid."""


class ServiceNotResolved(Exception):
    """A service has no address."""


@dataclass(frozen=True, slots=True)
class Target:
    """Address of a webhook, from its `clientConfig`."""

    url: str
    """URL for messages."""
    bundle: bytes
    service: tuple[str, str, int] | None = None
    """Namespace, name and port of a service reference."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Target:
        """Parse a `clientConfig` of a webhook configuration or of a CRD conversion."""
        try:
            bundle = b64decode(config.get("caBundle") or "").strip()
        except Base64Error:
            bundle = b"-"
        service = config.get("service")
        if service:
            namespace, name = service.get("namespace") or "", service.get("name") or ""
            port = service.get("port") or 443
            path = _clean(service.get("path") or "")
            return cls(f"https://{name}.{namespace}.svc:{port}{path}", bundle, (namespace, name, port))
        parts = urlsplit(config.get("url") or "")
        return cls(f"{parts.scheme}://{parts.netloc}{_clean(parts.path)}", bundle)


def _clean(path: str) -> str:
    """Return a path as Go's client sends it: without dots, repeated slashes or a trailing slash."""
    return "/" + normpath("/" + path).lstrip("/")


class WebhookClient:
    """Connection pool for webhooks; close it when the server stops."""

    def __init__(self, resolve: Resolve) -> None:
        self.sinks: tuple[SpanSink, ...] = ()
        """Subscribers of the spans of calls."""
        self._ids = itertools.count(1)
        self._resolve = resolve
        self._session: ClientSession | None = None
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()
        self._self_issued = SelfIssuedServers[tuple[bytes, str]](_trusting)
        """By bundle and URL."""

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self,
        target: Target,
        body: bytes,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        review_type: WebhookType = "other",
    ) -> Any:
        """Send a review and return the decoded response.

        The query parameter `timeout` is the timeout, or the time until `deadline` (event loop time) at which
        the caller is cancelled, whichever is shorter. `review_type` is for spans.
        """
        if self.sinks:
            return await self._post_traced(target, body, timeout, deadline, review_type)
        return _decode(await self._post(target, body, timeout, deadline))

    async def _post_traced(
        self, target: Target, body: bytes, timeout: float | None, deadline: float | None, type_: WebhookType
    ) -> Any:
        from kubewright.tracing.admission_spans import WebhookSpan
        from kubewright.tracing.source import end_span, start_span

        sinks = self.sinks
        span = WebhookSpan(f"apiserver-{next(self._ids)}", target.url, type=type_, headers={}, body=body)
        start_span(sinks, span)
        error: BaseException | None = None
        try:
            span.response = await self._post(target, body, timeout, deadline)
            return _decode(span.response)
        except BaseException as failure:
            error = failure
            span.code = 500
            raise
        finally:
            span.finish(error)
            end_span(sinks, span)

    async def _post(
        self, target: Target, body: bytes, timeout: float | None, deadline: float | None
    ) -> bytes:
        """Send a review and return the body of the response."""
        query = f"?timeout={_seconds(_bounded(timeout, deadline))}" if timeout is not None else ""
        shown = f'Post "{target.url}{query}": '
        try:
            async with asyncio.timeout(timeout):
                status, data, kind = await self._exchange(target, query, body)
        except TimeoutError:
            raise CallError(f"{shown}context deadline exceeded") from None
        except ServiceNotResolved as error:
            raise CallError(f"{shown}{error}") from None
        except (OSError, ssl.SSLError) as error:
            raise CallError(shown + _explain(error)) from None
        if not 200 <= status <= 206:
            raise CallError(_failure(status, data, text=not kind or kind.startswith("text/")))
        if not data:
            raise CallError(f"0-length response with status code: {status} and content type: {kind}")
        return data

    async def _exchange(self, target: Target, query: str, body: bytes) -> tuple[int, bytes, str]:
        """Return status, body and content type of the response."""
        import aiohttp

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=100, keepalive_timeout=90)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=True,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        url, name = target.url, None
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        headers["User-Agent"] = "kube-apiserver-admission"
        traceparent = current_traceparent()
        if traceparent:
            headers["Traceparent"] = traceparent
        if target.service is not None:
            host, port = await self._resolve(*target.service)
            parts = urlsplit(target.url)
            headers["Host"] = parts.netloc
            name = parts.hostname
            url = f"https://{f'[{host}]' if ':' in host else host}:{port}{parts.path}"
        key, usual = (target.bundle, target.url), self._context(target.bundle)
        context = self._self_issued.context(key) or usual
        try:
            return await self._send(url + query, body, headers, context, name)
        except ssl.SSLCertVerificationError as problem:
            parts = urlsplit(url)
            host = parts.hostname or ""
            address = host, parts.port or 443
            verified = await self._self_issued.verify(key, problem, target.bundle, address, name or host)
            if verified is None and context is usual:
                raise
        return await self._send(url + query, body, headers, verified or usual, name)

    async def _send(
        self, url: str, body: bytes, headers: dict[str, str], context: ssl.SSLContext, name: str | None
    ) -> tuple[int, bytes, str]:
        """Send a request; raise `OSError`."""
        import aiohttp

        assert self._session is not None
        try:
            async with self._session.post(
                url,
                data=body,
                headers=headers,
                ssl=context,
                server_hostname=name,
                allow_redirects=False,
            ) as response:
                data = await response.content.read(_MAX_RESPONSE + 1)
                while len(data) <= _MAX_RESPONSE and not response.content.at_eof():
                    data += await response.content.read(_MAX_RESPONSE + 1 - len(data))
                if len(data) > _MAX_RESPONSE:
                    raise CallError(f"the response is longer than {_MAX_RESPONSE} bytes")
                return response.status, data, response.headers.get("Content-Type", "")
        except aiohttp.ClientConnectorDNSError as error:
            raise OSError(f"dial tcp: lookup {error.host}: no such host") from None
        except aiohttp.ClientConnectorCertificateError as error:
            problem = error.certificate_error
            if isinstance(problem, ssl.SSLCertVerificationError) and problem.verify_code in _MISMATCHES:
                raise OSError(await _mismatch(error.host, error.port or 443, name)) from None
            raise problem from None
        except aiohttp.ClientConnectorError as error:
            address = f"{error.host}:{error.port}"
            raise OSError(f"dial tcp {address}: connect: {_errno_text(error.os_error)}") from None
        except aiohttp.ServerDisconnectedError:
            raise OSError("EOF") from None
        except aiohttp.InvalidURL as error:
            raise OSError(f"invalid URL {error}") from None
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from None

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            context = self._contexts[bundle] = _trusting(bundle)
            if len(self._contexts) > _CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(bundle)
        return context


def _trusting(bundle: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not bundle:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cadata=bundle.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise OSError("unable to load root certificates: unable to parse bytes as PEM block") from None
    return context


def _bounded(timeout: float, deadline: float | None) -> float:
    if deadline is None:
        return timeout
    return max(min(timeout, deadline - asyncio.get_running_loop().time()), 0.0)


def _seconds(timeout: float) -> str:
    whole = -int(-timeout // 1)
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"


def _errno_text(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _explain(error: Exception) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: {error}" if isinstance(error, ssl.SSLError) else str(error)
    start = _UNVERIFIED
    message = error.verify_message
    if "expired" in message or "not yet valid" in message:
        return start + f"certificate has expired or is not yet valid: {message}"
    if error.verify_code in (18, 19, 20, 21):
        return start + "certificate signed by unknown authority"
    return start + message


async def _mismatch(host: str, port: int, name: str | None) -> str:
    """Return why a certificate does not match; it is fetched again, as a failed handshake does not expose
    it."""
    from cryptography import x509

    wanted = name or host
    names: list[str] = []
    addresses: list[str] = []
    try:
        data = await fetch_certificate(host, port, wanted)
        certificate = x509.load_der_x509_certificate(data)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
        addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    except (OSError, ValueError, x509.ExtensionNotFound):
        pass
    try:
        ip_address(wanted)
    except ValueError:
        if not names:
            return f"{_UNVERIFIED}certificate is not valid for any names, but wanted to match {wanted}"
        return f"{_UNVERIFIED}certificate is valid for {', '.join(names)}, not {wanted}"
    if not addresses:
        return f"{_UNVERIFIED}cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
    return f"{_UNVERIFIED}certificate is valid for {', '.join(addresses)}, not {wanted}"


def _failure(status: int, data: bytes, *, text: bool) -> str:
    """Return the error of an unsuccessful response: the message of its `Status` body, if any."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        body = None
    is_status = isinstance(body, dict) and body.get("kind") == "Status" and body.get("apiVersion") == "v1"
    if is_status and body.get("status") != "Success":
        return APIError.from_status(body, status).message
    shown = data[:2048].decode("utf-8", "replace").strip() if text else ""
    return from_response(status, shown or "unknown").message


def _decode(data: bytes) -> Any:
    """Decode a response body as JSON or YAML, as kube-apiserver does."""
    try:
        response = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        if data.lstrip()[:1] == b"{":
            text = json_error(data, error)
            raise CallError(f"couldn't get version/kind; json parse error: {text}") from None
        try:
            response, _ = load_yaml(data)
        except yaml.YAMLError as error:
            problem = str(error).removeprefix("yaml: ")
            raise CallError(f"couldn't get version/kind; json parse error: {problem}") from None
    if response is None:
        return {}
    if not isinstance(response, dict):
        kind = _GO_KINDS.get(type(response), "string")
        raise CallError(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value "
            f"of type {_TYPE_META}"
        )
    return response
