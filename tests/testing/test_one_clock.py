"""One clock: operators, and all timestamps that the control plane writes, in simulated time."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubewright import Client, Context, CustomResource, ObjectMeta, Operator, Result, Spec, Status, resource
from kubewright.api import Unstructured, now
from kubewright.api.batch.v1 import Job
from kubewright.api.coordination.v1 import Lease, LeaseSpec
from kubewright.api.core.v1 import ConfigMap, Secret, ServiceAccount
from kubewright.api.errors import APIError, NotFound
from kubewright.api.values.times import now_micro, parse_time
from kubewright.client import exists
from kubewright.explore import Steps, run_once, scenario
from kubewright.testing import fake_time, run_operator, start_test_server
from kubewright.testing.server import ServerKind, TestServer
from kubewright.tls.certificates import CertificateAuthority, KeyPair, server_context
from kubewright.webhook import ManagedCertificates
from kubewright.webhook.certificates import CHECK_SECONDS

START = datetime(2040, 2, 28, 12, 0, 0, tzinfo=UTC)
DAY, HOUR = 86400.0, 3600.0
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "nginx"}], "restartPolicy": "Always"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly", "namespace": "default"},
    "spec": {
        "schedule": "30 3 * * *",
        "successfulJobsHistoryLimit": 10,
        "jobTemplate": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    },
}
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z")

CLOCKS: dict[str, Callable[[], datetime]] = {
    "now": now,
    "datetime.now": lambda: datetime.now(UTC),
    "time.time": lambda: datetime.fromtimestamp(time.time(), UTC),
}


@resource(group="clock.example.com", version="v1")
class Offer(CustomResource[Spec, Status]):
    """Expires a day after its creation."""


def make_operator(clock: Callable[[], datetime] = now) -> Operator:
    """An operator that compares the clock of its process with the creation time, which a server has set."""
    operator = Operator("offers")

    @operator.reconcile(Offer, owns=(ConfigMap,))
    async def reconcile(offer: Offer, ctx: Context[Offer]) -> Result | None:
        assert offer.metadata.creation_timestamp is not None
        age = clock() - offer.metadata.creation_timestamp
        assert age >= timedelta()
        if age < timedelta(hours=24):
            return Result(requeue_after=600)
        meta = ObjectMeta(name=f"{offer.name}-expired", namespace=offer.namespace)
        await ctx.client.apply(ctx.own(ConfigMap(metadata=meta)), force=True)
        return None

    return operator


def offer() -> Offer:
    return Offer(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec())


def signing_request() -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name(
            [
                x509.NameAttribute(x509.NameOID.COMMON_NAME, "system:node:node-0"),
                x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:nodes"),
            ]
        )
    )
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "node-0"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
            "request": b64encode(pem).decode(),
        },
    }


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_operator_that_compares_dates_acts_after_a_day(clock: str) -> None:
    async def run() -> tuple[datetime, datetime]:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(make_operator(CLOCKS[clock]), client):
                created = await client.create(offer())
                expired = ConfigMap(metadata=ObjectMeta(name="a-expired", namespace="default"))
                await asyncio.sleep(DAY - HOUR)
                with pytest.raises(NotFound):
                    await client.get(ConfigMap, "a-expired", namespace="default")
                found = await client.wait(expired, until=exists, timeout=2 * HOUR)
                assert found is not None
                return created.metadata.creation_timestamp, found.metadata.creation_timestamp  # type: ignore[return-value]

    created, expired = fake_time(run())
    assert timedelta(hours=24) <= expired - created < timedelta(hours=25)


def test_the_same_operator_in_an_exploration() -> None:
    @scenario(quiet_seconds=700)
    async def wait_for_a_day(steps: Steps) -> None:
        await steps.apply(offer())
        await steps.advance("25h")

    for clock in CLOCKS.values():
        run = run_once(lambda clock=clock: make_operator(clock), wait_for_a_day)  # type: ignore[misc]
        assert run.ok, run.findings
        assert run.state is not None
        (expired,) = run.state.of_kind("ConfigMap")
        (created,) = run.state.of_kind(Offer)
        age = times_of(expired.data)[0] - times_of(created.data)[0]
        assert timedelta(hours=24) <= age < timedelta(hours=25)
        start = datetime(2030, 1, 1, tzinfo=UTC)
        for each in (*run.state.objects.values(), *run.state.baseline.values()):
            check_times(each.data, start, start + timedelta(seconds=run.end))


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return all scalar values of an object with their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from walk(each, f"{path}.{key}")
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from walk(each, f"{path}[{n}]")
    else:
        yield path, value


def times_of(raw: Any) -> list[datetime]:
    return [parse_time(each) for _, each in walk(raw) if isinstance(each, str) and TIME.fullmatch(each)]


def check_times(raw: Any, first: datetime, last: datetime) -> set[str]:
    """Check that all times in an object are in an interval, and return the names of their fields."""
    fields = set()
    for path, value in walk(raw):
        if isinstance(value, str) and TIME.fullmatch(value):
            field = path.rpartition(".")[2]
            # The end of the grace period, which is in the future.
            limit = last + timedelta(seconds=60) if field == "deletionTimestamp" else last
            assert first <= parse_time(value) <= limit, f"{path}: {value} at {last}: {raw}"
            fields.add(field)
    return fields


async def stored(server: TestServer) -> list[dict[str, Any]]:
    page = await server.plane.storage.list(server.plane.server.prefix)
    return [json.loads(each.value) for each in page.items]


def test_every_timestamp_within_a_day_is_simulated() -> None:
    """Creation, deletion, managed fields, conditions, leases, events, statuses, certificates."""

    async def run() -> tuple[set[str], list[bytes]]:
        fields: set[str] = set()
        certificates: list[bytes] = []
        async with start_test_server("in-process", nodes=1) as server:
            client = server.client()
            async with run_operator(
                make_operator(),
                client,
                leader_election=True,
                leader_election_namespace="default",
                lease_duration=600,
                renew_deadline=400,
                retry_period=100,
            ):
                await client.create(offer())
                for each in (DEPLOYMENT, CRON_JOB, signing_request()):
                    await client.create(Unstructured(each))
                meta = ObjectMeta(name="b", namespace="default", finalizers=["example.com/x"])
                await client.delete(await client.create(ConfigMap(metadata=meta)))
                for seconds in (10 * 60, DAY / 2, DAY / 2 - 10 * 60):  # events last for an hour
                    await asyncio.sleep(seconds)
                    for raw in await stored(server):
                        fields |= check_times(raw, START, now_micro())
                        if raw["kind"] == "CertificateSigningRequest":
                            certificates.append(b64decode(raw["status"]["certificate"]))
                return fields, certificates

    fields, certificates = fake_time(run(), start=START)
    assert fields >= {
        "creationTimestamp",
        "deletionTimestamp",
        "time",  # of managed fields
        "lastTransitionTime",
        "lastHeartbeatTime",
        "lastUpdateTime",
        "lastScheduleTime",
        "completionTime",
        "startTime",
        "startedAt",
        "renewTime",
        "acquireTime",
        "firstTimestamp",
        "lastTimestamp",
    }, fields
    certificate = x509.load_pem_x509_certificate(certificates[0])
    assert START - timedelta(hours=1) <= certificate.not_valid_before_utc <= START + timedelta(minutes=5)
    assert certificate.not_valid_after_utc > START + timedelta(days=1)


def test_cron_jobs_run_at_simulated_dates() -> None:
    """Also on 29 February, the second day of the simulation."""

    async def run() -> list[datetime]:
        async with start_test_server("in-process", nodes=1) as server:
            client = server.client()
            await client.create(Unstructured(CRON_JOB))
            await asyncio.sleep(2 * DAY)
            jobs = [each async for each in client.list(Job, namespace="default")]
            for each in jobs:
                assert each.status is not None
                assert each.status.completion_time is not None
                assert each.status.completion_time - each.metadata.creation_timestamp < timedelta(hours=1)
            return sorted(each.metadata.creation_timestamp for each in jobs)  # type: ignore[type-var]

    found = fake_time(run(), start=START)
    assert found == [datetime(2040, 2, 29, 3, 30, tzinfo=UTC), datetime(2040, 3, 1, 3, 30, tzinfo=UTC)]


def test_leases_have_simulated_dates_and_expire_in_simulated_time() -> None:
    async def run() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            meta = ObjectMeta(name="offers", namespace="default")
            spec = LeaseSpec(
                holder_identity="other",
                lease_duration_seconds=60,
                acquire_time=now_micro(),
                renew_time=now_micro(),
            )
            await client.create(Lease(metadata=meta, spec=spec))
            started = now()
            async with run_operator(
                make_operator(), client, leader_election=True, leader_election_namespace="default"
            ):
                assert timedelta(seconds=60) <= now() - started < timedelta(seconds=90)
                await asyncio.sleep(HOUR)
                lease = (await client.get(Lease, "offers", namespace="default")).spec
                assert lease is not None
                assert lease.holder_identity != "other"
                assert lease.acquire_time is not None
                assert lease.renew_time is not None
                assert started < lease.acquire_time < started + timedelta(seconds=90)
                assert now() - lease.renew_time < timedelta(seconds=15)

    fake_time(run(), start=START)


def test_tokens_expire_in_simulated_time() -> None:
    async def run() -> list[str]:
        results = []
        async with start_test_server("tls", anonymous=False) as server:
            client = server.client()
            await client.create(ServiceAccount(metadata=ObjectMeta(name="a", namespace="default")))
            tokens = client.subresource("token", ServiceAccount, "a", namespace="default")
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
            made: Any = await tokens.create(Unstructured({**request, "spec": {"expirationSeconds": 3600}}))
            status = made.raw["status"]
            assert parse_time(status["expirationTimestamp"]) - now() == timedelta(hours=1)
            assert server.config is not None
            config = replace(server.config, token=status["token"], client_certificate=None, client_key=None)
            for _ in range(2):
                try:
                    async with Client.connect(config) as other:
                        await other.get(ConfigMap, "missing", namespace="default")
                except APIError as error:
                    results.append(type(error).__name__)
                await asyncio.sleep(HOUR + 60)
        return results

    assert fake_time(run(), start=START) == ["Forbidden", "Unauthorized"]


@pytest.mark.parametrize("start", [None, START])
def test_certificates_are_rotated_over_a_year(start: datetime | None) -> None:
    """Managed certificates are valid for 90 days: clients accept every one of them, and only them."""

    async def run() -> set[bytes]:
        seen = set()
        async with start_test_server("in-process", controllers=False) as server:
            client = server.client()
            managed = ManagedCertificates(client, secret="tls", namespace="default", hosts=("localhost",))
            context = await managed.start()
            web = await asyncio.start_server(_hello, "127.0.0.1", 0, ssl=context)
            first = await client.get(Secret, "tls", namespace="default")
            assert first.data is not None
            stale = CertificateAuthority(KeyPair(first.data["ca.crt"], first.data["ca.key"])).issue(
                "localhost", hosts=["localhost"], server=True, days=90
            )
            unmanaged = await asyncio.start_server(_hello, "127.0.0.1", 0, ssl=server_context(stale))
            for day in range(0, 400, 20):
                secret = await client.get(Secret, "tls", namespace="default")
                assert secret.data is not None
                assert await _connect(web, secret.data["ca.crt"]) == secret.data["tls.crt"]
                seen.add(secret.data["tls.crt"])
                if day < 90:
                    assert await _connect(unmanaged, secret.data["ca.crt"]) == stale.certificate
                else:
                    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
                        await _connect(unmanaged, secret.data["ca.crt"])
                time.sleep(20 * DAY)  # in this time, the control plane would renew its lease 172,800 times
                await asyncio.sleep(CHECK_SECONDS + 60)
            await managed.stop()
            web.close()
            unmanaged.close()
        return seen

    assert len(fake_time(run(), start=start)) >= 6


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await writer.drain()
    writer.close()


async def _connect(server: asyncio.Server, bundle: bytes) -> bytes:
    """Verify the certificate of a server and return it."""
    context = ssl.create_default_context(cadata=bundle.decode())
    port = server.sockets[0].getsockname()[1]
    connecting = asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    reader, writer = await connecting
    assert await reader.read() == b"hello"
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("kind", ["in-process", "tls"])
def test_webhooks_are_called_over_a_year(kind: ServerKind) -> None:
    """The API server verifies the certificate of the webhook, and with TLS both verify each other."""
    operator = make_operator()
    calls: list[datetime] = []

    @operator.validate(Offer)
    def validate(new: Offer, old: Offer | None) -> tuple[()]:
        calls.append(now())
        return ()

    async def run() -> None:
        async with start_test_server(kind, controllers=False) as server:
            client = server.client()
            async with run_operator(operator, client):
                for n in range(12):
                    meta = ObjectMeta(name=f"o{n}", namespace="default")
                    await client.create(Offer(metadata=meta, spec=Spec()))
                    time.sleep(30 * DAY)
                    await asyncio.sleep(60)

    fake_time(run(), start=START)
    assert len(calls) == 12
    assert timedelta(days=330) <= calls[-1] - calls[0] < timedelta(days=331)
