"""Reconciles, webhook calls and queues of an operator, in the same process and over its trace endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kubewright import Client, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.meta import LabelSelector
from kubewright.client import patches
from kubewright.client.backoff import Backoff
from kubewright.dashboard import (
    Dashboard,
    DashboardError,
    OperatorDashboard,
    OperatorEndpoint,
    RemoteTraces,
    TraceStore,
)
from kubewright.manager import Manager
from kubewright.manager.observability.trace_server import TraceServer
from kubewright.manager.operators.settings import SettingsError
from kubewright.testing import run_operator
from kubewright.testing.server import start_test_server

from .conftest import Browser, browse
from .test_object_evidence import span


class ToySpec(Spec):
    size: int = 1


@resource(group="traces.example.com", version="v1")
class Toy(CustomResource[ToySpec, None]):
    """A toy."""


def maker(managers: list[Manager] | None = None) -> Operator:
    operator = Operator("maker")

    @operator.on_startup
    async def keep(manager: Manager) -> None:
        if managers is not None:
            managers.append(manager)

    @operator.reconcile(Toy)
    async def reconcile(toy: Toy) -> None:
        if toy.spec is not None and toy.spec.size > 10:
            raise RuntimeError("too large")

    @operator.default(Toy)
    def set_defaults(toy: Toy) -> None:
        if not toy.metadata.labels:
            toy.metadata.labels = {"kind": "toy"}

    return operator


async def create_toy(client: Client, size: int = 1) -> None:
    await client.create(Toy(metadata=ObjectMeta(name="a", namespace="default"), spec=ToySpec(size=size)))


async def resize(client: Client, size: int) -> None:
    change = patches.merge_patch({"spec": {"size": size}})
    await client.patch(Toy, "a", change, namespace="default")


@asynccontextmanager
async def in_process(client: Client) -> AsyncIterator[Browser]:
    managers: list[Manager] = []
    async with run_operator(maker(managers), client):
        stop = asyncio.Event()
        made = OperatorDashboard(client, {"maker": managers[0]})
        task = asyncio.create_task(made.run(stop))
        await made.wait_until_started()
        async with aiohttp.ClientSession() as session:
            browser = Browser(made.dashboard, session)
            await browser.sign_in()
            try:
                yield browser
            finally:
                stop.set()
                await task


async def test_spans_of_the_operator_in_this_process(client: Client, eventually: Callable[..., Any]) -> None:
    async with in_process(client) as browser:
        info = await browser.get("/api/info")
        assert info["traces"]
        assert info["operators"] == ["maker"]
        async with browser.events("/api/stream?reconciles=1&webhooks=1&queues=1") as events:
            await create_toy(client, 11)
            seen: dict[str, Any] = {}
            async for name, data in events:
                seen.setdefault(name, data)
                if {"ready", "reconcile", "webhook", "queue"} <= set(seen):
                    break
        assert seen["reconcile"][0]["name"] == "a"
        assert seen["webhook"][0]["kind"] == "Toy"
        assert seen["queue"][0]["controllers"][0]["name"] == "toy"

        async def failed() -> Any:
            return (await browser.get("/api/reconciles?kind=Toy&name=a&errors=1"))["spans"]

        spans = await eventually(failed)
        assert spans[0]["error"] == "RuntimeError: too large"
        assert (await browser.get("/api/reconciles?controller=other"))["spans"] == []
        assert (await browser.get("/api/reconciles"))["controllers"] == ["toy"]
        webhooks = await browser.get("/api/webhooks?limit=1")
        assert len(webhooks["spans"]) == 1
        assert webhooks["paths"] == [webhooks["spans"][0]["path"]]

        async def sampled() -> Any:
            """Return the controller when two samples have a reconcile between them."""
            queues = (await browser.get("/api/queues"))["controllers"]
            return queues and queues[0]["errors"] and any(queues[0]["series"]["rate"]) and queues[0]

        queue = await eventually(sampled)
        assert queue["failing"] == {"default/a": "RuntimeError: too large"}
        lengths = {len(values) for values in queue["series"].values()}
        assert len(lengths) == 1
        assert any(rate > 0 for rate in queue["series"]["rate"])
        assert any(latency for latency in queue["series"]["latency"])


async def test_without_an_operator_the_reason_is_given(browser: Browser) -> None:
    info = await browser.get("/api/info")
    assert not info["traces"]
    assert "--operator URL" in info["tracesMessage"]
    found = await browser.get("/api/reconciles")
    assert (found["traces"], found["controllers"], found["spans"]) == (False, [], [])
    assert (found["message"], found["since"]) == (info["tracesMessage"], None)


async def test_spans_over_the_trace_endpoint(client: Client, eventually: Callable[..., Any]) -> None:
    managers: list[Manager] = []
    store = TraceStore()
    async with run_operator(maker(managers), client, trace_port=0, trace_token="secret"):
        manager = managers[0]
        (server,) = [each for each in manager.runnables if isinstance(each, TraceServer)]
        await server.wait_until_started()
        url = f"http://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession() as session:
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                async with session.get(f"{url}/traces", headers=headers) as response:
                    assert response.status == 401
        stop = asyncio.Event()
        task = asyncio.create_task(RemoteTraces(store, OperatorEndpoint(url), "secret").run(stop))
        await eventually(lambda: store.available)
        await create_toy(client)
        await eventually(lambda: store.reconciles()["spans"])
        assert store.operators == ["maker"]
        async with browse(Dashboard(client, traces=store)) as browser:
            assert (await browser.get("/api/info"))["operators"] == ["maker"]
            assert (await browser.get("/api/reconciles"))["spans"][0]["controller"] == "toy"
    await eventually(lambda: not store.available)
    assert "is not connected" in store.message
    stop.set()
    await task


async def test_the_trace_endpoint_of_a_deployment_is_forwarded(eventually: Callable[..., Any]) -> None:
    labels = {"app": "maker"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels),
        spec=PodSpec(containers=[Container(name="manager", image="maker:1")]),
    )
    async with start_test_server("in-process", None, nodes=1) as server:
        client = server.client()
        managers: list[Manager] = []
        async with run_operator(maker(managers), client, trace_port=0, trace_token="secret"):
            (traces,) = [each for each in managers[0].runnables if isinstance(each, TraceServer)]
            await traces.wait_until_started()
            server.pods.on_port_forward("app=maker", traces.port, port=8090)
            store, stop = TraceStore(), asyncio.Event()
            endpoint = OperatorEndpoint("deployment/default/maker:8090", client)
            backoff = Backoff(initial=0.01, maximum=0.01)
            task = asyncio.create_task(RemoteTraces(store, endpoint, "secret", backoff=backoff).run(stop))
            await eventually(lambda: "maker" in store.message and "not found" in store.message)
            await client.create(
                Deployment(
                    metadata=ObjectMeta(name="maker", namespace="default"),
                    spec=DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template),
                )
            )
            await eventually(lambda: store.available)
            await create_toy(client)
            await eventually(lambda: store.reconciles()["spans"])
            stop.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_trace_endpoint_requires_a_token(client: Client) -> None:
    with pytest.raises(SettingsError, match="KUBEWRIGHT_TRACE_TOKEN"):
        async with run_operator(maker(), client, trace_port=0):
            pass


@pytest.mark.parametrize(
    ("url", "token", "problem"),
    [
        ("127.0.0.1:8090", "a", "expected a URL"),
        ("http://operator.example:8090", "a", "without TLS"),
        ("http://127.0.0.1:8090", "", "requires the token"),
        ("deployment/default/maker:8090", "a", "no cluster is connected"),
    ],
)
def test_unsafe_operator_addresses_are_rejected(url: str, token: str, problem: str) -> None:
    with pytest.raises(DashboardError, match=problem):
        RemoteTraces(TraceStore(), OperatorEndpoint(url), token)


async def test_a_page_that_reads_too_slowly_receives_the_number_of_lost_spans(client: Client) -> None:
    store = TraceStore()
    async with (
        browse(Dashboard(client, traces=store)) as browser,
        browser.events("/api/stream?reconciles=1") as events,
    ):
        assert (await anext(events))[0] == "ready"
        for number in range(1500):
            store.add("reconcile", span(number, "x"))
        received = 0
        async for name, data in events:
            if name == "lost":
                assert data == {"spans": 500}
                break
            received += len(data) if name == "reconcile" else 0
    assert received == 1000


def test_spans_are_bounded_per_controller() -> None:
    store = TraceStore()
    for number in range(2000):
        store.add("reconcile", span(number, "x"))
    store.add("reconcile", {**span(-1, "y"), "controller": "quiet"})
    found = store.reconciles(limit=5000)
    assert found["controllers"] == ["quiet", "shop"]
    assert len(found["spans"]) == 501
    assert found["spans"][-1]["controller"] == "quiet"
    for number in range(300):
        large = {"path": f"/{number % 3}", "started": number, "object": "x" * 200_000}
        store.add("webhook", large)
    assert len(store.webhooks(limit=5000)["spans"]) == 83
