"""`OpenTelemetrySink`: exports spans to OpenTelemetry.

A request that a reconcile sends is a child of its span, has the attribute `kubewright.reconcile_id` and a
`traceparent` header, so that spans of the API server belong to the same trace. A webhook request continues
the trace of the API server. Reads from the cache are not exported.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .admission_spans import WebhookSpan
from .spans import CallSpan, ReconcileSpan, Span

SCOPE = "kubewright"


class OpenTelemetrySink:
    """Creates an OpenTelemetry span for each reconcile, request and webhook call."""

    def __init__(self) -> None:
        """Raises `ImportError` if OpenTelemetry is not installed."""
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            raise ImportError("tracing requires OpenTelemetry: pip install 'kubewright[tracing]'") from None
        self._tracer: Any = trace.get_tracer(SCOPE)
        self._kinds = trace.SpanKind
        self._propagate = propagate

    def __eq__(self, other: object) -> bool:
        """Whether the other one exports the same spans: all use the tracer provider of the process."""
        return isinstance(other, OpenTelemetrySink)

    __hash__ = object.__hash__

    def start(self, span: Span) -> None:
        """Start a span and make it the current one."""
        context = self._create(span)
        if context is None:
            return
        span.context = (context, context.__enter__())
        if isinstance(span, CallSpan) and span.headers is not None:
            self._propagate.inject(span.headers)

    def end(self, span: Span) -> None:
        """End a span; the error of the work becomes its status."""
        if span.context is None:
            return
        context, exported = span.context
        if isinstance(span, CallSpan) and span.status:
            exported.set_attribute("http.response.status_code", span.status)
        error = span.exception
        if error is None:
            context.__exit__(None, None, None)
        else:
            context.__exit__(type(error), error, error.__traceback__)

    def _create(self, span: Span) -> AbstractContextManager[Any] | None:
        if isinstance(span, ReconcileSpan):
            return self._open(
                f"reconcile {span.controller}",
                attributes={
                    "kubewright.controller": span.controller,
                    "kubewright.request": span.request,
                    "kubewright.reconcile_id": span.id,
                },
            )
        if isinstance(span, CallSpan) and not span.cached:
            return self._open(
                f"{span.verb} {span.resource or span.path}",
                kind=self._kinds.CLIENT,
                attributes=_call_attributes(span),
            )
        if isinstance(span, WebhookSpan):
            return self._open(
                f"webhook {span.path}",
                context=self._propagate.extract(span.headers),
                kind=self._kinds.SERVER,
                attributes={"http.request.method": "POST", "url.path": span.path},
            )
        return None

    def _open(self, name: str, **options: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self._tracer.start_as_current_span(name, **options)
        return context


def _call_attributes(span: CallSpan) -> dict[str, str]:
    attributes = {
        "http.request.method": span.method,
        "url.path": span.path,
        "k8s.verb": span.verb,
        "k8s.resource": span.resource,
        "k8s.namespace.name": span.namespace,
        "k8s.object.name": span.name,
    }
    if span.reconcile is not None:
        attributes["kubewright.controller"] = span.reconcile.controller
        attributes["kubewright.reconcile_id"] = span.reconcile.id
    return attributes
