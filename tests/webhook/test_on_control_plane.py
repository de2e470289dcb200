"""Webhooks called by an API server: exceptions, unreachable servers, failure policies, conversion."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, Unstructured, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.declaring.declarations import WebhookConversion
from kubewright.api.errors import APIError
from kubewright.client import Client
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing.server import start_test_server
from kubewright.webhook import (
    AdmissionRequest,
    AdmissionResponse,
    Converter,
    Denied,
    SelfSignedCertificates,
    WebhookServer,
)


@asynccontextmanager
async def running(server: WebhookServer) -> AsyncIterator[str]:
    stop = asyncio.Event()
    task = asyncio.create_task(server.run(stop))
    await asyncio.wait_for(server.wait_until_started(), 60)
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        stop.set()
        await task


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with start_test_server("in-process", None, controllers=False) as server:
        yield server.client()


@pytest.fixture
async def server() -> WebhookServer:
    made = WebhookServer(SelfSignedCertificates(), host="127.0.0.1", port=0)

    async def crash(request: AdmissionRequest) -> AdmissionResponse:
        raise ZeroDivisionError("out of ideas")

    async def deny(request: AdmissionRequest) -> AdmissionResponse:
        raise Denied("the season is over")

    async def allow(request: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(warnings=["careful"])

    made.add_admission("/crash", crash)
    made.add_admission("/deny", deny)
    made.add_admission("/allow", allow)
    return made


async def register(client: Client, url: str, server: WebhookServer, policy: str) -> None:
    assert isinstance(server.certificates, SelfSignedCertificates)
    bundle = base64.b64encode(server.certificates.ca_bundle).decode()
    await client.create(
        Unstructured(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "checks"},
                "webhooks": [
                    {
                        "name": "check.example.com",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "failurePolicy": policy,
                        "timeoutSeconds": 30,
                        "clientConfig": {"url": url, "caBundle": bundle},
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["configmaps"],
                            }
                        ],
                    }
                ],
            }
        )
    )


async def create(client: Client) -> str:
    """Return `created` or the error message of a create."""
    try:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    except APIError as error:
        return error.message
    return "created"


@pytest.mark.parametrize(
    ("path", "policy", "outcome"),
    [
        ("/allow", "Fail", ("created",)),
        ("/deny", "Fail", ('admission webhook "check.example.com" denied', "the season is over")),
        ("/deny", "Ignore", ('admission webhook "check.example.com" denied', "the season is over")),
        ("/crash", "Fail", ('failed calling webhook "check.example.com"', "ZeroDivisionError: out of ideas")),
        ("/crash", "Ignore", ("created",)),
        ("/nowhere", "Fail", ('failed calling webhook "check.example.com"',)),
        ("/nowhere", "Ignore", ("created",)),
    ],
)
async def test_failure_policy_applies_to_failures_only(
    client: Client, server: WebhookServer, path: str, policy: str, outcome: tuple[str, ...]
) -> None:
    async with running(server) as url:
        await register(client, f"{url}{path}", server, policy)
        response = await create(client)
    for words in outcome:
        assert words in response


@pytest.mark.parametrize(
    ("policy", "words"), [("Fail", 'failed calling webhook "check.example.com"'), ("Ignore", "created")]
)
async def test_unreachable_webhook(client: Client, server: WebhookServer, policy: str, words: str) -> None:
    async with running(server) as url:
        await register(client, f"{url}/allow", server, policy)
    assert words in await create(client)


class TimeSpec(Spec):
    schedule: str


class PartsSpec(Spec):
    minute: str
    hour: str


CONVERSION = WebhookConversion()


@resource(group="plane.example.com", version="v1", storage=True, hub=True, conversion=CONVERSION)
class Clock(CustomResource[TimeSpec, None], kw_only=True):
    """Text."""


@resource(group="plane.example.com", version="v2", kind="Clock", conversion=CONVERSION)
class ClockV2(CustomResource[PartsSpec, None], kw_only=True):
    """Parts."""


def to_hub(clock: ClockV2) -> Clock:
    return Clock(metadata=clock.metadata, spec=TimeSpec(schedule=f"{clock.spec.minute} {clock.spec.hour}"))


def from_hub(clock: Clock) -> ClockV2:
    minute, _, hour = clock.spec.schedule.partition(" ")
    return ClockV2(metadata=clock.metadata, spec=PartsSpec(minute=minute, hour=hour))


async def test_conversion_in_both_directions_and_in_lists(client: Client) -> None:
    certificates = SelfSignedCertificates()
    server = WebhookServer(certificates, host="127.0.0.1", port=0)
    converter = Converter(Clock)
    converter.spoke(ClockV2, to_hub=to_hub, from_hub=from_hub)
    server.conversions.add(converter)
    async with running(server) as url:
        await install_definitions(
            client, [Clock, ClockV2], conversion_url=url, ca_bundle=certificates.ca_bundle
        )
        meta: dict[str, Any] = {"namespace": "default", "labels": {"x": "y"}}
        await client.create(
            ClockV2(metadata=ObjectMeta(name="a", **meta), spec=PartsSpec(minute="5", hour="3"))
        )
        await client.create(Clock(metadata=ObjectMeta(name="b", **meta), spec=TimeSpec(schedule="0 4")))
        stored = await client.get(Clock, "a", namespace="default")
        assert stored.spec.schedule == "5 3"
        assert stored.metadata.labels == {"x": "y"}
        listed = [each async for each in client.list(ClockV2, namespace="default")]
        assert [(each.spec.minute, each.spec.hour) for each in listed] == [("5", "3"), ("0", "4")]
        listed[0].spec.minute = "6"
        await client.update(listed[0])
        assert (await client.get(Clock, "a", namespace="default")).spec.schedule == "6 3"
