"""Findings: what needs attention, the most urgent first, each with its evidence."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import wall_time
from kubewright.client import Client, patches
from kubewright.dashboard import TraceStore
from kubewright.dashboard.attention import TYPES, Attention
from kubewright.dashboard.objects.object_index import ObjectIndex

from .test_object_evidence import span

Created = Any


@pytest.fixture
async def index(client: Client) -> AsyncIterator[ObjectIndex]:
    made = ObjectIndex(client)
    yield made
    await made.stop()


async def create(client: Client, api_version: str, kind: str, name: str, **fields: Any) -> Created:
    metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
    return await client.create(
        Unstructured({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})
    )


async def set_status(client: Client, resource: str, name: str, status: dict[str, Any]) -> None:
    change = patches.merge_patch({"status": status})
    await client.subresource("status", resource, name, namespace="default").patch(change)


def authority(*, days: float) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=days))
    certificate = builder.sign(key, hashes.SHA256())
    return base64.b64encode(certificate.public_bytes(Encoding.PEM)).decode()


async def test_every_type_is_found_with_its_evidence(client: Client, index: ObjectIndex) -> None:
    container = {"name": "main", "image": "nginx"}
    for name in ("unscheduled", "unpullable", "crashing"):
        await create(client, "v1", "Pod", name, spec={"containers": [container]})
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    await set_status(client, "pods", "unscheduled", {"phase": "Pending", "conditions": [condition]})
    pulling = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    await set_status(client, "pods", "unpullable", {"containerStatuses": [_container(pulling)]})
    looping = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m"}}
    await set_status(client, "pods", "crashing", {"containerStatuses": [_container(looping)]})
    await create(client, "v1", "ResourceQuota", "small", spec={"hard": {"pods": "2"}})
    await set_status(client, "resourcequotas", "small", {"hard": {"pods": "2"}, "used": {"pods": "2"}})
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await create(client, "policy/v1", "PodDisruptionBudget", "strict", spec=budget)
    counts = {"expectedPods": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    await set_status(client, "poddisruptionbudgets", "strict", {**counts, "observedGeneration": 1})
    await create(client, "v1", "ConfigMap", "stuck", metadata={"finalizers": ["example.com/keep"]})
    await client.delete("configmaps", "stuck", namespace="default")
    for name, days in (("old", 3.0), ("new", 300.0)):
        hook = {
            "name": "a.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": authority(days=days)},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {"metadata": {"namespace": None}, "webhooks": [hook]}
        api = "admissionregistration.k8s.io/v1"
        await create(client, api, "ValidatingWebhookConfiguration", name, **body)
    store = TraceStore()
    _fill(store)
    await index.use()
    later = wall_time() + 400
    attention = Attention(index, store, clock=lambda: later)
    described = attention.describe()
    found = {each["type"]: each for each in described["findings"]}
    assert set(found) | {"slow", "failed"} == set(TYPES)
    order = [each["type"] for each in described["findings"]]
    assert order == sorted(order, key=TYPES.index)

    failing = found["reconcile"]
    assert (failing["message"], failing["count"], failing["since"]) == ("no connection", 3, 1000.0)
    assert failing["next"] == 3001.0 + 60_000
    assert found["fight"]["message"].startswith("scaler and shop both write deployments.apps default/web")
    assert found["fight"]["object"]["resource"] == "deployments"
    assert found["loop"]["controller"] == "loopy"
    assert found["webhook"]["message"] == "connection refused"
    assert found["slow webhook"]["controller"] == "/slow"
    assert found["finalizer"]["message"] == "waits for finalizers: example.com/keep"
    assert found["unschedulable"]["message"] == "0/2 nodes are available"
    assert found["container"]["message"] == "container main: ImagePullBackOff: no such image"
    assert found["failed"]["object"]["name"] == "crashing"
    assert found["quota"]["message"] == "used up: pods 2 of 2"
    assert found["disruption"]["message"] == "allows no eviction: 1 healthy pods, 1 required"
    assert found["certificate"]["object"]["name"] == "old"
    assert found["certificate"]["message"] == "its caBundle expires"
    assert described["totals"]["certificate"] == 1
    elsewhere = attention.describe("kube-system")["findings"]
    assert {each["type"] for each in elsewhere} == {"webhook", "slow webhook", "certificate"}


def _container(state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}


def _fill(store: TraceStore) -> None:
    for number in (1, 2, 3):
        store.add("reconcile", span(number, "broken", error="no connection", retry=60.0))
    write = {"verb": "patch", "resource": "deployments.apps", "subresource": "", "error": ""}
    write |= {"namespace": "default", "name": "web"}
    own = [{"trigger": "own write"}]
    for number in range(20):
        base = span(100_000 + number // 10, "web")
        for controller in ("shop", "scaler"):
            store.add(
                "reconcile",
                {**base, "id": f"{controller}{number}", "controller": controller, "writes": [write]},
            )
        looping = {**base, "id": f"loop{number}", "controller": "loopy", "name": "hot"}
        store.add("reconcile", {**looping, "causes": own, "writes": [{**write, "name": "hot"}]})
    now = (wall_time() + 390) * 1000
    call = {"error": "", "code": 200, "message": "", "duration": 0.01, "started": now}
    store.add("webhook", {**call, "id": "1", "path": "/broken", "error": "connection refused"})
    store.add("webhook", {**call, "id": "2", "path": "/slow", "duration": 4.0})
    store.add("webhook", {**call, "id": "3", "path": "/fine"})


async def test_an_object_is_slow_compared_with_others_of_its_kind(client: Client, index: ObjectIndex) -> None:
    spec = {"containers": [{"name": "main", "image": "nginx"}]}
    created = datetime.now(UTC)
    for number in range(4):
        await create(client, "v1", "Pod", f"quick-{number}", spec=spec)
        ready = (created + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": ready}
        await set_status(client, "pods", f"quick-{number}", {"phase": "Running", "conditions": [condition]})
    await create(client, "v1", "Pod", "late", spec=spec)
    await index.use()
    now = [wall_time() + 40]
    attention = Attention(index, TraceStore(), clock=lambda: now[0])
    assert attention.describe()["findings"] == []
    now[0] += 60
    (found,) = attention.describe()["findings"]
    assert (found["type"], found["object"]["name"]) == ("slow", "late")
    assert "usually ready within" in found["message"]


async def test_failures_before_the_dashboard_was_connected_have_an_unknown_time(index: ObjectIndex) -> None:
    store = TraceStore()
    sample = {
        "name": "shop",
        "reconciles": 1,
        "errors": 1,
        "busySeconds": 0.0,
        "waitSeconds": 0.0,
        "started": 1,
    }
    sample |= {"depth": 0, "active": 0, "failing": {"default/broken": "no connection"}}
    store.add("queue", {"time": 1.0, "controllers": [sample]})
    (found,) = Attention(index, store).describe("default")["findings"]
    assert (found["request"], found["message"], found["since"]) == ("default/broken", "no connection", None)
    store.add("reconcile", span(5, "broken", error="no connection"))
    (found,) = Attention(index, store).describe()["findings"]
    assert found["since"] == 5000.0
