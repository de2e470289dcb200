"""Random concurrent requests and watches through all replicas, recorded and checked.

A history has its own objects: clients create, read, list, update, patch and delete them, every request
through a random replica; watches resume at another replica after errors, after silence and at random. The
requests are checked for linearizability, the events against those of the store itself. Whether a
write without a response was applied is known from there, too: its value is unique.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from kubewright.storage import Storage
from kubewright.testing.linearizability import Operation, Outcome, find_violations

from .cluster import Cluster, Replica

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
STORAGE_PREFIX = "/registry/configmaps/default/"
CLIENTS, OPERATIONS, WATCHES = 4, 14, 2
VALUE = re.compile(rb"h\d+x\d+\.\d+")
"""Values of objects in their stored form."""
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
SILENCE, MAX_SILENCE = 0.7, 5.0
"""Seconds without an event after which a watch resumes at another replica; doubled while no event arrives.

Each of them costs a TLS handshake: on a busy machine, short ones would leave no time for anything else.
"""
OUTCOMES: dict[tuple[int, str], Outcome] = {
    (404, "NotFound"): "not_found",
    (409, "AlreadyExists"): "exists",
    (409, "Conflict"): "conflict",
}

Event = tuple[int, str, str]
"""Revision, type and name."""


class StoredEvents:
    """The events of all ConfigMaps as the store itself reports them, by history."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._events: dict[str, list[Event]] = defaultdict(list)
        self.revisions: dict[str, int] = {}
        """Revisions of all written values."""
        self._changed = asyncio.Condition()

    async def run(self, revision: int) -> None:
        async for batch in self._storage.watch(STORAGE_PREFIX, revision):
            async with self._changed:
                for event in batch:
                    name = event.key.removeprefix(STORAGE_PREFIX)
                    created = event.create_revision == event.revision
                    kind = "DELETED" if event.type == "delete" else "ADDED" if created else "MODIFIED"
                    self._events[name.partition("-")[0]].append((event.revision, kind, name))
                    if event.value is not None and (found := VALUE.search(event.value)):
                        self.revisions[found[0].decode()] = event.revision
                self._changed.notify_all()

    async def of(self, history: str) -> list[Event]:
        """All events of a history up to the last; a request without a response can be applied later."""
        events, end = self._events[history], f"{history}-end"
        async with self._changed:
            await self._changed.wait_for(lambda: any(name == end for _, _, name in events))
        del self._events[history]
        last = next(number for number, event in enumerate(events) if event[2] == end)
        return events[: last + 1]


