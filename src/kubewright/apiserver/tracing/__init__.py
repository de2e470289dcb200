"""Tracing of requests: spans in the format of OpenTelemetry, sent to a collector.

    tracer = RequestTracer(TracingConfiguration.from_file("tracing.yaml"))
    server = APIServer(storage, tracer=tracer)

- `context`: trace IDs and the `traceparent` header;
- `tracer`: creates a span for each sampled request, called by the request pipeline;
- `otlp`: encodes spans and sends them over gRPC.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
