"""Audit backends: rotation of the log, batches, webhooks, truncation, modes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.apiserver import APIServer, HTTPRequest, User, serve
from kubewright.apiserver.audit import (
    AuditEvent,
    AuditOptions,
    Auditor,
    AuditPolicy,
    BatchBackend,
    BatchOptions,
    LogBackend,
    WebhookBackend,
    batching,
)
from kubewright.apiserver.audit.backends import TruncateEvents
from kubewright.apiserver.audit.options import DEFAULTS
from kubewright.storage.memory import MemoryStorage
from kubewright.testing.time import fake_time
from kubewright.webhook import AuditSink, SelfSignedCertificates, WebhookServer

from .http2_client import HTTP2Client


def event(number: int = 0, **fields: Any) -> AuditEvent:
    return AuditEvent(
        level="Metadata",
        audit_id=f"id-{number}",
        stage="ResponseComplete",
        request_uri="/version",
        verb="get",
        user={"username": "jane", "groups": ["dev"]},
        request_received_timestamp="2026-01-02T03:04:05.000001Z",
        stage_timestamp="2026-01-02T03:04:05.000002Z",
        **fields,
    )


class Recorder:
    """A backend that stores what it receives."""

    name = "recorder"

    def __init__(self, *, accepts: bool = True) -> None:
        self.batches: list[list[AuditEvent]] = []
        self._accepts = accepts

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def process(self, events: Sequence[AuditEvent]) -> bool:
        self.batches.append(list(events))
        return self._accepts

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


async def test_the_log_is_rotated_and_old_files_are_deleted(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    path = tmp_path / "logs" / "audit.log"
    size = len(event().encode()) + 1
    log = LogBackend(path, max_size=3.5 * size / 1024 / 1024, max_backups=2, compress=True, clock=lambda: now)
    await log.start()
    for number in range(3 * 4):
        now += 1
        assert log.process([event(number % 10)])
        await asyncio.sleep(0.02 if number % 3 == 0 else 0)
    await log.stop()
    assert len(path.read_text().splitlines()) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    backups = log.backups()
    assert [each.name for each in backups] == [
        "audit-2027-01-15T08-00-10.000.log.gz",
        "audit-2027-01-15T08-00-07.000.log.gz",
    ]
    assert len(gzip.decompress(backups[0].read_bytes()).splitlines()) == 3
    # A restart appends.
    await log.start()
    log.process([event()])
    await log.stop()
    assert [json.loads(line)["auditID"] for line in path.read_text().splitlines()] == ["id-0"]


def test_the_age_of_rotated_files_is_that_of_their_names(tmp_path: Path) -> None:
    """Not that of the file system, which has another clock, and another time after a copy."""

    async def main() -> list[str]:
        size = len(event().encode()) + 1
        log = LogBackend(tmp_path / "audit.log", max_size=1.5 * size / 1024 / 1024, max_age=2)
        await log.start()
        for day in range(6):
            assert log.process([event(day)])
            await asyncio.sleep(86400)
        await log.stop()
        return [each.name for each in log.backups()]

    assert fake_time(main(), start=datetime(2030, 1, 1, tzinfo=UTC)) == [
        "audit-2030-01-06T00-00-00.000.log",
        "audit-2030-01-05T00-00-00.000.log",
        "audit-2030-01-04T00-00-00.000.log",
    ]


def test_the_legacy_format_is_one_line_of_text() -> None:
    text = event(response_status={"code": 200}, source_ips=["10.0.0.1"], user_agent='a "b"').to_text()
    assert text == (
        '2026-01-02T03:04:05.000001Z AUDIT: id="id-0" stage="ResponseComplete" ip="10.0.0.1" method="get" '
        'user="jane" groups="\\"dev\\"" as="<self>" asgroups="<lookup>" user-agent="a \\"b\\"" '
        'namespace="<none>" uri="/version" response="200"'
    )


def test_batches_are_complete_by_size_or_time() -> None:
    async def main() -> None:
        recorder = Recorder()
        backend = BatchBackend(recorder, BatchOptions(buffer_size=7, max_size=3, max_wait=30.0))
        await backend.start()
        backend.process([event(number) for number in range(3)])
        await asyncio.sleep(0.1)
        assert recorder.sizes == [3]
        backend.process([event()])
        await asyncio.sleep(29)
        assert recorder.sizes == [3]
        await asyncio.sleep(2)
        assert recorder.sizes == [3, 1]
        backend.process([event(number) for number in range(9)])
        await backend.stop()
        assert recorder.sizes == [3, 1, 3, 3, 1]  # two events were dropped

    fake_time(main())


def test_batches_are_limited_to_a_rate() -> None:
    async def main() -> None:
        recorder = Recorder()
        options = BatchOptions(max_size=1, throttle=True, throttle_qps=2.0, throttle_burst=3)
        backend = BatchBackend(recorder, options)
        await backend.start()
        backend.process([event(number) for number in range(10)])
        await asyncio.sleep(0.1)
        assert len(recorder.batches) == 3
        await asyncio.sleep(1)
        assert len(recorder.batches) == 5
        await backend.stop()
        assert len(recorder.batches) == 10

    fake_time(main())


def test_large_events_are_truncated() -> None:
    import msgspec

    recorder = Recorder()
    backend = TruncateEvents(recorder, max_event_size=600, max_batch_size=1500)
    large = event(1, request_object=msgspec.Raw(b'{"a":"' + b"x" * 1000 + b'"}'), annotations={"k": "v"})
    long = event(2, user_agent="x" * 1000)
    assert backend.process([large, long, *(event(number) for number in range(5))])
    sent = [each for batch in recorder.batches for each in batch]
    assert sent[0].request_object is None
    assert sent[0].annotations == {"k": "v", "audit.k8s.io/truncated": "true"}
    assert sent[1].user_agent == "x" * 256 + "...TRUNCATED"
    assert sent[1].annotations == {"audit.k8s.io/truncated": "true"}
    assert len(sent) == 7
    assert len(recorder.batches) > 1


async def test_events_are_sent_to_the_url_of_a_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "_STOP_TIMEOUT", 60.0)
    received: list[dict[str, Any]] = []
    failures = [RuntimeError("first"), None]

    def archive(events: list[dict[str, Any]]) -> None:
        failure = failures.pop(0) if failures else None
        if failure is not None:
            raise failure
        received.extend(events)

    certificates = SelfSignedCertificates()
    server = WebhookServer(certificates, host="127.0.0.1", port=0)
    server.add_endpoint("/audit", AuditSink(archive))
    stop = asyncio.Event()
    task = asyncio.create_task(server.run(stop))
    await server.wait_until_started()
    try:
        authority = base64.b64encode(certificates.ca_bundle).decode()
        url = f"https://127.0.0.1:{server.port}/audit"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        (tmp_path / "webhook.yaml").write_text(json.dumps(config))
        webhook = WebhookBackend(tmp_path / "webhook.yaml", initial_backoff=0.01)
        backend = BatchBackend(webhook, BatchOptions(max_size=2, max_wait=0.01))
        await backend.start()
        backend.process([event(number) for number in range(3)])
        await backend.stop()
    finally:
        stop.set()
        await task
    assert sorted(each["auditID"] for each in received) == ["id-0", "id-1", "id-2"]
    assert received[0]["kind"] == "Event"


@pytest.mark.parametrize("strict", [False, True])
async def test_requests_fail_without_an_event_only_in_strict_mode(strict: bool) -> None:
    from kubewright.apiserver.audit.backends import IgnoreErrors

    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    backend = Recorder(accepts=False)
    auditor = Auditor(AuditPolicy.parse(policy), [backend if strict else IgnoreErrors(backend)])
    async with APIServer(MemoryStorage(), auditor=auditor) as server:
        user = User("jane", ("system:authenticated",))
        response = await server.handle(HTTPRequest("GET", "/version", user=user))
    assert response.status == (500 if strict else 200)
    if strict:
        assert b"failed to store audit event" in response.body
    assert [each.stage for batch in backend.batches for each in batch] == [
        "RequestReceived",
        "ResponseComplete",
    ]


async def test_a_disconnected_client_is_recorded() -> None:
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    backend = Recorder()

    async def wait(request: HTTPRequest) -> Any:
        await asyncio.sleep(60)

    async with APIServer(MemoryStorage(), auditor=Auditor(AuditPolicy.parse(policy), [backend])) as server:
        server.add_handler("/wait", wait)
        user = User("jane", ("system:authenticated",))
        task = asyncio.create_task(server.handle(HTTPRequest("GET", "/wait", user=user)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    status = backend.batches[-1][0].response_status
    assert status is not None
    assert status["message"] == "Connection closed early"


def test_options_have_the_defaults_of_kube_apiserver(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
    )
    given = {"audit-policy-file": str(tmp_path / "policy.yaml")}
    assert AuditOptions.from_flags(given) is None  # no backend
    assert AuditOptions.from_flags({"audit-log-path": "-"}) is None  # no policy
    options = AuditOptions.from_flags({**given, "audit-log-path": str(tmp_path / "audit.log")})
    assert options is not None
    assert [backend.name for backend in options.auditor().backends] == ["log"]
    assert DEFAULTS["audit-webhook-batch-max-wait"] == 30.0
    for flags, message in (
        ({"audit-log-mode": "slow"}, 'invalid audit log mode slow, allowed modes are "batch,blocking'),
        ({"audit-log-version": "audit.k8s.io/v2"}, "--audit-log-version: allowed is audit.k8s.io/v1"),
        ({"audit-log-maxsize": -1, "audit-log-path": "x", **given}, "can't be a negative number"),
        ({"audit-log-format": "xml", "audit-log-path": "x", **given}, "invalid audit log format xml"),
        ({"audit-webhook-config-file": str(tmp_path / "no"), **given}, "audit webhook config: "),
        ({"no-such-flag": 1}, "unknown audit flags: no-such-flag"),
    ):
        with pytest.raises(ValueError, match=message):
            (AuditOptions.from_flags(flags) or options).auditor()


@pytest.mark.parametrize("http2", [False, True])
async def test_addresses_of_clients_are_recorded(http2: bool) -> None:
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    backend = Recorder()
    server = APIServer(MemoryStorage(), auditor=Auditor(AuditPolicy.parse(policy), [backend]))
    async with serve(server, http2=http2) as https:
        if http2:
            client = await HTTP2Client.connect(https)
            await client.get("/version")
            client.close()
        else:
            async with aiohttp.ClientSession() as session:
                url = f"https://127.0.0.1:{https.port}/version"
                await session.get(url, ssl=False, headers={"X-Forwarded-For": "10.1.1.1, x"})
    expected = ["127.0.0.1"] if http2 else ["10.1.1.1", "127.0.0.1"]
    assert [each.source_ips for batch in backend.batches for each in batch][-1] == expected
