"""Memory does not grow with the number of objects that were created and deleted, only with those that exist.

The test counts what the objects and modules of Kubewright contain (dictionaries, lists, sets, queues, caches)
after rounds of churn, in simulated time, so that it depends neither on the allocator nor on the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import sys
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import pytest

from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.metrics import requests as request_metrics
from kubewright.apiserver.watch import cache as watch_cache
from kubewright.cache.informers import own_writes
from kubewright.client import Client
from kubewright.controlplane.controllers import garbage_collector
from kubewright.controlplane.priority import flow_classifier
from kubewright.manager import events as manager_events
from kubewright.patch import field_manager
from kubewright.testing.server import TestServer, start_test_server
from kubewright.testing.time import fake_time
from kubewright.workloads.nodes.registration import node_state

ROUNDS = 4
"""Rounds of churn between two measurements."""
SLACK = ROUNDS // 2
"""Growth that is not a leak, which would be at least one entry per round."""
HOUR = 3600.0
CONTAINERS = (dict, list, set, frozenset, deque)


def attributes(obj: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object, without calling properties."""
    for cls in type(obj).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            full = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            try:
                yield name, object.__getattribute__(obj, full)
            except AttributeError:
                continue
    try:
        yield from list(object.__getattribute__(obj, "__dict__").items())
    except AttributeError:
        return


def size(value: object, depth: int = 3) -> int:
    """Return the number of entries of a container, and of those in it."""
    if not isinstance(value, CONTAINERS):
        return 0
    inner: Any = list(value.values()) if isinstance(value, dict) else list(value)
    return len(inner) + (sum(size(each, depth - 1) for each in inner) if depth else 0)


def is_counted(module: str) -> bool:
    # The loop with simulated time removes cancelled timers only when there are many.
    return module.startswith("kubewright.") and not module.startswith("kubewright.testing.")


def entries() -> Counter[str]:
    """Return the number of entries by class and attribute, module and variable, and cached function.

    Caches of functions that have a maximum size are cleared, except for those with one entry, which are
    singletons such as registered metrics.
    """
    found: Counter[str] = Counter()
    for obj in gc.get_objects():
        if isinstance(obj, functools._lru_cache_wrapper) and is_counted(obj.__module__ or ""):
            if (limit := obj.cache_info().maxsize) is None:
                found[f"{obj.__module__}.{obj.__qualname__}()"] += obj.cache_info().currsize
            elif limit > 1:
                obj.cache_clear()
    gc.collect()
    for obj in gc.get_objects():
        cls = type(obj)
        if is_counted(str(cls.__module__)) and not isinstance(obj, type):
            found[f"{cls.__module__}.{cls.__qualname__}"] += 1
            for name, value in attributes(obj):
                found[f"{cls.__module__}.{cls.__qualname__}.{name}"] += size(value)
    for name, module in list(sys.modules.items()):
        if is_counted(name):
            for variable, value in list(vars(module).items()):
                if not variable.startswith("__"):
                    found[f"{name}:{variable}"] += size(value)
    return found


async def churn(client: Client, number: int) -> None:
    """Create and delete a namespace with objects of many kinds, whose names are used once."""
    namespace = f"churn-{number}"
    labels = {"app": f"app-{number}"}
    container = {"name": "app", "image": f"registry.example/app:{number}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    workload = {"selector": {"matchLabels": labels}, "template": template}
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    new = Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await client.create(new)
    for api_version, kind, fields in (
        ("v1", "ConfigMap", {"data": {f"key-{number}": "value"}}),
        ("v1", "Secret", {"stringData": {f"key-{number}": "value"}}),
        ("v1", "ServiceAccount", {}),
        ("v1", "Service", {"spec": {"selector": labels, "ports": [{"port": 80}]}}),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": [rule]}),
        ("apps/v1", "Deployment", {"spec": {"replicas": 2, **workload}}),
        ("apps/v1", "StatefulSet", {"spec": {"serviceName": "any", **workload}}),
        ("apps/v1", "DaemonSet", {"spec": workload}),
        ("batch/v1", "Job", {"spec": job}),
    ):
        metadata = {"name": f"{kind.lower()}-{number}", "namespace": namespace}
        obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        await client.create(Unstructured(obj))
    await asyncio.sleep(20)
    await client.delete("Namespace", namespace)
    await asyncio.sleep(40)


async def use_new_kind(client: Client, number: int) -> None:
    """Create and delete a kind with an object."""
    plural, group = f"kinds{number}", f"group-{number}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {
        "plural": plural,
        "kind": f"Kind{number}",
        "singular": f"kind{number}",
        "listKind": f"Kind{number}List",
    }
    definition = Unstructured(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
        }
    )
    await client.create(definition)
    await asyncio.sleep(5)
    obj = {"apiVersion": f"{group}/v1", "kind": f"Kind{number}", "metadata": {"name": "one"}}
    await client.create(Unstructured(obj))
    await asyncio.sleep(5)
    await client.delete(definition)
    await asyncio.sleep(5)


async def send_unusual_requests(server: TestServer, number: int) -> None:
    """Send requests whose user, user agent, path and verb no other request has, and open a watch."""
    name = f"user-{number}"
    headers = {
        "User-Agent": f"agent-{number}/1.0",
        "Impersonate-User": name,
        "Impersonate-Group": f"group-{number}",
    }
    for path in (f"/path-{number}", f"/apis/group-{number}/v1/things/{number}", "/api/v1/pods", "/version"):
        await server.transport.send("GET", path, headers=headers)
        await server.transport.send(f"VERB{number}", path, headers={"User-Agent": name})
    client = server.client(user_agent=name)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            async for _ in client.watch("ConfigMap", namespace=f"watched-{number}"):
                pass


LIMITS = {
    field_manager: {"_MAX_CACHED_SETS": 8},
    flow_classifier: {"_MAX_CACHED": 8},
    garbage_collector: {"MAX_DELETED": 8},
    manager_events: {"RECENT": 4},
    node_state: {"MAX_PULLED_IMAGES": 4, "MAX_ADDRESSES": 12},
    own_writes: {"MAX_UNSEEN_DELETIONS": 4, "_MAX_REVISIONS": 8},
    request_metrics: {"_MAX_SERIES": 8},
    watch_cache: {"WINDOW_LEAST": 4},
}
"""Limits that the test would not reach otherwise; a structure with a limit is full after the first rounds."""


async def measure(server: TestServer) -> list[Counter[str]]:
    """Return the entries after rounds of churn, twice as many, and three times as many."""
    measured = []
    client = server.client()
    for number in range(3 * ROUNDS):
        await churn(client, number)
        await use_new_kind(client, number)
        await send_unusual_requests(server, number)
        if number % ROUNDS == ROUNDS - 1:
            # Events, histories and caches expire.
            await asyncio.sleep(2 * HOUR)
            measured.append(entries())
    return measured


def test_churn_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limits in LIMITS.items():
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)

    # pytest keeps log records, and with them the frames of failed reconciles.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)

    async def scenario() -> list[Counter[str]]:
        async with start_test_server("in-process", nodes=1) as server:
            server.nodes.settings.lease_interval = 600.0
            return await measure(server)

    first, second, third = fake_time(scenario())
    grown = {
        name: (first[name], second[name], count)
        for name, count in third.items()
        if count > second[name] + SLACK and second[name] > first[name] + SLACK
    }
    assert not grown
