"""Events: both APIs, series, aggregation, the spam filter, and asynchronous delivery."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.times import format_time, now, now_micro, parse_time
from kubewright.client import Client
from kubewright.client.errors import ConnectionFailed
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.controller.controller import Controller
from kubewright.manager import EventRecorder
from kubewright.manager.events import AGGREGATE_AFTER, MESSAGE_LENGTH, QUEUE_LENGTH, STOP_SECONDS, EventAPI

CORE = GroupVersionKind("", "v1", "Event")
EVENTS = GroupVersionKind("events.k8s.io", "v1", "Event")


def recorder(client: Client, api: EventAPI = "events.k8s.io/v1") -> EventRecorder:
    return EventRecorder(client, "tester", api=api)


@pytest.fixture
async def subject(client: Client) -> ConfigMap:
    return await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))


async def events(client: Client, kind: GroupVersionKind = EVENTS) -> list[dict[str, Any]]:
    return [each.raw async for each in client.list(kind, namespace="default")]


async def test_an_event_names_object_reason_and_reporter(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    made.event(subject, "Normal", "Created", "it is there", action="Create", related=subject)
    await made.flush()
    (event,) = await events(client)
    assert (event["type"], event["reason"], event["note"], event["action"]) == (
        "Normal",
        "Created",
        "it is there",
        "Create",
    )
    assert event["regarding"]["uid"] == event["related"]["uid"] == subject.metadata.uid
    assert event["regarding"]["kind"] == "ConfigMap"
    assert event["reportingController"] == "tester"
    assert parse_time(event["eventTime"]) == now_micro()
    (old,) = await events(client, CORE)
    assert old["involvedObject"]["name"] == "a"
    assert old["message"] == "it is there"


async def test_repetitions_in_the_core_api(client: Client, subject: ConfigMap) -> None:
    made = recorder(client, "v1")
    for _ in range(3):
        made.event(subject, "Warning", "Failed", "no disk")
        await made.flush()
        await asyncio.sleep(60)
    (event,) = await events(client, CORE)
    assert event["count"] == 3
    assert event["source"] == {"component": "tester"}
    assert event["firstTimestamp"] == format_time(now() - timedelta(seconds=180))
    assert event["lastTimestamp"] == format_time(now() - timedelta(seconds=60))


async def test_repetitions_become_a_series(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    for _ in range(4):
        made.event(subject, "Normal", "Tick", "again")
        await asyncio.sleep(1)
    await made.flush()
    (event,) = await events(client)
    assert event["series"]["count"] == 4


async def test_deleted_event_is_created_again(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    made.event(subject, "Normal", "Tick", "again")
    await made.flush()
    (event,) = await events(client)
    await client.delete(EVENTS, event["metadata"]["name"], namespace="default")
    made.event(subject, "Normal", "Tick", "again")
    await made.flush()
    (event,) = await events(client)
    assert "series" not in event or event["series"] is None


async def test_similar_events_are_aggregated(client: Client, subject: ConfigMap) -> None:
    made = recorder(client, "v1")
    for n in range(20):
        made.event(subject, "Normal", "Tick", f"number {n}")
    await made.flush()
    found = await events(client, CORE)
    assert len(found) == 10
    (aggregate,) = [each for each in found if each["message"].startswith("(combined from similar events)")]
    assert aggregate["count"] == 11
    assert aggregate["message"] == "(combined from similar events): number 19"


async def test_aggregation_ends_after_the_interval(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    for n in range(12):
        made.event(subject, "Normal", "Tick", f"number {n}")
    await asyncio.sleep(601)
    made.event(subject, "Normal", "Tick", "fresh")
    await made.flush()
    assert "fresh" in [each["note"] for each in await events(client)]


async def test_spam_filter_burst_and_rate(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)

    async def sent() -> int:
        await made.flush()
        return len(await events(client))

    for n in range(40):
        made.event(subject, "Normal", f"Reason{n}", "x")
    assert await sent() == 25
    await asyncio.sleep(299)
    made.event(subject, "Normal", "Early", "x")
    assert await sent() == 25
    await asyncio.sleep(301)
    made.event(subject, "Normal", "Later", "x")
    assert await sent() == 26
    other = await client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
    made.event(other, "Normal", "Other", "x")
    assert await sent() == 27


async def test_simultaneous_events_have_unique_names(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    for n in range(9):
        made.event(subject, "Normal", f"Reason{n}", "x")
    await made.flush()
    assert len(await events(client)) == 9


async def test_recorders_with_events_at_the_same_time(client: Client, subject: ConfigMap) -> None:
    first, second = recorder(client), recorder(client)
    for each, reason in ((first, "First"), (second, "Second")):
        each.event(subject, "Normal", reason, "x")
        await each.flush()
    assert {each["reason"] for each in await events(client)} == {"First", "Second"}


async def test_long_messages_are_truncated(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    made.event(subject, "Normal", "Long", "x" * 5000)
    await made.flush()
    (event,) = await events(client)
    assert len(event["note"]) == 1024
    assert event["note"].endswith("...")


async def test_recording_does_not_block_on_an_unreachable_server(
    client: Client, subject: ConfigMap, running: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    away = asyncio.Event()

    async def network(call: APIRequest, proceed: CallNext) -> Any:
        if not away.is_set():
            await away.wait()
            raise ConnectionFailed("connection refused", sent=False)
        return await proceed(call)

    made = recorder(client.with_interceptor(network))
    async with running(made):
        for n in range(QUEUE_LENGTH + 100):
            obj = ConfigMap(metadata=ObjectMeta(name=f"o{n}", namespace="default", uid=str(n)))
            made.event(obj, "Normal", "Tick", "x")
        assert len(made._queue) == QUEUE_LENGTH
        await asyncio.sleep(1)
        away.set()
    (dropped,) = [each for each in caplog.records if each.getMessage().startswith("dropped events")]
    assert dropped.count in (100, 101)
    assert any(getattr(each, "error", "") == "connection refused" for each in caplog.records)
    assert len(await events(client)) >= QUEUE_LENGTH - 1


async def test_a_slow_server_delays_neither_reconciles_nor_the_stop(
    client: Client, running: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[APIRequest] = []

    async def network(call: APIRequest, proceed: CallNext) -> Any:
        if "events" in call.path:
            sent.append(call)
            await asyncio.sleep(30)
        return await proceed(call)

    slow = client.with_interceptor(network)
    made = recorder(slow)
    loop = asyncio.get_running_loop()
    reconciled: list[str] = []

    async def reconcile(name: str) -> None:
        obj = await slow.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        for n in range(8):
            made.event(obj, "Normal", "Tick", f"number {n}")
        reconciled.append(name)

    controller = Controller("slow", reconcile, workers=2, register_metrics=False)
    async with running(made), running(controller):
        await controller.wait_ready()
        assert controller.queue is not None
        started = loop.time()
        for number in range(QUEUE_LENGTH // 4):
            controller.queue.add(f"o{number}")
        await controller.queue.wait_until_idle()
        assert loop.time() == started
        assert len(reconciled) == QUEUE_LENGTH // 4
        assert len(made._queue) == QUEUE_LENGTH
        await asyncio.sleep(100)
        assert len(sent) == 4, "one request at a time"
        stopping = loop.time()
    assert loop.time() - stopping == STOP_SECONDS
    dropped = {
        each.getMessage(): vars(each)["count"] for each in caplog.records if "dropped" in each.getMessage()
    }
    assert dropped == {
        "dropped events, the queue was full": QUEUE_LENGTH - 1,
        "dropped events, the API server is too slow": QUEUE_LENGTH + 1 - 3,
    }


async def test_long_messages_do_not_stay_in_memory(client: Client) -> None:
    made = recorder(client)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(200):
            obj = ConfigMap(metadata=ObjectMeta(name=f"o{n}", namespace="default", uid=str(n)))
            for each in range(12):
                made.event(obj, "Warning", "Failed", f"{'x' * 50_000} {each}")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    events_queued = 200 * AGGREGATE_AFTER
    assert after - before < min(events_queued, QUEUE_LENGTH) * 4 * MESSAGE_LENGTH
    assert len(made.recent[-1].message) == MESSAGE_LENGTH


async def test_threads_may_record_events(
    client: Client, subject: ConfigMap, running: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    made = recorder(client)
    async with running(made):
        await asyncio.sleep(1)
        await asyncio.to_thread(made.event, subject, "Normal", "FromThread", "x")

        async def arrived() -> bool:
            return [each["reason"] for each in await events(client)] == ["FromThread"]

        await eventually(arrived)


async def test_recent_events(client: Client, subject: ConfigMap) -> None:
    made = recorder(client)
    made.event(subject, "Warning", "Failed", "no disk")
    assert [(event.about.name, event.reason) for event in made.recent] == [("a", "Failed")]
