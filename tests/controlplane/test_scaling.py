"""Cost per write does not depend on the number of objects: storage reads are counted, not seconds.

The clock is simulated: controllers that read objects again after a delay do not do so during the requests.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.storage import MemoryStorage
from kubewright.storage.contract import KeyValue, Page
from kubewright.testing.time import fake_time

NAMESPACES = "/api/v1/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]


def with_fake_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test with a simulated clock."""

    @functools.wraps(test)
    def run() -> None:
        fake_time(test())

    return run


class CountingStorage(MemoryStorage):
    """Counts reads: `lists` and the `listed` items by prefix, and `gets`."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Start counting from zero."""
        self.lists: Counter[str] = Counter()
        self.listed: Counter[str] = Counter()
        self.gets = 0

    async def get(self, key: str) -> KeyValue | None:
        """Read one object."""
        self.gets += 1
        return await super().get(key)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        """Read a range."""
        page = await super().list(prefix, start=start, limit=limit, revision=revision)
        self.lists[prefix] += 1
        self.listed[prefix] += len(page.items)
        return page


async def send(plane: ControlPlane, method: str, path: str, body: Object) -> None:
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Content-Type": media, "User-Agent": "test"}
    data = json.dumps(body).encode()
    response = await plane.server.handle(HTTPRequest(method, path, headers=headers, body=data, user=SYSTEM))
    assert response.status in (200, 201), response.body


async def create_namespaces(plane: ControlPlane, first: int, last: int) -> None:
    for number in range(first, last):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}}
        await send(plane, "POST", NAMESPACES, body)


def definition(number: int) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": f"things{number}", "kind": f"Thing{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things{number}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@with_fake_time
async def test_annotating_a_namespace_does_not_make_creates_read_namespaces() -> None:
    storage = CountingStorage()
    async with ControlPlane(port=None, store=storage) as plane:
        await create_namespaces(plane, 0, 200)
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        hard = {"spec": {"hard": {"count/configmaps": "1000"}}}
        await send(plane, "POST", f"{NAMESPACES}/n1/resourcequotas", {**quota, **hard})
        await plane.wait_until_idle()
        storage.reset()
        for turn in range(50):
            await send(plane, "PATCH", f"{NAMESPACES}/n0", {"metadata": {"annotations": {"turn": str(turn)}}})
            for namespace in ("n1", "n2", "n3"):
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{turn}"}}
                await send(plane, "POST", f"{NAMESPACES}/{namespace}/configmaps", body)
        assert {prefix for prefix in storage.lists if "/resourcequotas/" not in prefix} == set()
        assert sum(storage.listed.values()) <= 50 * 2
        assert storage.gets < 50 * 4 * 4


@with_fake_time
async def test_creating_namespaces_reads_a_constant_number_of_objects() -> None:
    storage = CountingStorage()
    async with ControlPlane(port=None, store=storage) as plane:
        await create_namespaces(plane, 0, 100)
        await plane.wait_until_idle()
        reads = []
        for first in (100, 1900):
            await create_namespaces(plane, 100 if first == 100 else 200, first)
            await plane.wait_until_idle()
            storage.reset()
            await create_namespaces(plane, first, first + 100)
            await plane.wait_until_idle()
            reads.append((sum(storage.listed.values()), storage.gets))
        (listed_few, gets_few), (listed_many, gets_many) = reads
        assert listed_many <= listed_few + 100
        assert gets_many <= gets_few * 1.5 + 100


async def calls_of(work: Awaitable[None]) -> int:
    """Return the number of function calls that some work makes."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(trace)
    try:
        await work
    finally:
        sys.setprofile(None)
    return count


async def create_definitions(plane: ControlPlane, first: int, last: int) -> None:
    for number in range(first, last):
        await send(plane, "POST", CRDS, definition(number))
    await plane.wait_until_idle()


@with_fake_time
async def test_creating_definitions_makes_a_constant_number_of_calls() -> None:
    async with ControlPlane(port=None) as plane:
        await create_definitions(plane, 0, 50)
        few = await calls_of(create_definitions(plane, 50, 60))
        await create_definitions(plane, 60, 400)
        many = await calls_of(create_definitions(plane, 400, 410))
        assert many < few * 1.5


@with_fake_time
async def test_creating_definitions_reads_a_constant_number_of_objects() -> None:
    storage = CountingStorage()
    async with ControlPlane(port=None, store=storage) as plane:
        reads = []
        for first, last in ((0, 50), (50, 450), (450, 500)):
            storage.reset()
            await create_definitions(plane, first, last)
            reads.append((sum(storage.listed.values()), storage.gets))
        (listed_few, gets_few), _, (listed_many, gets_many) = reads
        assert listed_many <= listed_few + 50
        assert gets_many <= gets_few * 1.5 + 50
