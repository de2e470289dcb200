"""An operator survives servers that return wrong objects or lose their history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.cache.informers import own_writes as own_writes_module
from kubewright.client import APIRequest, APIResponse, CallNext, Client, ResponseStream, merge_patch
from kubewright.controller.failures import WorkerStopped
from kubewright.controlplane import ControlPlane
from kubewright.manager import Context, Operator
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing import run_operator

HUGE = "9000000000000000000"


class CrateSpec(Spec):
    size: int = 1


class CrateStatus(Status):
    size: int = 0


@resource(group="faults.example.com", version="v1")
class Crate(CustomResource[CrateSpec, CrateStatus]):
    """A crate."""


def make_operator() -> Operator:
    operator = Operator("crates")
    operator.settings.leader_election = False
    operator.settings.probe_port = operator.settings.metrics_port = None

    @operator.reconcile(Crate)
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
        crate.status = CrateStatus(size=crate.spec.size)
        await ctx.update_status()

    return operator


def crate(name: str, size: int) -> Crate:
    return Crate(metadata=ObjectMeta(name=name, namespace="default"), spec=CrateSpec(size=size))


async def is_reconciled(client: Client, name: str, size: int) -> bool:
    found = await client.get(Crate, name, namespace="default")
    return found.status is not None and found.status.size == size


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(port=None, server_options={"freshness_timeout": 0.05}) as made:
        yield made


class WrongResponses:
    """An interceptor that changes the responses of patches while `change` is set."""

    change: Callable[[dict[str, Any]], None] | None = None
    changed = 0

    async def __call__(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        response = await proceed(call)
        if self.change is not None and call.method == "PATCH" and isinstance(response, APIResponse):
            body = json.loads(response.body)
            self.change(body)
            self.changed += 1
            return APIResponse(response.status, response.headers, json.dumps(body).encode())
        return response


def other_object(body: dict[str, Any]) -> None:
    body["metadata"] |= {"name": "foreign", "uid": "1", "resourceVersion": HUGE}


def other_kind(body: dict[str, Any]) -> None:
    body["kind"] = "Foreign"
    body["metadata"]["resourceVersion"] = HUGE


def huge_version(body: dict[str, Any]) -> None:
    body["metadata"]["resourceVersion"] = HUGE


@pytest.mark.parametrize("change", [other_object, other_kind, huge_version])
async def test_wrong_response_to_a_write(
    plane: ControlPlane, change: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_writes_module, "UNDELIVERED_SECONDS", 0.05)
    client = Client.from_transport(InProcessTransport(plane.server))
    wrong = WrongResponses()
    await install_definitions(client, [Crate])
    async with run_operator(make_operator(), client.with_interceptor(wrong)) as manager:
        wrong.change = change
        await client.create(crate("a", 1))
        await eventually(lambda: is_reconciled(client, "a", 1))

        async def has_changed() -> bool:
            return wrong.changed > 0

        await eventually(has_changed)
        wrong.change = None
        await asyncio.sleep(0.1)
        sizes = iter(range(2, 10_000))

        async def changes_are_reconciled() -> bool:
            size = next(sizes)
            await client.patch(Crate, "a", merge_patch({"spec": {"size": size}}), namespace="default")
            await asyncio.sleep(0.05 * size)  # longer each time: the machine may be busy
            found = await client.get(Crate, "a", namespace="default")
            return found.status is not None and found.status.size == found.spec.size

        await eventually(changes_are_reconciled)
        names = [each.name for each in await manager.client.list(Crate, namespace="default")]
        assert names == ["a"], "the foreign object is not in the cache"


class Switch(InProcessTransport):
    """A transport whose server can be replaced."""


async def test_restored_older_database(plane: ControlPlane) -> None:
    """After the server was replaced by one with older objects and lower resource versions."""
    async with ControlPlane(port=None, server_options={"freshness_timeout": 0.05}) as restored:
        old = Client.from_transport(InProcessTransport(plane.server))
        new = Client.from_transport(InProcessTransport(restored.server))
        for each in (old, new):
            await install_definitions(each, [Crate])
            await each.create(crate("a", 1))
        switch = Switch(plane.server)
        async with run_operator(make_operator(), Client.from_transport(switch), development=False) as manager:
            await old.create(crate("lost", 1))
            for size in range(2, 60):
                await old.patch(Crate, "a", merge_patch({"spec": {"size": size}}), namespace="default")
            await eventually(lambda: is_reconciled(old, "a", 59))
            newest = int((await old.get(Crate, "a", namespace="default")).metadata.resource_version or "0")
            assert newest > await restored.storage.revision()
            switch.server = restored.server
            await plane.server.stop(1.0)
            await eventually(lambda: is_reconciled(new, "a", 1))
            await new.patch(Crate, "a", merge_patch({"spec": {"size": 3}}), namespace="default")
            await eventually(lambda: is_reconciled(new, "a", 3))

            async def is_forgotten() -> bool:
                return [each.name for each in await manager.client.list(Crate, namespace="default")] == ["a"]

            await eventually(is_forgotten)


async def test_liveness_fails_when_a_worker_is_dead(plane: ControlPlane) -> None:
    client = Client.from_transport(InProcessTransport(plane.server))
    operator = Operator("crates")
    operator.settings.leader_election = False
    operator.settings.probe_port = operator.settings.metrics_port = None
    busy = asyncio.Event()
    release = asyncio.Event()

    @operator.reconcile(Crate, workers=2)
    async def reconcile(crate: Crate) -> None:
        busy.set()
        await release.wait()

    await install_definitions(client, [Crate])
    await client.create(crate("a", 1))
    with suppress(WorkerStopped):
        async with run_operator(operator, client) as manager:
            await busy.wait()
            assert (await operator.probes.handle("/healthz"))[0] == 200
            (controller,) = [each for each in manager.runnables if getattr(each, "name", "") == "crate"]
            workers = [task for task in asyncio.all_tasks() if task.get_name().startswith("crate-")]
            idle = next(task for task in workers if task.get_name() == "crate-1")
            controller._stopping = True  # type: ignore[attr-defined]
            idle.cancel()
            await asyncio.wait([idle])
            status, text = await operator.probes.handle("/healthz")
            assert status == 500
            assert "[-]workers failed" in text
            release.set()
