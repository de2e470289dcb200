"""A `Rest` on an SQL table."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from kubewright import APIServerApp, CustomResource, Spec, Status, resource
from kubewright.api.declaring.declarations import Scale
from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.errors import AlreadyExists, Conflict, NotFound
from kubewright.extension import PageRequest, Rest


class QueueSpec(Spec):
    workers: int = 1
    title: str = ""


class QueueStatus(Status):
    ready: int = 0


@resource(
    group="jobs.example.com",
    version="v1",
    scale=Scale(".spec.workers", ".status.ready"),
    selectable_fields=(".spec.title",),
)
class Queue(CustomResource[QueueSpec, QueueStatus]):
    """A queue in an SQL table."""


SCHEMA = """CREATE TABLE IF NOT EXISTS queues (
    namespace TEXT, name TEXT, version INTEGER, metadata TEXT, spec TEXT, status TEXT, title TEXT,
    PRIMARY KEY (namespace, name))"""


class SqlQueues(Rest[Queue]):
    """Queues in a table with a version per row, which compares versions of updates."""

    poll_interval = 0.05
    stores = ("labels", "annotations", "ownerReferences", "finalizers", "status")

    def __init__(self, path: str = ":memory:") -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute(SCHEMA)
        self.calls: list[str] = []

    def _query(self, sql: str, *values: Any) -> list[Queue]:
        rows = self.database.execute(f"SELECT version, metadata, spec, status FROM queues {sql}", values)
        return [self._queue(*row) for row in rows]

    def _queue(self, version: int, metadata: str, spec: str, status: str) -> Queue:
        plain = {
            "metadata": {**json.loads(metadata), "resourceVersion": str(version)},
            "spec": json.loads(spec),
            "status": json.loads(status),
        }
        return from_plain(plain, Queue)

    def _columns(self, obj: Queue) -> tuple[str, str, str, str]:
        plain = to_plain(obj)
        plain["metadata"].pop("managedFields", None)
        return (
            json.dumps(plain["metadata"]),
            json.dumps(plain.get("spec", {})),
            json.dumps(plain.get("status", {})),
            obj.spec.title,
        )

    async def _call(self, name: str) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)  # a database in another process

    async def get(self, name: str, *, namespace: str) -> Queue:
        await self._call("get")
        found = self._query("WHERE namespace = ? AND name = ?", namespace, name)
        await asyncio.sleep(0)
        if not found:
            raise NotFound(f"no queue {name}")
        return found[0]

    async def list(self, *, namespace: str) -> Iterable[Queue]:
        await self._call("list")
        found = self._query("WHERE namespace = ?1 OR ?1 = '' ORDER BY namespace, name", namespace)
        await asyncio.sleep(0)
        return found

    async def list_page(self, request: PageRequest) -> Iterable[Queue]:
        await self._call("list_page")
        title = request.fields.exact("spec.title") if request.fields is not None else None
        found = self._query(
            "WHERE (namespace = ?1 OR ?1 = '') AND (namespace, name) > (?2, ?3) "
            "AND title = ifnull(?4, title) ORDER BY namespace, name LIMIT ?5",
            request.namespace,
            *(request.after or ("", "")),
            title,
            request.limit if request.limit and request.labels is None else -1,
        )
        if request.labels is None:
            return found
        selected = [each for each in found if request.labels.matches(each.metadata.labels)]
        return selected[: request.limit or None]

    async def create(self, obj: Queue) -> None:
        await self._call("create")
        try:
            self.database.execute(
                "INSERT INTO queues VALUES (?, ?, 1, ?, ?, ?, ?)",
                (obj.metadata.namespace, obj.name, *self._columns(obj)),
            )
        except sqlite3.IntegrityError:
            raise AlreadyExists(f"queue {obj.name} exists") from None

    async def update(self, obj: Queue, old: Queue) -> None:
        await self._call("update")
        self._changed(
            "UPDATE queues SET version = version + 1, metadata = ?, spec = ?, status = ?, title = ? "
            "WHERE namespace = ? AND name = ? AND version = ?",
            old,
            *self._columns(obj),
        )
        await asyncio.sleep(0)

    async def delete(self, obj: Queue) -> None:
        await self._call("delete")
        self._changed("DELETE FROM queues WHERE namespace = ? AND name = ? AND version = ?", obj)
        await asyncio.sleep(0)

    def _changed(self, sql: str, old: Queue, *values: Any) -> None:
        key = (old.metadata.namespace, old.name, int(old.metadata.resource_version or 0))
        if not self.database.execute(sql, (*values, *key)).rowcount:
            raise Conflict(f"queue {old.name} has changed")


def queue(name: str, workers: int = 1, title: str = "", **metadata: Any) -> Queue:
    plain = {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"workers": workers, "title": title},
    }
    return from_plain(plain, Queue)


def jobs(rest: Rest[Queue], **options: Any) -> APIServerApp:
    app = APIServerApp("jobs")
    app.add(Queue, rest=rest, **options)
    return app
