"""Scheduler extenders and audit webhooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.core.v1 import Node, Pod
from kubewright.webhook import (
    AuditSink,
    ExtenderBinding,
    InvalidReviewError,
    SchedulerExtender,
    SelfSignedCertificates,
    WebhookServer,
)

POD = {"metadata": {"name": "p", "labels": {"gpu": "yes"}}, "spec": {"containers": []}}
NODES = {"items": [{"metadata": {"name": n, "labels": {"gpu": g}}} for n, g in (("a", "yes"), ("b", "no"))]}


def same_label(pod: Pod, node: Node) -> bool | str:
    wanted = (pod.metadata.labels or {}).get("gpu")
    return (node.metadata.labels or {}).get("gpu") == wanted or "no gpu here"


async def test_filter_returns_nodes_and_reasons() -> None:
    extender = SchedulerExtender(filter=same_label)
    body = json.dumps({"Pod": POD, "Nodes": NODES, "NodeNames": None}).encode()
    response = json.loads(await extender.handle_filter(body))
    assert [node["metadata"]["name"] for node in response["Nodes"]["items"]] == ["a"]
    assert response["FailedNodes"] == {"b": "no gpu here"}
    assert response["Error"] == ""


async def test_node_names_in_request_and_response() -> None:
    extender = SchedulerExtender(filter=lambda pod, node: node != "b")
    response = json.loads(
        await extender.handle_filter(json.dumps({"Pod": POD, "NodeNames": ["a", "b"]}).encode())
    )
    assert response["NodeNames"] == ["a"]
    assert "Nodes" not in response


async def test_prioritize_scores_from_0_to_10() -> None:
    async def score(pod: Pod, node: str) -> int:
        return {"a": 10, "b": 0, "c": 11}[node]

    extender = SchedulerExtender(prioritize=score)
    body = json.dumps({"Pod": POD, "NodeNames": ["a", "b"]}).encode()
    assert json.loads(await extender.handle_prioritize(body)) == [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": 0},
    ]
    with pytest.raises(ValueError, match="node c: the score must be from 0 to 10, not 11"):
        await extender.handle_prioritize(json.dumps({"Pod": POD, "NodeNames": ["c"]}).encode())


async def test_bind_returns_the_error() -> None:
    bound: list[ExtenderBinding] = []

    def bind(binding: ExtenderBinding) -> None:
        if binding.node == "full":
            raise RuntimeError("no capacity")
        bound.append(binding)

    extender = SchedulerExtender(bind=bind)
    good = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "a"}
    assert json.loads(await extender.handle_bind(json.dumps(good).encode())) == {"Error": ""}
    assert bound == [ExtenderBinding("p", "d", "u", "a")]
    bad = json.dumps({**good, "Node": "full"}).encode()
    assert json.loads(await extender.handle_bind(bad)) == {"Error": "RuntimeError: no capacity"}


async def test_only_implemented_verbs_are_served() -> None:
    server = WebhookServer(SelfSignedCertificates(), port=0)
    SchedulerExtender(filter=same_label).add_to(server, "/scheduler/")
    assert server.paths == ["/scheduler/filter"]


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"Pod":{}}'])
async def test_other_bodies_are_rejected(body: bytes) -> None:
    with pytest.raises(InvalidReviewError):
        await SchedulerExtender(filter=same_label).handle_filter(body)


async def test_audit_batches_arrive_in_order() -> None:
    seen: list[Any] = []
    sink = AuditSink(seen.extend)
    batch = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "EventList",
        "items": [{"auditID": "1"}, {"auditID": "2"}],
    }
    await sink(json.dumps(batch).encode())
    assert [event["auditID"] for event in seen] == ["1", "2"]
    with pytest.raises(InvalidReviewError, match="expected an EventList"):
        await sink(b"{}")
