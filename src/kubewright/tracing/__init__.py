"""Spans: what controllers, clients and webhooks of a process did, for the dashboard and OpenTelemetry.

    unsubscribe = manager.spans.subscribe(SpanRecorder(lambda type_, record: print(type_, record)))

A component that publishes spans has an attribute `sinks`, which is empty without subscribers: tracing that is
off costs one attribute check per reconcile, request or webhook call.

- `spans`: `ReconcileSpan`, `CallSpan`; `admission_spans`: `WebhookSpan`, `PolicySpan`
- `source`: `SpanSource`, which connects subscribers with components; `SpanSink`, a subscriber
- `recorder`: `SpanRecorder`, which converts finished spans to plain data
- `opentelemetry`: `OpenTelemetrySink`, which exports them
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
