"""Priority and fairness of a control plane: seats and queues by FlowSchema and priority level."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy

import pytest

from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane

LEVEL = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "batch"},
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 1,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": 4, "handSize": 1, "queueLengthLimit": 1},
            },
        },
    },
}
SCHEMA = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": "batch"},
    "spec": {
        "priorityLevelConfiguration": {"name": "batch"},
        "matchingPrecedence": 100,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/slow"]}],
            }
        ],
    },
}


class SlowPath:
    """A path whose requests are processed until `release` is set."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.release = asyncio.Event()
        self.processed: list[str] = []
        plane.server.add_prefix_handler("/slow", self._serve)

    async def _serve(self, request: HTTPRequest) -> HTTPResponse:
        self.processed.append(request.user.name)
        await self.release.wait()
        return HTTPResponse(200)

    def get(self, user: str, *groups: str) -> asyncio.Task[HTTPResponse]:
        request = HTTPRequest("GET", "/slow", user=User(user, ("system:authenticated", *groups)))
        return asyncio.create_task(self.plane.server.handle(request))


@pytest.fixture
async def slow() -> AsyncIterator[SlowPath]:
    # The share of one in about 246 of 400 seats is two, rounded up.
    options = {"max_in_flight": 300, "max_mutating_in_flight": 100}
    async with ControlPlane(port=None, auth="always-allow", server_options=options) as plane:
        client = plane.client()
        await client.create(deepcopy(LEVEL))
        await client.create(deepcopy(SCHEMA))
        await plane.wait_until_idle()
        yield SlowPath(plane)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_seats_queues_and_rejection(slow: SlowPath) -> None:
    first = [slow.get("ada"), slow.get("ada")]
    await settle()
    assert slow.processed == ["ada", "ada"]
    waiting = [slow.get("ada"), slow.get("bob")]
    await settle()
    assert slow.processed == ["ada", "ada"], "both seats are occupied"
    rejected = await slow.get("ada")
    assert rejected.status == 429
    assert rejected.headers["Retry-After"] == "1"
    admin = slow.get("admin", MASTERS)
    await settle()
    assert slow.processed[-1] == "admin", "administrators need no seat"
    metrics = (
        await slow.plane.server.handle(HTTPRequest("GET", "/metrics", user=User("x", (MASTERS,))))
    ).body
    labels = 'flow_schema="batch",priority_level="batch"'
    for line in (
        'nominal_limit_seats{priority_level="batch"} 2.0',
        'lower_limit_seats{priority_level="batch"} 2.0',
        'upper_limit_seats{priority_level="batch"} 2.0',
        'current_limit_seats{priority_level="batch"} 2.0',
        f"current_executing_requests{{{labels}}} 2.0",
        f"current_executing_seats{{{labels}}} 2.0",
        f"current_inqueue_requests{{{labels}}} 2.0",
        f"current_inqueue_seats{{{labels}}} 2.0",
        f"dispatched_requests_total{{{labels}}} 2.0",
        f'rejected_requests_total{{{labels},reason="queue-full"}} 1.0',
        'work_estimated_seats_bucket{flow_schema="batch",le="1",priority_level="batch"} 5.0',
        f"request_queue_length_after_enqueue_count{{{labels}}} 4.0",
        f'request_wait_duration_seconds_count{{execute="true",{labels}}} 2.0',
    ):
        assert f"apiserver_flowcontrol_{line}\n" in metrics.decode()
    slow.release.set()
    responses = await asyncio.gather(*first, *waiting, admin)
    assert [response.status for response in responses] == [200] * 5
    level = await slow.plane.client().get("PriorityLevelConfiguration", "batch")
    assert responses[0].headers["X-Kubernetes-PF-PriorityLevel-UID"] == level["metadata"]["uid"]


async def test_levels_can_be_changed(slow: SlowPath) -> None:
    tasks = [slow.get("ada") for _ in range(3)]
    await settle()
    assert len(slow.processed) == 2
    client = slow.plane.client()
    level = await client.get("PriorityLevelConfiguration", "batch")
    level["spec"]["limited"]["nominalConcurrencyShares"] = 100
    await client.update(level)
    await slow.plane.wait_until_idle()
    assert len(slow.processed) == 3, "a waiting request gets a new seat"
    slow.release.set()
    await asyncio.gather(*tasks)
