"""Ready-made invariants on states of a control plane: each holds for a correct history, and fails else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.client import Client
from kubewright.client.patches import merge_patch
from kubewright.explore import (
    ClusterState,
    Invariant,
    RequestRecord,
    StateRecorder,
    always,
    at_end,
    at_most_writes,
    finalizers_removed,
    no_duplicate_children,
    no_orphans,
    no_unchanged_writes,
    observed_generation_current,
    one_controller,
    permissions_declared,
    secrets_keep_values,
    stable_after_convergence,
)
from kubewright.testing import fake_time, start_test_server

Snapshot = Callable[[], Awaitable[ClusterState]]


def states(write: Callable[[Client, Snapshot], Awaitable[None]]) -> list[ClusterState]:
    """Run writes on a control plane without a garbage collector; return the states that were recorded."""
    found: list[ClusterState] = []

    async def run() -> None:
        async with start_test_server("in-process", disable_controllers=["*"]) as server:
            recorder = StateRecorder()
            storage, prefix = server.plane.storage, server.plane.server.prefix
            await recorder.read(storage, prefix)
            recorder.start()

            async def snapshot() -> ClusterState:
                await recorder.read(storage, prefix)
                found.append(recorder.snapshot(time=asyncio.get_running_loop().time()))
                return found[-1]

            await write(server.client(), snapshot)

    fake_time(run())
    return found


def child(
    name: str, owner: Any, *, kind: type[Any] = ConfigMap, controller: bool = True, **fields: Any
) -> Any:
    reference = OwnerReference(
        api_version="v1",
        kind="ConfigMap",
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=controller,
    )
    metadata = ObjectMeta(
        name=name, namespace="default", owner_references=[reference], labels={"key": name[0]}
    )
    return kind(metadata=metadata, **fields)


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


def problems(invariant: Invariant, found: list[ClusterState]) -> list[list[str]]:
    return [invariant.problems(state) for state in found]


def test_owner_graph_and_history() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        owner = await client.create(config_map("owner"))
        await snapshot()
        await client.create(child("one", owner, data={"a": "1"}))
        await snapshot()
        await client.patch(ConfigMap, "one", merge_patch({"data": {"a": "2"}}))
        await snapshot()
        await client.delete(ConfigMap, "one")
        await snapshot()

    first, second, third, fourth = states(write)
    assert [str(each) for each in first] == ["ConfigMap default/owner"]
    assert len(first.baseline) > 100
    owner = third.get("ConfigMap", "owner", namespace="default")
    assert owner is not None
    (one,) = third.children_of(owner)
    assert third.owners_of(one) == [owner]
    assert third.roots() == [owner]
    assert [each.get("data", "a") for each in (one, *third.history(one))] == ["2", "1"]
    assert third.changed() == [one]
    assert fourth.deleted() == [one]
    assert [str(each) for each in fourth.changed(since=first)] == []
    assert second.objects[owner.storage_key] is third.objects[owner.storage_key]


def test_no_orphans() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        owner = await client.create(config_map("owner"))
        await client.create(child("one", owner))
        await snapshot()
        await client.delete(ConfigMap, "owner")
        await snapshot()

    found = states(write)
    message = "ConfigMap default/one is an orphan: its owner ConfigMap owner does not exist"
    assert problems(no_orphans(), found) == [[], [message]]
    assert problems(no_orphans(ConfigMap), found) == [["ConfigMap default/owner has no owner"], [message]]


def test_one_controller() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        first = await client.create(config_map("first"))
        second = await client.create(config_map("second"))
        await client.create(child("one", first))
        await snapshot()
        references = child("one", second).metadata.owner_references
        found = await client.get(ConfigMap, "one")
        found.metadata.owner_references = references
        await client.update(found)
        await snapshot()

    assert problems(one_controller(), states(write)) == [
        [],
        ["the controller of ConfigMap default/one changed from one owner to another"],
    ]


def test_no_duplicate_children() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        owner = await client.create(config_map("owner"))
        await client.create(child("a-1", owner))
        await client.create(child("b-1", owner))
        await snapshot()
        await client.create(child("a-2", owner))
        await snapshot()

    found = states(write)
    assert problems(no_duplicate_children("ConfigMap", key="key"), found) == [
        [],
        ["ConfigMap default/a-1 and ConfigMap default/a-2 are duplicate children for key 'a'"],
    ]
    assert [len(each) for each in problems(no_duplicate_children(ConfigMap), found)] == [1, 2]


def test_secrets_keep_values() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        owner = await client.create(config_map("owner"))
        for value in (b"1", b"1", b"2"):
            await client.create(child("one", owner, kind=Secret, data={"password": value}))
            await snapshot()
            await client.delete(Secret, "one")
            await snapshot()
        other = await client.create(config_map("other"))
        await client.create(child("one", other, kind=Secret, data={"password": b"3"}))
        await snapshot()

    found = [each for each in problems(secrets_keep_values(), states(write)) if each]
    assert found == [["Secret default/one was created again with a new value of password"]]


def test_finalizers_and_observed_generation() -> None:
    async def write(client: Client, snapshot: Snapshot) -> None:
        from kubewright.api.apps.v1 import Deployment

        await client.apply(DEPLOYMENT, field_manager="test")
        await client.create(
            ConfigMap(metadata=ObjectMeta(name="a", namespace="default", finalizers=["example.com/a"]))
        )
        await snapshot()
        await client.patch(
            Deployment, "web", merge_patch({"status": {"observedGeneration": 7}}), subresource="status"
        )
        await client.delete(ConfigMap, "a")
        await snapshot()

    found = states(write)
    assert problems(finalizers_removed(), found) == [
        [],
        ["ConfigMap default/a is being deleted and still has the finalizers example.com/a"],
    ]
    assert problems(observed_generation_current(), found) == [
        [],
        ["Deployment.apps default/web: status.observedGeneration is 7, the generation is 1"],
    ]
    assert problems(observed_generation_current("Deployment"), found)[0] == [
        "Deployment.apps default/web: status.observedGeneration is None, the generation is 1"
    ]


def test_requests() -> None:
    recorder = StateRecorder(
        declared=[Rbac(groups=("",), resources=("configmaps",), verbs=("get", "update"))]
    )

    def request(verb: str, **fields: Any) -> ClusterState:
        number = len(recorder.requests)
        recorder.requests.append(
            RequestRecord(
                number=number,
                time=0.0,
                actor="operator",
                verb=verb,
                resource="configmaps",
                code=200,
                **fields,
            )
        )
        return recorder.snapshot(time=0.0)

    found = [
        request("get"),
        request("update"),
        request("update", is_changed=False, name="a"),
        request("create"),
    ]
    assert problems(at_most_writes(2), found) == [
        [],
        [],
        [],
        ["the operator sent 3 writes (allowed: 2); the last one: create configmaps"],
    ]
    assert problems(no_unchanged_writes(), found)[1:3] == [
        [],
        ["1 writes changed nothing (allowed: 0); the last one: update configmaps a"],
    ]
    assert problems(no_unchanged_writes(1), found) == [[], [], [], []]
    assert problems(permissions_declared(), found) == [[], [], [], ["no rule allows: create configmaps"]]
    allowed = permissions_declared(Rbac(groups=("",), resources=("*",), verbs=("*",)))
    assert problems(allowed, found) == [[], [], [], []]


def test_stable_after_convergence() -> None:
    recorder = StateRecorder()
    recorder.put("/registry/configmaps/default/a", b'{"kind":"ConfigMap"}', create_revision=1, revision=1)
    assert stable_after_convergence().problems(recorder.snapshot(time=0)) == []
    recorder.mark_converged(time=1)
    assert stable_after_convergence().problems(recorder.snapshot(time=2)) == []
    recorder.put("/registry/leases/default/a", b"{}", create_revision=2, revision=2)
    assert stable_after_convergence().problems(recorder.snapshot(time=2)) == []
    recorder.delete("/registry/configmaps/default/a", revision=3)
    (problem,) = stable_after_convergence().problems(recorder.snapshot(time=3))
    assert problem.endswith("was deleted after the operator had converged")


def test_own_invariants() -> None:
    @always
    def is_small(state: ClusterState) -> bool:
        return len(state) < 1

    @at_end(name="empty")
    def is_empty(state: ClusterState) -> None:
        assert not len(state), "objects exist"

    recorder = StateRecorder()
    assert (is_small.name, is_small.when, is_empty.name, is_empty.when) == (
        "is_small",
        "always",
        "empty",
        "end",
    )
    assert is_small.problems(recorder.snapshot(time=0)) == is_empty.problems(recorder.snapshot(time=0)) == []
    recorder.put("/registry/configmaps/default/a", b"{}", create_revision=1, revision=1)
    assert is_small.problems(recorder.snapshot(time=0)) == ["does not hold"]
    assert is_empty.problems(recorder.snapshot(time=0))[0].splitlines()[0] == "objects exist"


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    },
}
