"""OpenTelemetry spans of an operator."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import trace

from kubewright import Client, Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import exists
from kubewright.client.rest.call_spans import CallPublisher
from kubewright.manager.operators.settings import SettingsError
from kubewright.testing import run_operator
from kubewright.testing.server import TestServer
from kubewright.tracing import OpenTelemetrySink


class GreetingSpec(Spec):
    times: int = 1


@resource(group="tracing.example.com", version="v1")
class Greeting(CustomResource[GreetingSpec, None]):
    """A greeting."""


@dataclass
class Span:
    name: str
    attributes: dict[str, Any]
    parent: Span | None
    options: dict[str, Any] = field(default_factory=dict)

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value


class RecordingTracer:
    """Records spans, with their parent in the same context."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.key = trace.context_api.create_key("span")

    @contextmanager
    def start_as_current_span(self, name: str, attributes: Any = None, **options: Any) -> Iterator[Span]:
        parent = trace.context_api.get_value(self.key)
        span = Span(name, dict(attributes or {}), parent, options)  # type: ignore[arg-type]
        self.spans.append(span)
        token = trace.context_api.attach(trace.context_api.set_value(self.key, span))
        try:
            yield span
        finally:
            trace.context_api.detach(token)


def greeter() -> Operator:
    operator = Operator("greeter")

    @operator.reconcile(Greeting, owns=(ConfigMap,))
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=greeting.name), data={"text": "hello"})])

    @operator.timer(Greeting, interval=60)
    async def count(greeting: Greeting) -> None: ...

    @operator.default(Greeting)
    def set_defaults(greeting: Greeting) -> None: ...

    return operator


async def greet(client: Client, until: Callable[[], bool] = lambda: True, **settings: Any) -> None:
    """Create a greeting and wait until its ConfigMap exists and `until` holds."""
    async with run_operator(greeter(), client, **settings), asyncio.timeout(60):
        await client.create(
            Greeting(metadata=ObjectMeta(name="hi", namespace="default"), spec=GreetingSpec())
        )
        await client.wait(ConfigMap, "hi", namespace="default", until=exists)
        while not until():
            await asyncio.sleep(0.01)


async def test_spans_of_reconciles_requests_and_webhooks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = RecordingTracer()
    monkeypatch.setattr(trace, "get_tracer", lambda scope: tracer)
    expected = {"reconcile greeting", "reconcile count-timer"}
    await greet(client, lambda: expected <= {span.name for span in tracer.spans}, tracing=True)
    reconciles = [span for span in tracer.spans if span.name == "reconcile greeting"]
    applied = next(span for span in tracer.spans if span.name == "patch configmaps")
    assert applied.parent in reconciles
    assert applied.parent is not None
    assert (
        applied.attributes["kubewright.reconcile_id"] == applied.parent.attributes["kubewright.reconcile_id"]
    )
    assert applied.attributes["http.response.status_code"] in (200, 201)
    assert applied.attributes["k8s.object.name"] == "hi"
    webhook = next(span for span in tracer.spans if span.name.startswith("webhook /mutate-"))
    assert webhook.options["kind"] == trace.SpanKind.SERVER
    lists = [span for span in tracer.spans if span.name.startswith("watch ")]
    assert lists
    assert all("kubewright.reconcile_id" not in span.attributes for span in lists)


async def test_nothing_is_traced_without_the_setting(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scope: str) -> None:
        raise AssertionError("tracing is off")

    monkeypatch.setattr(trace, "get_tracer", fail)
    await greet(client)


async def test_a_missing_package_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"pip install 'kubewright\[tracing\]'"):
        await greet(client, tracing=True)


async def test_a_request_of_a_traced_client_has_one_span_in_a_traced_operator(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = RecordingTracer()
    monkeypatch.setattr(trace, "get_tracer", lambda scope: tracer)
    client = server.client().with_interceptor(CallPublisher((OpenTelemetrySink(),)))
    await greet(client, lambda: any(span.name == "patch configmaps" for span in tracer.spans), tracing=True)
    applied = [span for span in tracer.spans if span.name == "patch configmaps"]
    assert all(span.parent is None or span.parent.name.startswith("reconcile") for span in applied)


async def test_tracing_of_one_controller_is_deprecated_and_adds_no_second_span(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = RecordingTracer()
    monkeypatch.setattr(trace, "get_tracer", lambda scope: tracer)
    operator = Operator("greeter")
    runs: list[str] = []

    @operator.reconcile(Greeting, tracing=True)
    async def reconcile(greeting: Greeting) -> None:
        runs.append(greeting.name)

    async def run() -> None:
        async with run_operator(operator, client, tracing=True), asyncio.timeout(60):
            await client.create(
                Greeting(metadata=ObjectMeta(name="hi", namespace="default"), spec=GreetingSpec())
            )
            while not runs:
                await asyncio.sleep(0.01)

    with pytest.warns(DeprecationWarning, match=r"use Manager\(\.\.\., tracing=True\)"):
        await run()
    assert len([span for span in tracer.spans if span.name == "reconcile greeting"]) == len(runs)
