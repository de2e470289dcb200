"""Deleted objects leave no memory behind.

The long soak (`python -m bench.soak`) reads the memory of the process; this test counts objects in the
control plane.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from typing import Any

import pytest

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import start_test_server

ROUNDS = 8
BOUNDED = {"StorageEvent", "KeyValue", "WatchCacheEvent"}
"""History, which has limits of its own."""


def definition(turn: int, fields: int) -> Unstructured:
    spec = {
        "type": "object",
        "properties": {f"field{number}": {"type": "string"} for number in range(fields)},
    }
    spec["x-kubernetes-validations"] = [{"rule": "!has(self.field0) || self.field0.size() < 9"}]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "subresources": {"status": {}},
    }
    names = {"plural": f"rounds{turn}", "singular": f"round{turn}", "kind": f"Round{turn}"}
    return Unstructured(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"rounds{turn}.growth.example.com"},
            "spec": {
                "group": "growth.example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        }
    )


def webhooks(turn: int) -> Unstructured:
    hook = {
        "name": "unreachable.growth.example.com",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}],
        "clientConfig": {"url": "https://127.0.0.1:1/unreachable"},
        "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return Unstructured(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"growth-{turn}"},
            "webhooks": [hook],
        }
    )


async def come_and_go(plane: ControlPlane, client: Client, turn: int) -> None:
    """A namespace, a kind that changes while it is watched, its objects, and webhooks."""
    namespace = f"growth-{turn}"
    await client.create(
        Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    )
    await client.create(definition(turn, 1))
    await client.create(webhooks(turn))
    kind = GroupVersionKind("growth.example.com", "v1", f"Round{turn}")
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in client.watch(kind, namespace=namespace):
            seen.set()

    following = asyncio.create_task(follow())
    for fields in (1, 2):
        body = {"apiVersion": "growth.example.com/v1", "kind": kind.kind, "spec": {"field0": "x"}}
        await client.create(Unstructured(body | {"metadata": {"name": f"o{fields}", "namespace": namespace}}))
        await client.apply(definition(turn, 1 + fields), field_manager="growth", force=True)
    await asyncio.wait_for(seen.wait(), 60)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.delete("validatingwebhookconfigurations", f"growth-{turn}")
    await client.delete("customresourcedefinitions", f"rounds{turn}.growth.example.com")
    await client.delete("namespaces", namespace)
    await plane.wait_until_idle()


def held() -> Counter[str]:
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if kind.__name__ not in BOUNDED
        and str(kind.__module__).partition(".")[0] in ("kubewright", "_asyncio", "uvloop", "_ssl", "aiohttp")
    )


async def test_deleted_objects_leave_no_memory_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "kubewright")  # records of what failed open would be held, too
    async with start_test_server("tls") as server:
        client: Any = server.client()
        for turn in range(3):
            await come_and_go(server.plane, client, turn)
        before = held()
        for turn in range(ROUNDS):
            await come_and_go(server.plane, client, turn % 3)
        grown: dict[str, tuple[int, int]] = {}
        for _ in range(30):
            grown = {
                name: (before[name], count)
                for name, count in held().items()
                if count >= before[name] + ROUNDS
            }
            if not grown:
                break
            await asyncio.sleep(1)  # Connections and tasks of the last round may not have ended yet.
    assert not grown
