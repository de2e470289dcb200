"""OpenTelemetry spans of an operator: reconciles, requests to the API server, and webhook requests.

    operator.settings.tracing = True          # or KUBEWRIGHT_TRACING=true

A request that a reconcile sends is a child of its span, has the attribute `kubewright.reconcile_id` and a
`traceparent` header, so that spans of the API server belong to the same trace. A webhook request continues
the trace of the API server. Without the setting, nothing is imported or wrapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.controller.controller import current_reconcile

from .settings import SettingsError

if TYPE_CHECKING:
    from kubewright.client import Client

SCOPE = "kubewright"


def trace_requests(client: Client) -> Client:
    """Return a client that creates a span for every request."""
    api = _opentelemetry()
    tracer = api["trace"].get_tracer(SCOPE)
    kind, inject = api["trace"].SpanKind.CLIENT, api["propagate"].inject

    async def intercept(request: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        attributes = {
            "http.request.method": request.method,
            "url.path": request.path,
            "k8s.verb": request.verb,
            "k8s.resource": str(request.resource or ""),
            "k8s.namespace.name": request.namespace,
            "k8s.object.name": request.name,
        }
        reconcile = current_reconcile.get()
        if reconcile is not None:
            attributes["kubewright.controller"] = reconcile.controller
            attributes["kubewright.reconcile_id"] = reconcile.id
        name = f"{request.verb} {request.resource or request.path}"
        with tracer.start_as_current_span(name, kind=kind, attributes=attributes) as span:
            inject(request.headers)
            response = await proceed(request)
            span.set_attribute("http.response.status_code", response.status)
            return response

    return client.with_interceptor(intercept)


class WebhookTracer:
    """Creates the spans of webhook requests."""

    def __init__(self) -> None:
        api = _opentelemetry()
        self._tracer = api["trace"].get_tracer(SCOPE)
        self._kind = api["trace"].SpanKind.SERVER
        self._extract = api["propagate"].extract

    def span(self, path: str, headers: Mapping[str, str]) -> AbstractContextManager[Any]:
        """Return the span of a request, in the trace that its headers name."""
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"webhook {path}",
            context=self._extract(headers),
            kind=self._kind,
            attributes={"http.request.method": "POST", "url.path": path},
        )
        return span


def _opentelemetry() -> dict[str, Any]:
    try:
        from opentelemetry import propagate, trace
    except ImportError:
        raise SettingsError("tracing requires OpenTelemetry: pip install 'kubewright[tracing]'") from None
    return {"trace": trace, "propagate": propagate}


__all__ = ["WebhookTracer", "trace_requests"]
