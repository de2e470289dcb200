"""`CallPublisher`: publishes spans of the requests of a client, with the reconcile that sends them."""

from __future__ import annotations

from kubewright.api.errors import APIError
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.tracing.source import SpanSink, end_span, start_span
from kubewright.tracing.spans import CallSpan, current_span

from .request import APIRequest, CallNext


class CallPublisher:
    """Interceptor of a client that publishes a span for each request."""

    def __init__(self, sinks: tuple[SpanSink, ...] = ()) -> None:
        self.sinks = sinks

    async def __call__(self, request: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        """Send a request."""
        sinks = self.sinks
        if not sinks:
            return await proceed(request)
        span = CallSpan(
            request.verb,
            str(request.resource or ""),
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
            method=request.method,
            path=request.path,
            headers=request.headers,
            reconcile=current_span.get(),
        )
        start_span(sinks, span)
        error: BaseException | None = None
        try:
            response = await proceed(request)
            span.status = response.status
            return response
        except BaseException as failure:
            error = failure
            span.status = failure.status_code if isinstance(failure, APIError) else 0
            raise
        finally:
            span.finish(error)
            span.headers = None
            end_span(sinks, span)
