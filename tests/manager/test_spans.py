"""Spans of an operator: reconciles with causes, calls, events and errors, and webhook calls."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from kubewright import Client, Context, CustomResource, ObjectMeta, Operator, Result, Spec, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.encoding.codec import encode
from kubewright.client import exists, patches
from kubewright.manager import Manager
from kubewright.testing import run_operator
from kubewright.tracing import SpanRecorder, WebhookSpan
from kubewright.webhook import Denied


class GreetingSpec(Spec):
    times: int = 1


@resource(group="spans.example.com", version="v1")
class Greeting(CustomResource[GreetingSpec, None]):
    """A greeting."""


class Records:
    """Subscribes to the spans of an operator when it starts."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        self.unsubscribe: Callable[[], None]

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [record for each, record in self.all if each == type_]


def greeter(records: Records) -> Operator:
    operator = Operator("greeter")

    @operator.on_startup
    async def subscribe(manager: Manager) -> None:
        recorder = SpanRecorder(lambda type_, record: records.all.append((type_, record)))
        records.unsubscribe = manager.spans.subscribe(recorder)

    @operator.reconcile(Greeting, owns=(ConfigMap,))
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> Result | None:
        assert greeting.spec is not None
        if greeting.spec.times == 13:
            raise RuntimeError("unlucky")
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=greeting.name), data={"text": "hello"})])
        ctx.event("Normal", "Greeted", "said hello")
        return Result(requeue_after=3600) if greeting.spec.times == 2 else None

    @operator.default(Greeting)
    def set_defaults(greeting: Greeting) -> None:
        if not greeting.metadata.labels:
            greeting.metadata.labels = {"greeting": "yes"}

    @operator.validate(Greeting, on=("create", "update"))
    def validate(new: Greeting, old: Greeting | None) -> None:
        if new.spec is not None and new.spec.times > 100:
            raise Denied("too often")

    return operator


def greeting(times: int = 1) -> Greeting:
    return Greeting(metadata=ObjectMeta(name="hi", namespace="default"), spec=GreetingSpec(times=times))


async def set_times(client: Client, times: int) -> None:
    change = patches.merge_patch({"spec": {"times": times}})
    await client.patch(Greeting, "hi", change, namespace="default")


async def test_a_reconcile_has_causes_calls_events_and_a_result(
    client: Client, eventually: Callable[..., Any]
) -> None:
    records = Records()
    async with run_operator(greeter(records), client):
        await client.create(greeting())
        await client.wait(ConfigMap, "hi", namespace="default", until=exists, timeout=60)
        first = (await eventually(lambda: records.of("reconcile")))[0]
        assert (first["group"], first["version"], first["kind"]) == ("spans.example.com", "v1", "Greeting")
        assert (first["namespace"], first["name"], first["request"]) == ("default", "hi", "default/hi")
        assert first["causes"][0]["operation"] == "created"
        assert first["result"] == "success"
        assert first["queued"] <= first["started"] <= first["ended"]
        assert first["wait"] >= 0
        assert (first["reads"][0]["verb"], first["reads"][0]["resource"]) == (
            "get",
            "greetings.spans.example.com",
        )
        assert first["reads"][0]["cached"]
        ensured = next(each for each in first["reads"] if each["resource"] == "configmaps")
        assert (ensured["verb"], ensured["name"], ensured["cached"]) == ("get", "hi", True)
        write = next(each for each in first["writes"] if each["resource"] == "configmaps")
        assert (write["verb"], write["name"], write["cached"]) == ("patch", "hi", False)
        assert write["status"] in (200, 201)
        assert write["duration"] > 0
        assert first["events"][0]["reason"] == "Greeted"
        await set_times(client, 2)
        requeued = await eventually(lambda: _last(records, "requeue_after"))
        assert requeued["requeueAfter"] == pytest.approx(3600, abs=5)
        assert any("spec.times" in cause["paths"] for cause in requeued["causes"])
        await set_times(client, 13)
        failed = await eventually(lambda: _last(records, "error"))
        assert failed["error"] == "RuntimeError: unlucky"
        assert 'raise RuntimeError("unlucky")' in failed["traceback"]
        assert "cluster_runtime" not in failed["traceback"]
        assert failed["requeueAfter"] is not None
        assert failed["events"][0]["type"] == "Warning"
        retried = await eventually(lambda: _retried(records))
        assert retried["error"] == "RuntimeError: unlucky"
        records.unsubscribe()
        records.all.clear()
        await set_times(client, 3)
        await client.delete(ConfigMap, "hi", namespace="default")
        await client.wait(ConfigMap, "hi", namespace="default", until=exists, timeout=60)
        assert not records.all


def _denied(records: Records) -> Any:
    return next((each for each in records.of("webhook") if not each["allowed"]), None)


def _last(records: Records, result: str) -> Any:
    return next((each for each in reversed(records.of("reconcile")) if each["result"] == result), None)


def _retried(records: Records) -> Any:
    causes = ((each, cause) for each in records.of("reconcile") for cause in each["causes"])
    return next((each for each, cause in causes if cause["trigger"] == "retry"), None)


async def test_webhook_calls_have_request_response_and_patch(
    client: Client, eventually: Callable[..., Any]
) -> None:
    records = Records()
    async with run_operator(greeter(records), client):
        await client.create(greeting())
        await eventually(lambda: len(records.of("webhook")) >= 2)
        mutating = next(each for each in records.of("webhook") if each["type"] == "mutating")
        assert mutating["operation"] == "CREATE"
        assert (mutating["kind"], mutating["name"]) == ("Greeting", "hi")
        assert mutating["patch"][0]["op"] == "add"
        assert mutating["object"]["spec"] == {"times": 1}
        assert mutating["allowed"]
        assert mutating["user"] == "kubernetes-admin"
        with pytest.raises(Exception, match="too often"):
            await set_times(client, 101)
        validating = await eventually(lambda: _denied(records))
        assert validating["type"] == "validating"
        assert validating["message"] == "too often"
        assert validating["oldObject"]["spec"] == {"times": 1}


def test_values_of_secrets_are_not_recorded() -> None:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"p": "aHVudGVyMg=="}}
    body = encode({"request": {"uid": "1", "object": obj, "kind": {"kind": "Secret", "version": "v1"}}})
    span = WebhookSpan("1", "/mutate", type="mutating", headers={}, body=body)
    labels = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    patch = encode([{"op": "add", "path": "/data/q", "value": "aHVudGVyMg=="}, labels])
    span.response = encode({"response": {"allowed": True, "patch": base64.b64encode(patch).decode()}})
    span.finish()
    record = span.to_dict()
    assert record["object"]["data"] == {"p": "redacted (7 bytes)"}
    assert record["patch"] == [{"op": "add", "path": "/data/q", "value": "redacted"}, labels]
