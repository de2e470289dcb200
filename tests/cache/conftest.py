"""Fixtures: a server with injected faults, virtual time, and a control plane in process."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Namespace
from kubewright.api.errors import Expired, InternalError, too_large_resource_version, too_many_requests
from kubewright.client import (
    APIRequest,
    APIResponse,
    CallNext,
    Client,
    ClusterConfig,
    ConnectionFailed,
    ResponseStream,
)
from kubewright.client.listwatch.raw import RawPage, RawWatch
from kubewright.testing.server import TestServer, server_kinds, start_test_server

_numbers = itertools.count(1)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0

    def time(self) -> float:
        return self._virtual

    def _run_once(self) -> None:
        scheduled: Any = self._scheduled  # type: ignore[attr-defined]
        if not self._ready:  # type: ignore[attr-defined]
            while scheduled and scheduled[0]._cancelled:
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
                heapq.heappop(scheduled)._scheduled = False
            if scheduled:
                self._virtual = max(self._virtual, scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


class Faults:
    """Fault injection by rate; disabled by `calm`."""

    def __init__(self, rng: random.Random, rate: float) -> None:
        self.rng = rng
        self.rate = rate
        self.calm = False
        self.happened = 0

    def strikes(self, weight: float = 1.0) -> bool:
        if self.calm or self.rng.random() >= self.rate * weight:
            return False
        self.happened += 1
        return True


class ScriptedServer:
    """One collection, with history, pages, watches and initial events, as an API server has them.

    Everything passes through bytes, and every byte, event and request is a chance for a fault.
    """

    def __init__(self, rng: random.Random, *, rate: float = 0.0, streams: bool = True) -> None:
        self.rng = rng
        self.faults = Faults(rng, rate)
        self.streams = streams
        self.revision = 100
        self.compacted = 0
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.requests = 0
        self.request_times: list[float] = []
        self.cut_at: int | None = None
        """Break the connection after so many bytes of the first stream."""
        self._changed = asyncio.Event()
        self._epoch = 0
        self._uids = 0

    # What happens on the server

    def write(self, name: str, *, labels: dict[str, str] | None = None, namespace: str = "ns") -> bytes:
        self.revision += self.rng.randint(1, 3)
        known = self.objects.get((namespace, name))
        if known is None:
            self._uids += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": known["metadata"]["uid"] if known else f"uid-{self._epoch}-{self._uids}",
            "resourceVersion": str(self.revision),
            "labels": labels or {},
        }
        obj = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": metadata,
            "spec": {"revision": self.revision, "text": "x" * self.rng.randint(0, 40)},
        }
        self.objects[namespace, name] = obj
        self._log("MODIFIED" if known else "ADDED", obj)
        return json.dumps(obj).encode()

    def delete(self, name: str, namespace: str = "ns") -> str:
        self.revision += self.rng.randint(1, 3)
        obj = self.objects.pop((namespace, name))
        metadata = {**obj["metadata"], "resourceVersion": str(self.revision)}
        self._log("DELETED", {**obj, "metadata": metadata})
        return str(metadata["uid"])

    def _log(self, type: str, obj: dict[str, Any]) -> None:
        self.history.append((self.revision, type, obj))
        self._changed.set()
        self._changed = asyncio.Event()

    def compact(self) -> None:
        self.compacted = self.revision
        self.history.clear()

    def restart(self, *, lose_everything: bool = False) -> None:
        """Break every connection; forget the past, or even the present."""
        self._epoch += 1
        self.compact()
        if lose_everything:
            self.objects.clear()
            self.revision = 1
            self.compacted = 0
        self._changed.set()
        self._changed = asyncio.Event()

    # What clients see: the `ListerWatcher` of a reflector

    has_delivered_writes = True

    def request_progress(self, revision: int) -> None:
        """Bookmarks are sent without a request."""

    def _asked(self) -> None:
        self.requests += 1
        self.request_times.append(asyncio.get_running_loop().time())

    async def _trouble(self) -> None:
        self._asked()
        faults = self.faults
        if faults.strikes(0.3):
            await asyncio.sleep(self.rng.random() * 20)
        if faults.strikes():
            troubles: list[Callable[[], Exception]] = [
                lambda: ConnectionFailed("connection refused", sent=False),
                lambda: ConnectionFailed("reset by peer"),
                lambda: too_many_requests("slow down", self.rng.randint(1, 3)),
                lambda: InternalError("etcd has a bad day"),
                lambda: TimeoutError("no response"),
                lambda: Expired("too old resource version"),
            ]
            raise self.rng.choice(troubles)()

    async def list(self, *, limit: int, continue_: str) -> RawPage:
        await self._trouble()
        if continue_:
            snapshot_revision, after = continue_.split("/", 1)
            revision = int(snapshot_revision)
            if revision < self.compacted or self.faults.strikes(0.3):
                raise Expired("the continue token has expired")
            snapshot = self._at(revision)
        else:
            revision, after, snapshot = self.revision, "", dict(self.objects)
        names = sorted(key for key in snapshot if "/".join(key) > after)
        chosen = names[:limit] if limit else names
        more = len(chosen) < len(names)
        token = f"{revision}/{'/'.join(chosen[-1])}" if more else ""
        items = [msgspec.Raw(json.dumps(snapshot[key]).encode()) for key in chosen]
        return RawPage(items, str(revision), token, "example.com/v1", "Thing")

    def _at(self, revision: int) -> dict[tuple[str, str], dict[str, Any]]:
        """The state as of a revision that has not been compacted away."""
        state = dict(self.objects)
        for at, type_, obj in reversed(self.history):
            if at <= revision:
                break
            key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            before = next(
                (
                    old
                    for old_at, old_type, old in reversed(self.history)
                    if old_at < at
                    and (old["metadata"]["namespace"], old["metadata"]["name"]) == key
                    and old_type != "DELETED"
                ),
                None,
            )
            if type_ == "ADDED" or before is None:
                state.pop(key, None)
            else:
                state[key] = before
        return state

    async def watch(
        self, *, resource_version: str, initial_events: bool, timeout_seconds: int, idle_timeout: float
    ) -> RawWatch:
        await self._trouble()
        if initial_events and not self.streams:
            from kubewright.api.errors import Invalid

            raise Invalid("sendInitialEvents is forbidden")
        if not initial_events:
            if int(resource_version) > self.revision:
                raise too_large_resource_version(resource_version, self.revision)
            if int(resource_version) < self.compacted and self.rng.random() < 0.5:
                raise Expired("too old resource version")
        lines = self._lines(resource_version, initial_events, timeout_seconds)
        return RawWatch(_Stream(self, lines, idle_timeout), resource_version)

    async def _lines(
        self, resource_version: str, initial_events: bool, timeout_seconds: int
    ) -> AsyncIterator[bytes]:
        epoch = self._epoch
        end = asyncio.get_running_loop().time() + timeout_seconds
        if initial_events:
            position = self.revision
            for obj in list(self.objects.values()):
                yield _line("ADDED", obj)
            # A server sends what happens meanwhile before it says that the initial state is complete.
            if self.rng.random() < 0.5 and position >= self.compacted:
                for at, type_, obj in [each for each in self.history if each[0] > position]:
                    yield _line(type_, obj)
                    position = at
            yield _bookmark(position, initial_end=True)
        else:
            position = int(resource_version)
        while epoch == self._epoch:
            if position < self.compacted:
                yield _line("ERROR", Expired("too old resource version").to_status())
                return
            news = [each for each in self.history if each[0] > position]
            for at, type_, obj in news:
                yield _line(type_, obj)
                position = at
            if news:
                continue
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return
            changed = self._changed
            try:
                async with asyncio.timeout(min(left, 60.0)):
                    await changed.wait()
            except TimeoutError:
                yield _bookmark(self.revision)
                position = self.revision
        raise ConnectionFailed("the server closed the connection")


class _Stream:
    """The bytes of one watch, cut, split, repeated, delayed or silenced."""

    def __init__(self, server: ScriptedServer, lines: AsyncIterator[bytes], idle_timeout: float) -> None:
        self.status = 200
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._server = server
        self._lines = lines
        self._idle_timeout = idle_timeout

    async def __aiter__(self) -> AsyncIterator[bytes]:
        server, faults, rng = self._server, self._server.faults, self._server.rng
        before = b""
        async for line in self._lines:
            if server.cut_at is not None:
                if len(line) > server.cut_at:
                    part, server.cut_at = line[: server.cut_at], None
                    if part:
                        yield part
                    raise ConnectionFailed("reset in the middle")
                server.cut_at -= len(line)
            if faults.strikes(0.3):
                await asyncio.sleep(rng.random() * 5)
            if faults.strikes(0.2):
                await asyncio.sleep(self._idle_timeout)
                raise ConnectionFailed("silent for too long")
            if faults.strikes():
                part = line[: rng.randrange(len(line))]
                if part:
                    yield part
                if rng.random() < 0.5:
                    raise ConnectionFailed("reset in the middle")
                return
            if before and faults.strikes():
                yield before
            at = rng.randrange(len(line)) if faults.strikes(2) else 0
            if at:
                yield line[:at]
            yield line[at:]
            before = line

    async def aclose(self) -> None:
        await self._lines.aclose()  # type: ignore[attr-defined]


def _line(type: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


def _bookmark(revision: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata})


@pytest.fixture(scope="session")
def virtual_loop() -> Iterator[VirtualLoop]:
    """An event loop with virtual time."""
    loop = VirtualLoop()
    yield loop
    loop.close()


@pytest.fixture
def run_virtual(virtual_loop: VirtualLoop) -> Callable[[Awaitable[Any]], Any]:
    """Run a coroutine to its end in virtual time."""
    return lambda awaitable: virtual_loop.run_until_complete(awaitable)


@pytest.fixture
def scripted_server() -> type[ScriptedServer]:
    """The class of the server with injected faults."""
    return ScriptedServer


@pytest.fixture(params=server_kinds())
async def server(
    request: pytest.FixtureRequest, real_config: ClusterConfig | None
) -> AsyncIterator[TestServer]:
    async with start_test_server(request.param, real_config, controllers=False) as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"cache-{next(_numbers)}"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name


class Gate:
    """An interceptor that delays watch events while it is closed, and records requests."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.verbs: list[str] = []

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        self.verbs.append(call.verb)
        response = await proceed(call)
        return response if isinstance(response, APIResponse) else _Held(response, self._open)


class _Held:
    def __init__(self, stream: ResponseStream, opened: asyncio.Event) -> None:
        self.status, self.headers = stream.status, stream.headers
        self._stream = stream
        self._opened = opened

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            await self._opened.wait()
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.fixture
def gate() -> Gate:
    return Gate()
