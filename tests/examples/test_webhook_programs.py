"""The examples of webhooks that an API server calls: tokens, access, audit; and a scheduler extender."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

import access_webhook
import audit_webhook
import scheduler_extender
import token_webhook
from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Namespace, Node, Pod
from kubewright.api.errors import Forbidden, Unauthorized
from kubewright.apiserver.audit import AuditOptions
from kubewright.client import Client, condition, load_config, merge_patch
from kubewright.controlplane import ControlPlane
from kubewright.manager import Cluster, Manager
from kubewright.testing.server import start_test_server
from kubewright.workloads.scheduler import Profile, add_scheduler
from kubewright.workloads.scheduler.extender import HTTPExtender

from .webhook_programs import running_webhooks


def write_keys(path: Path, *keys: dict[str, Any]) -> None:
    entries = [{**each, "sha256": hashlib.sha256(each["sha256"].encode()).hexdigest()} for each in keys]
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(yaml.safe_dump(entries))
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


async def test_token_webhook(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    write_keys(
        keys,
        {"user": "ann", "groups": ["dev"], "sha256": "secret"},
        {"user": "eve", "sha256": "revoked"},
        {"user": "old", "sha256": "expired", "expires": "2020-01-01"},
    )
    key_file = token_webhook.KeyFile(keys)
    async with running_webhooks(lambda server: token_webhook.add_to(server, key_file)) as webhooks:
        config = webhooks.write_kubeconfig(tmp_path / "webhook", "/authenticate")
        async with ControlPlane(controllers=False, authentication_token_webhook_config_file=config) as plane:
            await check_tokens(plane, keys)
    write_keys(keys, {"user": "old", "sha256": "expired", "expires": date(2020, 1, 1)})
    with pytest.raises(token_webhook.Denied, match="the API key of old expired on 2020-01-01"):
        token_webhook.KeyFile(keys).find_user("expired")


async def check_tokens(plane: ControlPlane, keys: Path) -> None:
    admin = load_config(plane.kubeconfig)

    async def who(token: str) -> Any:
        config = replace(admin, client_certificate=None, client_key=None, token=token)
        async with Client.connect(config) as client:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            return (await client.create(review))["status"]["userInfo"]

    user = await who("secret")
    assert (user["username"], user["groups"]) == ("key:ann", ["dev", "system:authenticated"])
    for token in ("other", "expired"):
        with pytest.raises(Unauthorized):
            await who(token)
    write_keys(keys, {"user": "bob", "sha256": "later"})
    assert (await who("later"))["username"] == "key:bob"
    with pytest.raises(Unauthorized):
        await who("revoked")


async def test_access_webhook(tmp_path: Path) -> None:
    async with running_webhooks(access_webhook.add_to) as webhooks:
        config_file = webhooks.write_kubeconfig(tmp_path / "webhook", "/authorize")
        plane = ControlPlane(
            port=None, controllers=False, auth="webhook,rbac", authorization_webhook_config_file=config_file
        )
        async with plane:
            await check_access(plane.client())


async def check_access(admin: Client) -> None:
    for name in ("shop-test", "shop-prod", "bank-test"):
        await admin.create(Namespace(metadata=ObjectMeta(name=name)))

    def client(*groups: str) -> Client:
        return admin.with_impersonation("ann", groups=groups)

    def config(namespace: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace))

    tenant = client("tenant:shop")
    for namespace in ("shop-test", "shop-prod"):
        await tenant.create(config(namespace))
    with pytest.raises(Forbidden, match='cannot create resource "configmaps"'):
        await tenant.create(config("bank-test"))
    await tenant.delete(ConfigMap, "a", namespace="shop-test")
    with pytest.raises(Forbidden, match="only tenant-admins can do this in shop-prod"):
        await tenant.delete(ConfigMap, "a", namespace="shop-prod")
    await client("tenant:shop", "tenant-admins").delete(ConfigMap, "a", namespace="shop-prod")
    # RBAC decides about the rest.
    with pytest.raises(Forbidden):
        await client("dev").list(Namespace)


async def test_audit_webhook_receives_events_of_the_control_plane(tmp_path: Path) -> None:
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    log = audit_webhook.AuditLog(tmp_path / "audit.jsonl")
    async with running_webhooks(lambda server: audit_webhook.add_to(server, log)) as webhooks:
        flags = {
            "audit-policy-file": str(tmp_path / "policy.yaml"),
            "audit-webhook-config-file": str(webhooks.write_kubeconfig(tmp_path / "webhook", "/audit")),
            "audit-webhook-mode": "blocking",
        }
        plane = ControlPlane(port=None, controllers=False, audit=AuditOptions.from_flags(flags))
        async with plane:
            await plane.client().create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            with pytest.raises(Forbidden):
                await plane.client(user="ann").list(Namespace)
    events = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert ("create", "configmaps") in {(each["verb"], each["objectRef"]["resource"]) for each in events}
    assert log.denied == {"ann": 1}


def event(number: int, code: int = 403, stage: str = "ResponseComplete") -> dict[str, Any]:
    user = {"username": "ann"}
    return {"auditID": str(number), "stage": stage, "user": user, "responseStatus": {"code": code}}


async def test_audit_webhook(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.jsonl"
    log = audit_webhook.AuditLog(path)
    async with running_webhooks(lambda server: audit_webhook.add_to(server, log)) as webhooks:
        send = webhooks.post("/audit")

        async def batch(*events: dict[str, Any]) -> None:
            await send({"apiVersion": "audit.k8s.io/v1", "kind": "EventList", "items": list(events)})

        await batch(event(0, 200), event(1), event(1, stage="RequestReceived"))
        await batch(event(1), event(2))  # a batch that is sent again
        assert [json.loads(line)["auditID"] for line in path.read_text().splitlines()] == ["0", "1", "1", "2"]
        assert log.denied == {"ann": 2}
        await batch(*(event(number) for number in range(3, 8)))
    [record] = [each for each in caplog.records if each.message == "requests of a user are denied"]
    assert (record.user, record.count) == ("ann", 5)  # type: ignore[attr-defined]


@asynccontextmanager
async def running_scheduler(extender: HTTPExtender) -> AsyncIterator[Client]:
    async with start_test_server("in-process") as server:
        manager = Manager(Cluster(server.client()), handle_signals=False)
        add_scheduler(manager, [Profile()], extenders=[extender], rng=random.Random(1))
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield server.client()
        finally:
            stop.set()
            await task


def pod(name: str, product: str = "") -> dict[str, Any]:
    annotations = {scheduler_extender.ANNOTATION: product} if product else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }


async def test_scheduler_extender(tmp_path: Path) -> None:
    path = tmp_path / "licenses.yaml"
    path.write_text(yaml.safe_dump({"node-0": {"matlab": 1}, "node-1": {"matlab": 7}}))
    extender = scheduler_extender.extender_for(scheduler_extender.LicenseServer(path))
    async with running_webhooks(lambda server: extender.add_to(server, "/scheduler")) as webhooks:
        caller = HTTPExtender(
            url=f"{webhooks.url}/scheduler",
            filter_verb="filter",
            prioritize_verb="prioritize",
            weight=100,
            ssl_context=webhooks.context,
        )
        async with running_scheduler(caller) as client:
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
            for name in ("node-0", "node-1", "node-2"):
                status = {"allocatable": amounts, "capacity": amounts}
                await client.create(
                    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
                )
                await client.patch(Node, name, merge_patch({"spec": {"taints": None}}))

            async def scheduled(name: str, product: str = "") -> str | None:
                await client.create(pod(name, product))
                found = await client.wait(Pod, name, until=condition("PodScheduled"), timeout=30)
                return found.spec.node_name

            assert await scheduled("licensed", "matlab") == "node-1"
            assert await scheduled("other")
            await client.create(pod("impossible", "simulink"))
            waiting = await client.wait(
                Pod, "impossible", until=condition("PodScheduled", "False"), timeout=30
            )
            assert "node-0 has no free license" in waiting.status.conditions[0].message
