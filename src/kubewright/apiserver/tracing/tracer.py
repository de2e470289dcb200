"""Spans of requests.

A request is traced if its client has sent a sampled `traceparent` header and belongs to the group
`system:masters` or `system:monitoring`, or by the sampling rate. The header of other clients is not trusted:
it becomes a link of the span. Webhooks and aggregated API servers receive the context of the span in their
requests. The span of a watch ends when its response starts.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from kubewright.apiserver.authentication.user import MASTERS

from .context import SpanContext, current
from .otlp import RequestSpan, SpanExporter

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
    from kubewright.apiserver.http.request_info import RequestInfo

logger = logging.getLogger("kubewright.apiserver.tracing")

_TRUSTED: Final = frozenset((MASTERS, "system:monitoring"))


class RequestTracer:
    """Creates spans of requests and exports them."""

    def __init__(self, configuration: TracingConfiguration) -> None:
        """Raises `ValueError` if the gRPC library is not installed."""
        self._limit = configuration.sampling_rate_per_million * (1 << 63) // 1_000_000
        self._exporter = SpanExporter(configuration.endpoint)

    async def start(self) -> None:
        """Start to export."""
        await self._exporter.start()

    async def stop(self) -> None:
        """Export the last spans."""
        await self._exporter.stop()

    def begin(self, request: HTTPRequest, info: RequestInfo) -> RequestSpan | None:
        """Start the span of an authenticated request; `None` if it is not traced."""
        remote = SpanContext.parse(request.headers.get("traceparent", ""))
        parent = current.get()
        if parent is None and remote is not None and not _TRUSTED.isdisjoint(request.user.groups):
            parent = remote
        trace_id = parent.trace_id if parent is not None else os.urandom(16)
        if not (parent.sampled if parent is not None else self._samples(trace_id)):
            return None
        query = f"?{request.query.raw}" if request.query.raw else ""
        span = RequestSpan(
            span_name(request, info),
            SpanContext(trace_id, os.urandom(8), True),
            parent_id=parent.span_id if parent is not None else b"",
            link=remote if parent is None else None,
            attributes={
                "http.request.method": request.method,
                "http.target": request.raw_path + query,
                "url.path": request.path,
                "url.scheme": "https",
                "user_agent.original": request.headers.get("User-Agent", ""),
                "audit-id": request.audit_id[:64],
            },
        )
        span.token = current.set(span.identity)
        return span

    def _samples(self, trace_id: bytes) -> bool:
        return self._limit > 0 and int.from_bytes(trace_id[8:]) >> 1 < self._limit

    def end(self, span: RequestSpan, response: HTTPResponse | None) -> None:
        """End a span; without a response, the client has disconnected."""
        if span.token is not None:
            current.reset(span.token)
            span.token = None
        span.finish()
        span.status = response.status if response is not None else 0
        self._exporter.add(span)


def span_name(request: HTTPRequest, info: RequestInfo) -> str:
    """Return the name of a span: the method, and the path of a resource without names."""
    if not info.resource:
        return request.method
    path = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    if info.namespace:
        path += "/namespaces/{:namespace}"
    path += f"/{info.resource}"
    if info.name:
        path += "/{:name}"
    if info.subresource:
        path += f"/{info.subresource}"
    return f"{request.method} {path}"


VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
DEFAULT_ENDPOINT: Final = "localhost:4317"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingConfiguration:
    """Where spans are sent to, and how many requests are traced."""

    endpoint: str = DEFAULT_ENDPOINT
    """Address of a collector that accepts OTLP over gRPC, without TLS."""
    sampling_rate_per_million: int = 0
    """Requests per million that are traced, in addition to those whose trusted client traces them."""

    @classmethod
    def from_file(cls, path: str | Path) -> TracingConfiguration:
        """Read a file; raises `OSError`, or `ValueError` with the path."""
        try:
            return cls.parse(yaml.safe_load(Path(path).read_bytes()))
        except yaml.YAMLError as error:
            raise ValueError(
                f"tracing config {path} is not valid YAML: {' '.join(str(error).split())}"
            ) from None
        except ValueError as error:
            raise ValueError(f"tracing config {path}: {error}") from None

    @classmethod
    def parse(cls, document: Any) -> TracingConfiguration:
        """Return the configuration of a decoded document; raises `ValueError`."""
        if (
            not isinstance(document, dict)
            or document.get("kind") != "TracingConfiguration"
            or document.get("apiVersion") not in VERSIONS
        ):
            raise ValueError(f"expected kind TracingConfiguration and apiVersion {VERSIONS[0]}")
        unknown = document.keys() - {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"}
        if unknown:
            raise ValueError(f"unknown fields {', '.join(sorted(unknown))}")
        rate = document.get("samplingRatePerMillion") or 0
        if type(rate) is not int or not 0 <= rate <= 1_000_000:
            why = "sampling rate must be between 0 and one million"
            raise ValueError(f"samplingRatePerMillion: Invalid value: {rate}: {why}")
        endpoint = document.get("endpoint") or DEFAULT_ENDPOINT
        if not isinstance(endpoint, str) or "://" in endpoint.removeprefix("dns:///"):
            raise ValueError(f"endpoint: Invalid value: {endpoint!r}: expected HOST:PORT without a scheme")
        return cls(endpoint=endpoint, sampling_rate_per_million=rate)
