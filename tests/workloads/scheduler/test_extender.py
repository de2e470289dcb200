"""Extenders over HTTP: filter, prioritize, bind and preempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kubewright.workloads.scheduler import HTTPExtender, Profile

from .scheduling_objects import Simulation, node, pod


def new_extender(**options: Any) -> HTTPExtender:
    """Return an extender that is called for longer than a busy machine needs."""
    return HTTPExtender(timeout=120.0, **options)


@asynccontextmanager
async def serve(**responses: Any) -> AsyncIterator[tuple[str, list[tuple[str, Any]]]]:
    """Serve JSON by verb; return the URL and the requests."""
    requests: list[tuple[str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        requests.append((verb, await request.json()))
        result = responses[verb]
        return result if isinstance(result, web.Response) else web.json_response(result)

    application = web.Application()
    application.router.add_post("/scheduler/{verb}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/scheduler/", requests
    finally:
        await runner.cleanup()


async def run(simulation: Simulation) -> dict[str, str]:
    placed = await simulation.run()
    await simulation.core.aclose()
    return placed


async def test_filter_with_reasons() -> None:
    result = {"NodeNames": ["b"], "FailedNodes": {"a": "node(s) had no license"}}
    async with serve(filter=result) as (url, requests):
        extender = new_extender(url=url, filter_verb="filter", node_cache_capable=True)
        simulation = Simulation(node("a"), node("b", cpu="1"), pod("p", cpu="1"), extenders=[extender])
        assert await run(simulation) == {"p": "b"}
    ((verb, body),) = requests
    assert (verb, body["NodeNames"], body["Nodes"]) == ("filter", ["a", "b"], None)
    assert body["Pod"]["metadata"]["name"] == "p"


async def test_all_nodes_rejected() -> None:
    result = {"Nodes": {"items": []}, "FailedAndUnresolvableNodes": {"a": "node(s) had no license"}}
    async with serve(filter=result) as (url, requests):
        extender = new_extender(url=url, filter_verb="filter")
        simulation = Simulation(node("a"), pod("p"), extenders=[extender])
        assert await run(simulation) == {}
    assert requests[0][1]["Nodes"]["items"][0]["metadata"]["name"] == "a"
    assert simulation.message("p").startswith("0/1 nodes are available: 1 node(s) had no license.")
    (queued,) = simulation.core.queue.pods()
    assert queued.unschedulable_plugins == {"*"}


async def test_scores_are_added() -> None:
    scores = [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}]
    async with serve(prioritize=scores) as (url, _):
        extender = new_extender(url=url, prioritize_verb="prioritize", weight=5)
        for seed in range(3):
            simulation = Simulation(node("a"), node("b"), pod("p"), extenders=[extender], seed=seed)
            assert await run(simulation) == {"p": "b"}


async def test_bind() -> None:
    async with serve(bind={"Error": ""}) as (url, requests):
        extender = new_extender(url=url, bind_verb="bind")
        assert await run(Simulation(node("a"), pod("p"), extenders=[extender])) == {"p": "a"}
    assert requests[0][1]["PodName"] == "p"
    assert requests[0][1]["Node"] == "a"


@pytest.mark.parametrize("ignorable", [True, False])
async def test_failed_extender(ignorable: bool) -> None:
    async with serve(filter=web.Response(status=500)) as (url, _):
        extender = new_extender(url=url, filter_verb="filter", ignorable=ignorable)
        simulation = Simulation(node("a"), pod("p"), extenders=[extender])
        placed = await run(simulation)
    assert placed == ({"p": "a"} if ignorable else {})
    if not ignorable:
        assert simulation.reporter.conditions["p"].reason == "SchedulerError"
        assert simulation.message("p").endswith("code 500")


async def test_only_pods_with_managed_resources() -> None:
    resources = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    containers = [{"name": "a", "image": "i", "resources": resources}]
    async with serve(filter={"NodeNames": ["a"]}) as (url, requests):
        managed = frozenset(["example.com/gpu"])
        extender = new_extender(
            url=url, filter_verb="filter", node_cache_capable=True, managed_resources=managed,
            ignored_by_scheduler=managed,
        )  # fmt: skip
        simulation = Simulation(
            node("a"), pod("plain"), pod("gpu", containers=containers), extenders=[extender]
        )
        assert sorted(await run(simulation)) == ["gpu", "plain"]
    assert [body["Pod"]["metadata"]["name"] for _, body in requests] == ["gpu"]


async def test_preempt() -> None:
    low = pod("low", cpu="1", nodeName="a")
    accepted = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": low.metadata.uid}], "NumPDBViolations": 0}}}
    async with serve(preempt=accepted) as (url, requests):
        extender = new_extender(url=url, preempt_verb="preempt", node_cache_capable=True)
        simulation = Simulation(
            node("a", cpu="1"), node("b", cpu="1"), low, pod("other", cpu="1", nodeName="b"),
            pod("high", cpu="1", priority=10), extenders=[extender], profiles=[Profile()],
        )  # fmt: skip
        await run(simulation)
    assert set(requests[0][1]["NodeNameToMetaVictims"]) == {"a", "b"}
    assert simulation.reporter.nominations["high"] == "a"
