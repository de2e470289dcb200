"""Audit and logs: no byte of a request removes its event, and no failing backend is silent."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.security.examples import examples

from kubewright.apiserver import APIServer, HTTPRequest, Resource, User, Version, serve
from kubewright.apiserver.audit import (
    AuditEvent,
    AuditOptions,
    Auditor,
    AuditPolicy,
    BatchBackend,
    LogBackend,
)
from kubewright.apiserver.audit.backends import IgnoreErrors, TruncateEvents
from kubewright.apiserver.audit.batching import BatchOptions
from kubewright.apiserver.authentication import AuthenticatorChain
from kubewright.apiserver.authentication.user import MASTERS
from kubewright.apiserver.http.server import HTTPServer
from kubewright.manager.observability.logs import ConsoleFormatter, JSONFormatter
from kubewright.storage.memory import MemoryStorage

ADMIN = User("admin", (MASTERS, "system:authenticated"))
MODES = ("batch", "blocking", "blocking-strict")
any_text = st.text(st.characters(), max_size=12)
"""Texts with all characters, also surrogates."""


class _Admin:
    async def authenticate(self, request: HTTPRequest) -> User | None:
        return ADMIN


def api_server(auditor: Auditor) -> APIServer:
    server = APIServer(MemoryStorage(), authenticator=AuthenticatorChain([_Admin()]), auditor=auditor)
    server.add(Resource(group="s.io", kind="Pizza", plural="pizzas", versions=[Version(name="v1")]))
    return server


def policy(**fields: Any) -> AuditPolicy:
    rules = [{"level": "RequestResponse", "omitManagedFields": True}]
    return AuditPolicy.parse({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, **fields})


@asynccontextmanager
async def audited(tmp_path: Path, mode: str, **fields: Any) -> AsyncIterator[tuple[HTTPServer, Path]]:
    rules = [{"level": "RequestResponse", "omitManagedFields": True}]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, **fields}
    (tmp_path / "policy.yaml").write_text(json.dumps(document))
    log = tmp_path / "audit.log"
    options = AuditOptions.from_flags(
        {
            "audit-policy-file": str(tmp_path / "policy.yaml"),
            "audit-log-path": str(log),
            "audit-log-mode": mode,
        }
    )
    assert options is not None
    async with serve(api_server(options.auditor())) as front:
        yield front, log


async def send(front: HTTPServer, head: bytes, body: bytes = b"") -> int:
    """Send a request and return the status."""
    import ssl

    context = ssl.create_default_context(cadata=front.authority_pem.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port, ssl=context)
    framing = b"Host: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(head + framing + body)
    response = await reader.read()
    writer.close()
    return int(response.split(b" ", 2)[1])


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_bytes().split(b"\n") if line]


@pytest.mark.parametrize("mode", MODES)
async def test_a_byte_in_a_header_does_not_end_the_audit_log(tmp_path: Path, mode: str) -> None:
    async with audited(tmp_path, mode) as (front, log):
        for number, header in enumerate((b"User-Agent: \xff", b"X-Forwarded-For: \xff", b"Accept: */*")):
            head = b"GET /version HTTP/1.1\r\nAudit-ID: \xfe%d\r\n%s\r\n" % (number, header)
            assert await send(front, head) == 200
    seen = [each["auditID"] for each in events(log) if each["stage"] == "ResponseComplete"]
    assert seen == ["\ufffd0", "\ufffd1", "\ufffd2"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("header", [b"User-Agent: \xff", b"Audit-ID: \xff"])
async def test_a_write_with_an_undecodable_header_is_audited(
    tmp_path: Path, mode: str, header: bytes
) -> None:
    body = b'{"apiVersion":"s.io/v1","kind":"Pizza","metadata":{"name":"a"}}'
    async with audited(tmp_path, mode, omitStages=["RequestReceived"]) as (front, log):
        head = b"POST /apis/s.io/v1/namespaces/default/pizzas HTTP/1.1\r\n%s\r\n" % header
        assert await send(front, head + b"Content-Type: application/json\r\n", body) == 201
    (event,) = [each for each in events(log) if each["stage"] == "ResponseComplete"]
    assert event["objectRef"]["name"] == "a"
    assert event["responseStatus"]["code"] == 201


HEADERS = ("User-Agent", "Audit-ID", "X-Forwarded-For", "X-Real-Ip", "Impersonate-User", "Impersonate-Group")
HEADERS += ("Impersonate-Extra-a", "Accept", "Content-Type", "Traceparent", "Authorization", "X-Remote-User")


async def test_every_request_with_any_header_is_audited(tmp_path: Path) -> None:
    """Fuzzes the bytes of headers, paths, queries and bodies."""
    values = st.binary(max_size=20).map(
        lambda raw: raw.translate(None, bytes((*range(9), *range(10, 32), 127)))
    )
    requests = st.tuples(
        st.dictionaries(st.sampled_from(HEADERS), values, max_size=4),
        st.binary(max_size=6).map(quote_from_bytes),
        st.sampled_from(("GET", "POST", "PATCH", "DELETE")),
        st.one_of(st.binary(max_size=20), st.sampled_from(BODIES)),
    )
    found: list[Any] = []

    @settings(max_examples=examples(120))
    @given(requests)
    def generate(request: Any) -> None:
        found.append(request)

    generate()
    async with audited(tmp_path, "blocking-strict") as (front, log):
        for number, (headers, name, method, body) in enumerate(found):
            lines = b"".join(b"%s: %s\r\n" % (key.encode(), value) for key, value in headers.items())
            path = f"/apis/s.io/v1/namespaces/default/pizzas/{name}?n={number}&q={name}"
            status = await send(front, f"{method} {path} HTTP/1.1\r\n".encode() + lines, body)
            assert status < 500 or b"text/" in lines, (headers, name, method, body)
    uris = {each["requestURI"].partition("n=")[2].partition("&")[0] for each in events(log)}
    assert uris == {str(number) for number in range(len(found))}


BODIES = (
    b'{"kind":"Table","rows":[1,null,{"object":2}],"items":[3]}',
    b'{"metadata":[],"items":{"a":1},"kind":"Table","rows":{}}',
    b'{"items":' * 300 + b"1" + b"}" * 300,
    b'[{"op":"add","path":"/a","value":1}]',
    b'{"a":\r1}',
    b'{"metadata":{"name":"\\ud800 "}}',
    b'a: "\\ud800"\n',
    b"{",
)


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "application/apply-patch+yaml"])
@pytest.mark.parametrize("body", BODIES)
async def test_every_body_is_audited(body: bytes, media: str, caplog: pytest.LogCaptureFixture) -> None:
    backend = Recorder()
    async with api_server(Auditor(policy(), [backend])) as server:
        for method, path in (("POST", "pizzas"), ("PATCH", "pizzas/a?fieldManager=m"), ("PUT", "pizzas/a")):
            request = HTTPRequest(
                method,
                f"/apis/s.io/v1/namespaces/default/{path}",
                headers={"Content-Type": media},
                body=body,
                user=ADMIN,
            )
            response = await server.handle(request)
            assert 400 <= response.status < 500, (method, response.body)
    assert [each["stage"] for each in backend.stored] == ["RequestReceived", "ResponseComplete"] * 3
    assert not [record for record in caplog.records if record.exc_info]


@given(
    texts=st.lists(any_text, min_size=8, max_size=8),
    data=st.recursive(any_text, lambda inner: st.dictionaries(any_text, inner, max_size=3), max_leaves=5),
)
def test_every_event_is_one_line(texts: list[str], data: Any) -> None:
    from kubewright.apiserver.audit.event import ObjectReference

    name, group, key, value, uri, agent, audit_id, resource = texts
    event = AuditEvent(
        level="Metadata",
        audit_id=audit_id,
        stage="ResponseComplete",
        request_uri=uri,
        verb=name,
        user={"username": name, "groups": [group], "extra": {key: [value]}},
        impersonated_user={"username": group},
        source_ips=[value],
        user_agent=agent,
        object_ref=ObjectReference(resource=resource, name=name),
        response_status={"details": data, "message": value},
        annotations={key: value},
        request_received_timestamp="2026-01-02T03:04:05.000001Z",
        stage_timestamp="2026-01-02T03:04:05.000002Z",
    )
    line = event.encode()
    assert b"\n" not in line
    written = json.loads(line)
    if not set("".join(texts)) & {chr(code) for code in range(0xD800, 0xE000)}:
        assert (written["auditID"], written["requestURI"]) == (audit_id, uri)
    assert set(written) >= {"kind", "apiVersion", "auditID", "requestURI", "user"} - (
        set() if audit_id and uri else {"auditID", "requestURI"}
    )
    assert b"\n" not in event.to_text().encode()
    limited = Recorder()
    assert TruncateEvents(limited, max_event_size=10, max_batch_size=10).process([event]) is True
    assert len(limited.stored) == 1


class Recorder:
    """A backend that stores encoded events, or fails."""

    name = "recorder"

    def __init__(self) -> None:
        self.stored: list[dict[str, Any]] = []
        self.error: Exception | None = None

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        if self.error is not None:
            raise self.error
        self.stored += [json.loads(each.encode()) for each in events]
        return True


class AsyncRecorder(Recorder):
    """A backend that fails when it is awaited, as a webhook does."""

    async def process(self, events: Sequence[AuditEvent]) -> bool:  # type: ignore[override]
        return bool(Recorder.process(self, events))


def metric(server: APIServer, name: str) -> float:
    lines = [line for line in server.metrics.render().decode().splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def create(server: APIServer, name: str) -> int:
    body = msgspec.json.encode({"apiVersion": "s.io/v1", "kind": "Pizza", "metadata": {"name": name}})
    path = "/apis/s.io/v1/namespaces/default/pizzas"
    return (await server.handle(HTTPRequest("POST", path, body=body, user=ADMIN))).status


async def get(server: APIServer, path: str) -> int:
    return (await server.handle(HTTPRequest("GET", path, user=ADMIN))).status


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
async def test_a_failing_backend_does_not_end_the_queue(kind: type[Recorder]) -> None:
    backend = kind()
    auditor = Auditor(policy(), [BatchBackend(backend, BatchOptions())])
    async with api_server(auditor) as server:
        backend.error = RuntimeError("disk on fire")
        assert await create(server, "a") == 201
        async with asyncio.timeout(60):
            while metric(server, "apiserver_audit_error_total") < 2:
                await asyncio.sleep(0)
        assert await get(server, "/readyz") == 200
        backend.error = None
        assert await create(server, "b") == 201
        async with asyncio.timeout(60):
            while not any(each.get("objectRef", {}).get("name") == "b" for each in backend.stored):
                await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
@pytest.mark.parametrize("omitted", [[], ["RequestReceived"], ["RequestReceived", "ResponseComplete"]])
async def test_a_request_that_cannot_be_audited_in_strict_mode_is_not_executed(
    kind: type[Recorder], omitted: list[str]
) -> None:
    backend = kind()
    async with api_server(Auditor(policy(omitStages=omitted), [backend])) as server:
        backend.error = OSError(errno.ENOSPC, "no space left on device")
        assert await create(server, "a") == 500
        assert metric(server, "apiserver_audit_error_total") >= 1
        assert metric(server, "apiserver_audit_requests_rejected_total") == 1
        assert await server.health.run("audit") is not None
        backend.error = None
        assert await get(server, "/apis/s.io/v1/namespaces/default/pizzas/a") == 404
        assert await create(server, "b") == 201
        assert await server.health.run("audit") is None
        assert await get(server, "/readyz") == 200


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
async def test_a_failing_backend_is_visible_in_blocking_mode(
    kind: type[Recorder], caplog: pytest.LogCaptureFixture
) -> None:
    backend = kind()
    async with api_server(Auditor(policy(), [IgnoreErrors(backend)])) as server:
        backend.error = RuntimeError("unavailable")
        assert await create(server, "a") == 201
        assert metric(server, 'apiserver_audit_error_total{plugin="recorder"}') == 2
        assert await get(server, "/readyz") == 200
    assert "audit backend failed" in [record.getMessage() for record in caplog.records]


async def test_a_partial_line_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogBackend(tmp_path / "audit.log")
    async with api_server(Auditor(policy(), [IgnoreErrors(log)])) as server:
        await create(server, "a")
        write, writes = os.write, []

        def fill_disk(file: int, data: bytes) -> int:
            writes.append(data)
            if len(writes) % 2:
                return write(file, bytes(data)[:20])
            raise OSError(errno.ENOSPC, "no space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", fill_disk)
            await create(server, "b")
        await create(server, "c")
    names = {each.get("objectRef", {}).get("name") for each in events(tmp_path / "audit.log")}
    assert names >= {"a", "c"}


async def test_events_are_stored_if_the_log_cannot_be_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogBackend(tmp_path / "audit.log", max_size=0.0001)

    def fail(*paths: Any) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    async with api_server(Auditor(policy(), [log])) as server:
        assert await create(server, "a") == 201
        monkeypatch.setattr(os, "rename", fail)
        assert await create(server, "b") == 201
    assert "b" in {each.get("objectRef", {}).get("name") for each in events(tmp_path / "audit.log")}


@given(values=st.dictionaries(st.sampled_from(["path", "user", "error"]), any_text))
def test_every_log_record_is_one_line(values: dict[str, str]) -> None:
    record = logging.makeLogRecord({"msg": "request", "levelname": "INFO", **values})
    line = JSONFormatter().format(record)
    assert len(line.encode().splitlines()) == 1
    assert set(json.loads(line)) >= {name for name, value in values.items() if value}
    text = ConsoleFormatter().format(record)
    assert text.isprintable()
    assert text.encode()
