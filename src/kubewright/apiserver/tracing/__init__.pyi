from .context import SpanContext as SpanContext
from .context import current_traceparent as current_traceparent
from .tracer import RequestTracer as RequestTracer
from .tracer import TracingConfiguration as TracingConfiguration

__all__ = ["RequestTracer", "SpanContext", "TracingConfiguration", "current_traceparent"]
