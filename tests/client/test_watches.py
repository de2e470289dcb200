"""Watch and wait."""

from __future__ import annotations

import asyncio

import pytest

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client, condition, exists, field_is, is_deleted, metadata_of, retry_on_conflict


def config_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name}), data=data)


async def test_watch_yields_typed_events_in_order(client: Client, namespace: str) -> None:
    made = await client.create(config_map("a", namespace, n="0"))
    seen = []
    async with client.watch(ConfigMap, name="a", namespace=namespace) as events:
        async for event in events:
            seen.append((event.type, (event.object.data or {}).get("n")))
            if event.type == "DELETED":
                break
            if len(seen) < 3:
                made.data = {"n": str(len(seen))}
                await client.update(made)
            else:
                await client.delete(made)
    assert seen == [("ADDED", "0"), ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_watch_starts_from_resource_version(client: Client, namespace: str) -> None:
    listed = await client.list(metadata_of(ConfigMap), namespace=namespace)
    await client.create(config_map("later", namespace))
    async with client.watch(
        metadata_of(ConfigMap), namespace=namespace, resource_version=listed.resource_version
    ) as events:
        event = await anext(events)
        assert (event.type, event.object.metadata.name, event.object.kind) == ("ADDED", "later", "ConfigMap")
        assert events.resource_version == event.object.metadata.resource_version


async def test_raw_list_and_watch(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, n="0"))
    page = await client.list_raw(ConfigMap, namespace=namespace, labels="app=a")
    assert page.kind == "ConfigMap"
    assert b'"n":"0"' in bytes(page.items[0])
    async with await client.watch_raw(
        ConfigMap, namespace=namespace, resource_version=page.resource_version
    ) as watch:
        made = await client.create(config_map("b", namespace))
        async for event in watch:
            assert event.header.metadata.name == "b"
            assert b'"kind":"ConfigMap"' in event.raw
            assert watch.resource_version == made.metadata.resource_version
            break


async def test_wait_uses_a_watch(client: Client, namespace: str) -> None:
    waiting = asyncio.create_task(
        client.wait(
            ConfigMap,
            "a",
            namespace=namespace,
            until=lambda each: each is not None and each.data == {"go": "yes"},
        )
    )
    made = await client.create(config_map("a", namespace))
    made.data = {"go": "yes"}
    await client.update(made)
    found = await waiting
    assert found is not None
    assert found.metadata.resource_version == made.metadata.resource_version
    gone = asyncio.create_task(client.wait(made, until=is_deleted))
    await client.delete(made)
    assert await gone is None


async def test_wait_timeout_reports_last_state(client: Client, namespace: str) -> None:
    with pytest.raises(TimeoutError, match=f"exists of configmaps {namespace}/a, which does not exist"):
        await client.wait(ConfigMap, "a", namespace=namespace, until=exists, timeout=0.05)


def test_predicates() -> None:
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    old = Unstructured({"metadata": {"generation": 2}, "status": {"conditions": [ready], "phase": "Running"}})
    assert not condition("Ready")(old)
    assert not condition("Ready")(None)
    ready["observedGeneration"] = 2
    assert condition("Ready")(old)
    assert not condition("Ready", "False")(old)
    assert field_is(".status.phase", "Running")(old)
    assert not field_is(".status.none", 1)(old)


async def test_retry_on_conflict(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, n="0"))

    async def increment() -> None:
        async def attempt() -> None:
            found = await client.get(ConfigMap, "a", namespace=namespace)
            assert found.data is not None
            found.data["n"] = str(int(found.data["n"]) + 1)
            await asyncio.sleep(0)
            await client.update(found)

        await retry_on_conflict(attempt, attempts=20, delay=0.001)

    await asyncio.gather(*(increment() for _ in range(5)))
    assert (await client.get(ConfigMap, "a", namespace=namespace)).data == {"n": "5"}
