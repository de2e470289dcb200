from .configuration import TracingConfiguration as TracingConfiguration
from .context import SpanContext as SpanContext
from .context import current_traceparent as current_traceparent
from .tracer import RequestTracer as RequestTracer

__all__ = ["RequestTracer", "SpanContext", "TracingConfiguration", "current_traceparent"]
