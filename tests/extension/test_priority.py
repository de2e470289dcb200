"""Priority and fairness of an app with the FlowSchemas of its cluster, and limits of requests in flight."""

from __future__ import annotations

import asyncio

import pytest

from kubewright import APIServerApp, Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.api.errors import TooManyRequests
from kubewright.apiserver import User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.controlplane.priority.flow_classifier import priority_levels
from kubewright.testing import RunningApp

pytestmark = pytest.mark.control_plane(controllers=False)

LEVEL = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "slow"},
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 1,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
}
SCHEMA = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": "slow"},
    "spec": {
        "priorityLevelConfiguration": {"name": "slow"},
        "matchingPrecedence": 100,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "batch"}}],
                "resourceRules": [
                    {
                        "verbs": ["*"],
                        "apiGroups": ["*"],
                        "resources": ["*"],
                        "namespaces": ["*"],
                        "clusterScope": True,
                    }
                ],
            }
        ],
    },
}


@resource(group="tasks.example.com", version="v1")
class Task(CustomResource[Spec, None]):
    """A task, whose subresource waits."""


async def test_requests_of_a_level_are_limited(client: Client, running_app: RunningApp) -> None:
    app = APIServerApp("tasks")
    app.add(Task)
    started, finish = asyncio.Event(), asyncio.Event()

    @app.subresource(Task, "wait")
    async def wait(task: Task) -> dict[str, object]:
        started.set()
        await finish.wait()
        return {"kind": "Done"}

    @app.authorize
    def allow(attributes: object) -> bool:
        return True

    await client.create(LEVEL)
    await client.create(SCHEMA)
    running = await running_app(app, max_requests_in_flight=20, max_mutating_requests_in_flight=5)
    await client.create(Task(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec()))

    def of(name: str) -> Client:
        return Client.from_transport(
            InProcessTransport(running.server, User(name, ("system:authenticated",)))
        )

    control = running.server.flow_control
    assert control is not None
    assert control.occupied("slow") == 0
    waiting = asyncio.create_task(of("batch").subresource("wait", Task, "a", namespace="default").get())
    await started.wait()
    assert control.occupied("slow") == 1  # 1 of 25 seats, by shares
    response = await of("batch").rest.transport.send("GET", "/apis/tasks.example.com/v1/tasks")
    assert (response.status, response.headers["Retry-After"]) == (429, "1")
    labels = 'flow_schema="slow",priority_level="slow",reason="concurrency-limit"'
    rejected = f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} 1.0\n"
    assert rejected in running.server.metrics.render().decode()
    assert len(await of("ada").list(Task)) == 1  # another level
    await client.delete({**SCHEMA})  # without the schema, requests of the user have another level
    async with asyncio.timeout(60):
        while (
            await of("batch").rest.transport.send("GET", "/apis/tasks.example.com/v1/tasks")
        ).status == 429:
            await asyncio.sleep(0.02)
    finish.set()
    await waiting


async def test_without_priority_the_limits_per_user_apply(client: Client, running_app: RunningApp) -> None:
    app = APIServerApp("tasks")
    app.add(Task)
    running = await running_app(app, priority=False, max_requests_in_flight=7)
    assert running.server.flow_control is None
    assert running.server.max_in_flight == 7
    assert TooManyRequests.code == 429


def test_seats_follow_from_shares() -> None:
    def level(name: str, shares: int | None) -> dict[str, object]:
        limited = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Queue"}}
        return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}

    exempt = {"metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}}
    levels = priority_levels([level("a", 10), level("b", None), level("none", 0), exempt], 100)
    assert {name: each.seats for name, each in levels.items()} == {"exempt": 0, "a": 25, "b": 75, "none": 0}
    assert levels["exempt"].exempt
    assert levels["a"].queue_length == 50 * 8, "the queues of a hand"
