"""Managed certificates: a CA in a Secret, shared by replicas, published in webhook configurations."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import Namespace, Secret
from kubewright.api.gvk import GroupVersionKind
from kubewright.client import Client
from kubewright.testing.server import start_test_server
from kubewright.webhook import ManagedCertificates

CONFIGURATION = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with start_test_server("in-process", None, controllers=False) as server:
        client = server.client()
        await client.create(Namespace(metadata=ObjectMeta(name="ops")))
        await client.create(
            Unstructured(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingWebhookConfiguration",
                    "metadata": {"name": "checks"},
                    "webhooks": [
                        {
                            "name": f"{name}.example.com",
                            "sideEffects": "None",
                            "admissionReviewVersions": ["v1"],
                            "clientConfig": {"service": {"namespace": "ops", "name": "hooks"}},
                            "rules": [],
                        }
                        for name in ("one", "two")
                    ],
                }
            )
        )
        yield client


class Clock:
    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def managed(client: Client, clock: Clock, **options: Any) -> ManagedCertificates:
    return ManagedCertificates(
        client,
        secret="hooks-tls",
        namespace="ops",
        hosts=("hooks.ops.svc",),
        inject=[(CONFIGURATION, "checks")],
        now=clock,
        **options,
    )


async def stored(client: Client) -> dict[str, bytes]:
    secret = await client.get(Secret, "hooks-tls", namespace="ops")
    assert secret.data is not None
    return secret.data


async def trusted(client: Client) -> set[bytes]:
    configuration = await client.get(CONFIGURATION, "checks")
    return {base64.b64decode(each["clientConfig"]["caBundle"]) for each in configuration.raw["webhooks"]}


async def test_certificate_is_created_and_published_in_the_ca_bundle(client: Client) -> None:
    certificates = managed(client, Clock())
    context = await certificates.start()
    await certificates.stop()
    assert isinstance(context, ssl.SSLContext)
    data = await stored(client)
    assert await trusted(client) == {data["ca.crt"]}
    assert b"PRIVATE KEY" in data["tls.key"]


async def test_concurrent_replicas_share_one_certificate(client: Client) -> None:
    replicas = [managed(client, Clock()) for _ in range(5)]
    await asyncio.gather(*(replica.refresh() for replica in replicas))
    data = await stored(client)
    assert all(replica._current is not None for replica in replicas)
    assert {replica._current.certificate for replica in replicas if replica._current} == {data["tls.crt"]}
    assert await trusted(client) == {data["ca.crt"]}


async def test_nothing_is_written_before_renewal(client: Client) -> None:
    await managed(client, Clock()).refresh()
    before = await client.get(Secret, "hooks-tls", namespace="ops")
    await managed(client, Clock()).refresh()
    after = await client.get(Secret, "hooks-tls", namespace="ops")
    assert after.metadata.resource_version == before.metadata.resource_version


async def test_the_certificate_is_renewed_by_the_same_authority(client: Client) -> None:
    clock = Clock()
    certificates = managed(client, clock, certificate_days=90)
    await certificates.refresh()
    before = await stored(client)
    clock.ahead = timedelta(days=70)
    await certificates.refresh()
    after = await stored(client)
    assert after["tls.crt"] != before["tls.crt"]
    assert after["ca.crt"] == before["ca.crt"]


async def test_ca_bundle_contains_old_and_new_authority(client: Client) -> None:
    clock = Clock()
    certificates = managed(client, clock, ca_days=365)
    await certificates.refresh()
    before = await stored(client)
    clock.ahead = timedelta(days=300)
    await certificates.refresh()
    after = await stored(client)
    assert after["ca.crt"].endswith(before["ca.crt"])
    assert after["ca.crt"] != before["ca.crt"]
    assert await trusted(client) == {after["ca.crt"]}


async def test_other_hosts_need_another_certificate(client: Client) -> None:
    await managed(client, Clock()).refresh()
    before = await stored(client)
    other = ManagedCertificates(client, secret="hooks-tls", namespace="ops", hosts=("other.ops.svc",))
    await other.refresh()
    assert (await stored(client))["tls.crt"] != before["tls.crt"]


async def test_later_configuration_gets_the_ca_bundle(client: Client) -> None:
    raw = (await client.get(CONFIGURATION, "checks")).raw
    await client.delete(CONFIGURATION, "checks")
    certificates = managed(client, Clock())
    await certificates.refresh()
    assert certificates._next_check == 5
    await client.create(
        Unstructured({**raw, "metadata": {"name": "checks"}}),
    )
    await certificates.refresh()
    assert certificates._next_check == 600
    assert await trusted(client) == {(await stored(client))["ca.crt"]}


async def test_conflicting_configuration_update_is_retried(client: Client) -> None:
    from kubewright.client import patches
    from kubewright.webhook.certificates import inject_ca_bundle

    meddled = False

    async def meddle(call: Any, proceed: Any) -> Any:
        nonlocal meddled
        if call.verb == "patch" and not meddled:
            meddled = True
            change = patches.merge_patch({"metadata": {"labels": {"x": "y"}}})
            await client.patch(CONFIGURATION, "checks", change)
        return await proceed(call)

    assert await inject_ca_bundle(client.with_interceptor(meddle), CONFIGURATION, "checks", b"bundle") is True
    assert await trusted(client) == {b"bundle"}
    assert await inject_ca_bundle(client, CONFIGURATION, "checks", b"bundle") is False
    assert await inject_ca_bundle(client, CONFIGURATION, "others", b"bundle") is None