class WatchStream:
    """The events that one client has received from all replicas, and its lists after 410."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lists: list[tuple[int, int, dict[str, int]]] = []
        """Last revision before the list, revision of the list, and the revisions of the objects in it."""

    def find_problems(self, expected: list[Event]) -> list[str]:
        """Compare with the events of the store; a list replaces the events up to its revision."""
        problems = []
        rest = [
            event
            for event in expected
            if not any(before < event[0] <= listed for before, listed, _ in self.lists)
        ]
        if self.events != rest:
            problems.append(f"watch events {self.events}\n  differ from the store's {rest}")
        for _, listed, objects in self.lists:
            stored: dict[str, int] = {}
            for revision, kind, name in expected:
                if revision <= listed and kind == "DELETED":
                    stored.pop(name, None)
                elif revision <= listed:
                    stored[name] = revision
            if objects != stored:
                problems.append(f"list at {listed} has {objects}, the store {stored}")
        return problems


@dataclass
class History:
    """One history: run it, then read its problems."""

    name: str
    cluster: Cluster
    stored_events: StoredEvents
    rng: random.Random
    pause: float
    operations: list[Operation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    step: str = ""
    """What it waits for, for the message of a history that does not end."""
    _values: int = 0

    async def run(self) -> None:
        """Run clients and watches, and check what they have seen."""
        keys = [f"{self.name}-a", f"{self.name}-b"]
        self.step = "first list"
        start = await self._current_revision()
        streams = [WatchStream() for _ in range(WATCHES)]
        watches = [asyncio.create_task(self._watch(start, stream)) for stream in streams]
        self.step = "requests"
        await asyncio.gather(*(self._client(number, keys) for number in range(CLIENTS)))
        self.step = "last object"
        await self._write_end()
        self.step = "watches"
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*watches)
        except TimeoutError:
            self.problems.append(f"{self.name}: a watch did not receive the last event within 60 s")
        self.step = "events of the store"
        expected = [event for event in await self.stored_events.of(self.name) if event[0] > start]
        for stream in streams:
            self.problems += [f"{self.name}: {problem}" for problem in stream.find_problems(expected)]
        self.counts["operations"] += len(self.operations)
        self.counts["events"] += sum(len(stream.events) for stream in streams)
        self.counts["unknown"] += sum(each.outcome == "unknown" for each in self.operations)
        operations = [each for each in map(self._resolve, self.operations) if each is not None]
        self.step = "search for an order"
        # In a thread: a long search would stop the proxies of the cluster.
        violations = await asyncio.to_thread(find_violations, operations)
        self.problems += [f"{self.name}: {violation}" for violation in violations]

    def _resolve(self, operation: Operation) -> Operation | None:
        """Return an operation with its revision, if it has no response; `None` if it was not applied.

        Without this, the search for an order takes too long if most requests have no response.
        """
        if operation.outcome != "unknown" or operation.value is None:
            return operation
        revision = self.stored_events.revisions.get(operation.value)
        if revision is None:
            return None
        return replace(operation, outcome="ok", revision=revision, returned=math.inf)

    async def _current_revision(self) -> int:
        while True:
            response = await self._send(self._any_replica(), "GET", self._selection())
            if response is not None and response[0] == 200:
                return int(response[1]["metadata"]["resourceVersion"])
            await asyncio.sleep(0.05)

    async def _write_end(self) -> None:
        """Create the object that ends the watches."""
        while True:
            body = self._object(f"{self.name}-end", "end")
            response = await self._send(self._any_replica(), "POST", CONFIG_MAPS, body)
            if response is not None and response[0] in (201, 409):
                return
            await asyncio.sleep(0.05)

    # Requests

    def _any_replica(self) -> Replica:
        return self.rng.choice(self.cluster.replicas)

    def _selection(self) -> str:
        return f"{CONFIG_MAPS}?labelSelector=history%3D{self.name}"

    def _object(self, name: str, value: str) -> dict[str, Any]:
        metadata = {"name": name, "labels": {"history": self.name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}

    async def _send(
        self,
        replica: Replica,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
    ) -> tuple[int, Any] | None:
        """Status and body of a response; `None` without one."""
        try:
            async with self.cluster.session.request(
                method,
                replica.url + path,
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type},
                timeout=REQUEST_TIMEOUT,
            ) as response:
                return response.status, json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def _client(self, number: int, keys: list[str]) -> None:
        seen: dict[str, int] = {}
        for _ in range(OPERATIONS):
            await asyncio.sleep(self.rng.uniform(0, self.pause))
            key, replica = self.rng.choice(keys), self._any_replica()
            verb = self.rng.choices(
                ("create", "get", "list", "update", "patch", "delete"), (3, 4, 2, 5, 2, 1)
            )[0]
            client = f"client {number} at {replica.name}"
            if verb == "list":
                await self._list(keys, replica, client)
                continue
            done = await self._request(verb, key, replica, client, seen.get(key))
            if done is not None:
                self.operations.append(done)
                if done.revision is not None:
                    seen[key] = done.revision

    async def _list(self, keys: list[str], replica: Replica, client: str) -> None:
        called = time.monotonic()
        response = await self._send(replica, "GET", self._selection())
        returned = time.monotonic()
        if response is None or response[0] != 200:
            return
        found = {item["metadata"]["name"]: item for item in response[1]["items"]}
        for key in keys:
            read = Operation(key, "get", called, returned, client=f"{client}, list")
            if (item := found.get(key)) is None:
                self.operations.append(replace(read, outcome="not_found"))
            else:
                self.operations.append(_with_object(read, item))

    async def _request(
        self, verb: str, key: str, replica: Replica, client: str, last: int | None
    ) -> Operation | None:
        """One request as an operation; `None` if it was a failed read."""
        self._values += 1
        value = f"{self.name}.{self._values}"
        expected = last if self.rng.random() < 0.8 else None
        path, method, content_type = f"{CONFIG_MAPS}/{key}", "GET", "application/json"
        body: dict[str, Any] | None = None
        if verb in ("create", "update", "patch"):
            body = self._object(key, value)
            if expected is not None and verb != "create":
                body["metadata"]["resourceVersion"] = str(expected)
        if verb == "create":
            method, path = "POST", CONFIG_MAPS
        elif verb == "update":
            method = "PUT"
        elif verb == "patch":
            method, content_type = "PATCH", "application/merge-patch+json"
        elif verb == "delete":
            method = "DELETE"
            if expected is not None:
                body = {"preconditions": {"resourceVersion": str(expected)}}
        called = time.monotonic()
        response = await self._send(replica, method, path, body, content_type)
        returned = time.monotonic()
        operation = Operation(
            key,
            "update" if verb == "patch" else verb,  # type: ignore[arg-type]
            called,
            returned,
            value=None if verb in ("get", "delete") else value,
            expected=expected if verb in ("update", "patch", "delete") else None,
            client=client,
        )
        if response is not None and response[0] in (200, 201):
            return operation if verb == "delete" else _with_object(operation, response[1])
        if verb == "get" and (response is None or response[0] != 404):
            return None
        status, details = response or (0, {})
        outcome = OUTCOMES.get((status, details.get("reason", "")), "unknown")
        if outcome == "conflict" and expected is None:
            return None  # The server has given up after several attempts; nothing was written.
        return replace(operation, outcome=outcome)

    # Watches

    async def _watch(self, revision: int, stream: WatchStream) -> None:
        """Receive events until the last, from one replica after the other."""
        replica = self._any_replica()
        silence = SILENCE
        while True:
            path = f"{self._selection()}&watch=1&allowWatchBookmarks=true&resourceVersion={revision}"
            limit = self.rng.randrange(3, 12)
            try:
                async with self.cluster.session.get(
                    replica.url + path, timeout=aiohttp.ClientTimeout(sock_connect=silence, sock_read=silence)
                ) as response:
                    if response.status == 200:
                        self.counts["streams"] += 1
                        async for line in response.content:
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                revision = await self._stream_failed(event["object"], revision, stream)
                                break
                            metadata = event["object"]["metadata"]
                            revision = int(metadata["resourceVersion"])
                            if event["type"] == "BOOKMARK":
                                continue
                            stream.events.append((revision, event["type"], metadata["name"]))
                            silence = SILENCE
                            if metadata["name"] == f"{self.name}-end":
                                return
                            limit -= 1
                            if not limit:
                                break
                    else:
                        status = json.loads(await response.read())
                        revision = await self._stream_failed(status, revision, stream)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                pass
            if stream.lists and f"{self.name}-end" in stream.lists[-1][2]:
                return  # The list after 410 has replaced the last event.
            silence = min(2 * silence, MAX_SILENCE)
            replica = self.rng.choice([each for each in self.cluster.replicas if each is not replica])
            await asyncio.sleep(0.01)

    async def _stream_failed(self, status: dict[str, Any], revision: int, stream: WatchStream) -> int:
        """Count an error; list again after 410, as informers do. Return the revision to resume at."""
        self.counts[f"watch errors {status.get('code')}"] += 1
        if status.get("code") != 410:
            return revision
        while True:
            response = await self._send(self._any_replica(), "GET", self._selection())
            if response is not None and response[0] == 200:
                break
            await asyncio.sleep(0.05)
        listed = int(response[1]["metadata"]["resourceVersion"])
        objects = {
            item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
            for item in response[1]["items"]
        }
        stream.lists.append((revision, listed, objects))
        return listed


def _with_object(operation: Operation, obj: dict[str, Any]) -> Operation:
    return replace(operation, value=obj["data"]["value"], revision=int(obj["metadata"]["resourceVersion"]))
