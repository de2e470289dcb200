"""Writes of objects that are in an SQL table: every path stores what it acknowledges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from kubewright import APIServerApp, Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.api.encoding.codec import from_plain
from kubewright.api.errors import APIError, Conflict, Invalid, MethodNotAllowed, NotFound
from kubewright.apiserver import Operation, Strategy
from kubewright.client import merge_patch
from kubewright.extension import PageRequest, Rest, serve_app
from kubewright.testing import RunningApp, TestServer, run_app

from .sql_queues import Queue, QueueSpec, SqlQueues, jobs, queue

Serve = Callable[[APIServerApp], Awaitable[Client]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves an app without a cluster, instead of the one before; returns a client of it."""
    stack = AsyncExitStack()

    async def start(app: APIServerApp) -> Client:
        await stack.aclose()
        running = await stack.enter_async_context(serve_app(app, None))
        return running.client()

    async with stack:
        yield start


async def increment(client: Client, name: str) -> None:
    """Increment the workers of a queue, as a client does that reads and updates."""
    while True:
        current = await client.get(Queue, name)
        current.spec.workers += 1
        try:
            await client.update(current)
            return
        except Conflict:
            await asyncio.sleep(0)


@pytest.mark.control_plane(controllers=False)
async def test_concurrent_increments_are_all_stored(client: Client, running_app: RunningApp) -> None:
    rest = SqlQueues()
    await running_app(jobs(rest))
    await client.create(queue("a", workers=0))
    async with asyncio.timeout(60):
        await asyncio.gather(*(increment(client, "a") for _ in range(30)))
    assert (await rest.get("a", namespace="default")).spec.workers == 30
    assert (await client.get(Queue, "a")).metadata.generation == 31


async def test_writes_through_an_api_server(cluster: TestServer) -> None:
    """Behind the aggregation of a control plane, of a kube-apiserver with `KUBEBUILDER_ASSETS`."""
    rest = SqlQueues()
    client = cluster.client()
    async with run_app(jobs(rest), client), asyncio.timeout(120):
        await client.list(Queue)  # kube-apiserver responds with 503 until it has seen the APIService
        await client.create(queue("a", workers=0, finalizers=["example.com/a"]))
        watched: list[int] = []

        async def watch() -> None:
            async for event in client.watch(Queue, namespace="default"):
                watched.append(event.object.spec.workers)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(increment(client, "a") for _ in range(30)))
        assert (await rest.get("a", namespace="default")).spec.workers == 30
        await client.scale(Queue, "a", replicas=31)
        status = merge_patch({"status": {"ready": 3}})
        await client.subresource("status", Queue, "a").patch(status)
        stored = await rest.get("a", namespace="default")
        assert (stored.spec.workers, stored.status.ready) == (31, 3)
        while not watched or watched[-1] != 31:
            await asyncio.sleep(0.05)
        watching.cancel()
        assert watched == sorted(watched)
        await client.delete(Queue, "a")
        await client.patch(Queue, "a", merge_patch({"metadata": {"finalizers": None}}))
        assert list(await rest.list(namespace="")) == []


async def test_increments_through_two_servers_are_all_stored(tmp_path: Path) -> None:
    """The versions of the system protect against writers that do not share a lock."""
    path = str(tmp_path / "queues.db")
    async with (
        serve_app(jobs(SqlQueues(path)), None) as first,
        serve_app(jobs(SqlQueues(path)), None) as second,
        asyncio.timeout(60),
    ):
        clients = [first.client(), second.client()]
        await clients[0].create(queue("a", workers=0))
        await asyncio.gather(*(increment(clients[n % 2], "a") for n in range(30)))
        assert [(await each.get(Queue, "a")).spec.workers for each in clients] == [30, 30]


async def test_status_and_scale_are_stored(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest))
    made = await client.create(queue("a"))
    made.status.ready = 3
    updated = await client.update_status(made)
    assert (await rest.get("a", namespace="default")).status.ready == 3
    scaled = await client.scale(Queue, "a", replicas=5)
    assert scaled is not None
    stored = await rest.get("a", namespace="default")
    assert (stored.spec.workers, stored.status.ready) == (5, 3)
    read = await client.get(Queue, "a")
    assert (read.spec.workers, read.status.ready) == (5, 3)
    assert (updated.metadata.generation, read.metadata.generation) == (1, 2)


async def test_a_finalizer_delays_the_deletion(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest))
    made = await client.create(queue("a", finalizers=["example.com/a"]))
    await client.delete(Queue, "a")
    marked = await client.get(Queue, "a")
    assert marked.metadata.deletion_timestamp is not None
    assert (await rest.get("a", namespace="default")).metadata.finalizers == ["example.com/a"]
    await client.patch(Queue, "a", merge_patch({"metadata": {"finalizers": None}}))
    with pytest.raises(NotFound):
        await client.get(Queue, "a")
    with pytest.raises(NotFound):
        await rest.get("a", namespace="default")
    again = await client.create(queue("a"))
    assert again.metadata.uid != made.metadata.uid


async def test_names_are_generated(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest))
    made = [
        await client.create(
            Queue(metadata=ObjectMeta(generate_name="job-", namespace="default"), spec=QueueSpec())
        )
        for _ in range(3)
    ]
    assert {each.name for each in await rest.list(namespace="")} == {each.name for each in made}
    assert all(each.name.startswith("job-") for each in made)


async def test_metadata_of_the_server(serve: Serve) -> None:
    """uid and generation, whether or not the system stores them."""
    for rest in (Titles(), SqlQueues()):
        client = await serve(jobs(rest))
        made = await client.create(queue("a", title="x"))
        assert made.metadata.generation == 1
        assert (await client.get(Queue, "a")).metadata.uid == made.metadata.uid
        patched = await client.patch(Queue, "a", merge_patch({"spec": {"title": "y"}}))
        assert (patched.metadata.generation, patched.metadata.uid) == (2, made.metadata.uid)
        await client.delete(Queue, "a")
        again = await client.create(queue("a", title="x"))
        assert again.metadata.uid != made.metadata.uid
        assert again.metadata.generation == 1
        if isinstance(rest, Titles):
            rest.titles["a"] = "changed in the system"
            assert (await client.get(Queue, "a")).metadata.generation == 2


class Titles(Rest[Queue]):
    """A dict of titles in one namespace, which stores nothing else."""

    poll_interval = 60.0

    def __init__(self) -> None:
        self.titles: dict[str, str] = {}

    async def get(self, name: str, *, namespace: str) -> Queue:
        if name not in self.titles:
            raise NotFound(name)
        return Queue(
            metadata=ObjectMeta(name=name, namespace="default"), spec=QueueSpec(title=self.titles[name])
        )

    async def list(self, *, namespace: str) -> Iterable[Queue]:
        return [await self.get(name, namespace=namespace) for name in self.titles]

    async def create(self, obj: Queue) -> None:
        self.titles[obj.name] = obj.spec.title

    async def update(self, obj: Queue, old: Queue) -> None:
        self.titles[obj.name] = obj.spec.title

    async def delete(self, obj: Queue) -> None:
        del self.titles[obj.name]


async def test_what_a_system_does_not_store_is_rejected(serve: Serve) -> None:
    rest = Titles()
    client = await serve(jobs(rest))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    for field, value in (
        ("labels", {"a": "b"}),
        ("annotations", {"a": "b"}),
        ("finalizers", ["example.com/a"]),
        ("ownerReferences", [owner]),
    ):
        for dry_run in (False, True):
            message = (
                f"metadata.{field}: Forbidden: the backend of queues.jobs.example.com does not store {field}"
            )
            with pytest.raises(Invalid, match=message):
                await client.create(queue("a", **{field: value}), dry_run=dry_run)
    assert rest.titles == {}
    made = await client.create(queue("a"))
    made.status.ready = 3
    with pytest.raises(Invalid, match=r"status: Forbidden: the backend of queues.* does not store status"):
        await client.update_status(made)
    with pytest.raises(Invalid, match=r"metadata\.finalizers: Forbidden"):
        await client.delete(Queue, "a", propagation="Foreground")
    with pytest.raises(Invalid, match=r"metadata\.labels: Forbidden"):
        await client.patch(Queue, "a", merge_patch({"metadata": {"labels": {"a": "b"}}}))
    patch = merge_patch({"spec": {"workers": 7}})
    assert (await client.patch(Queue, "a", patch)).spec.workers == 1  # as it is stored
    # What kubectl adds is stored with the copy.
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    await client.patch(Queue, "a", merge_patch({"metadata": {"annotations": applied}}))
    assert (await client.get(Queue, "a")).metadata.annotations == applied


class Held(Titles):
    """Holds the result of the next `get` or `list` back until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        self.held, self.released = asyncio.Event(), asyncio.Event()

    async def _hold(self) -> None:
        if self.hold:
            self.hold = False
            self.held.set()
            await self.released.wait()

    async def list(self, *, namespace: str) -> Iterable[Queue]:
        found = await super().list(namespace=namespace)
        await self._hold()
        return found


async def list_titles(client: Client) -> list[str]:
    return [each.spec.title async for each in client.list(Queue)]


async def test_a_late_list_does_not_return_to_an_older_state(serve: Serve) -> None:
    for change in ("update", "delete"):
        rest = Held()
        client = await serve(jobs(rest))
        await client.create(queue("a", title="old"))
        await client.list(Queue)
        events: list[tuple[str, str]] = []
        async with asyncio.timeout(60), client.watch(Queue, namespace="default") as watch:
            first = await anext(watch)
            events.append((first.type, first.object.spec.title))
            rest.hold = True
            listing = asyncio.create_task(list_titles(client))
            await rest.held.wait()
            if change == "update":
                await client.patch(Queue, "a", merge_patch({"spec": {"title": "new"}}))
            else:
                await client.delete(Queue, "a")
            rest.released.set()
            listed = await listing
            await client.create(queue("end", title="end"))
            async for event in watch:
                events.append((event.type, event.object.spec.title))
                if event.object.name == "end":
                    break
        if change == "update":
            assert listed == ["new"]
            assert events == [("ADDED", "old"), ("MODIFIED", "new"), ("ADDED", "end")]
        else:
            assert listed == []
            assert events == [("ADDED", "old"), ("DELETED", "old"), ("ADDED", "end")]


class HeldGet(Held):
    async def list(self, *, namespace: str) -> Iterable[Queue]:
        return [await Titles.get(self, name, namespace=namespace) for name in self.titles]

    async def get(self, name: str, *, namespace: str) -> Queue:
        try:
            return await super().get(name, namespace=namespace)
        finally:
            await self._hold()


async def test_a_get_that_overlaps_a_write_does_not_return_to_an_older_state(serve: Serve) -> None:
    for change in ("update", "delete"):
        rest = HeldGet()
        client = await serve(jobs(rest))
        made = await client.create(queue("a", title="old"))
        async with asyncio.timeout(60), client.watch(Queue, namespace="default") as watch:
            events = [await anext(watch)]
            rest.hold = True
            getting = asyncio.create_task(client.get(Queue, "a"))
            await rest.held.wait()
            made.spec.title = "new"
            writing: asyncio.Task[Any] = asyncio.create_task(
                client.update(made) if change == "update" else client.delete(Queue, "a")
            )
            await asyncio.wait({writing}, timeout=0.2)  # a write without a lock would be finished
            rest.released.set()
            assert (await getting).spec.title == "old"
            await writing
            await client.create(queue("end", title="end"))
            while events[-1].object.name != "end":
                events.append(await anext(watch))
        changed = ("MODIFIED", "new") if change == "update" else ("DELETED", "old")
        seen = [(event.type, event.object.spec.title) for event in events]
        assert seen == [("ADDED", "old"), changed, ("ADDED", "end")]


async def test_pages_do_not_list_the_system_again(serve: Serve) -> None:
    class Counting(Titles):
        lists = 0

        async def list(self, *, namespace: str) -> Iterable[Queue]:
            self.lists += 1
            return await super().list(namespace=namespace)

    rest = Counting()
    rest.titles = {f"n{number:02}": str(number) for number in range(50)}
    client = await serve(jobs(rest))
    await client.list(Queue)
    before = rest.lists
    pages = [page async for page in pages_of(client, limit=5)]
    assert [name for page in pages for name in page] == sorted(rest.titles)
    assert len(pages) == 10
    assert rest.lists - before == 1


async def pages_of(client: Client, **options: Any) -> AsyncIterator[list[str]]:
    token = ""
    while True:
        page = await client.list_raw(Queue, namespace="default", continue_=token, **options)
        yield [from_plain(json.loads(bytes(each)), Queue).name for each in page.items]
        token = page.continue_
        if not token:
            return


async def test_pages_and_selectors_are_passed_to_the_system(serve: Serve) -> None:
    rest = SqlQueues()
    rest.poll_interval = 600.0
    client = await serve(jobs(rest))
    for number in range(12):
        title, label = ("even", "odd")[number % 2], str(number % 3)
        await client.create(queue(f"n{number:02}", title=title, labels={"third": label}))
    await client.list(Queue)
    rest.calls.clear()
    assert [page async for page in pages_of(client, limit=5)] == [
        [f"n{number:02}" for number in numbers] for numbers in (range(5), range(5, 10), range(10, 12))
    ]
    assert rest.calls == ["list_page"]
    selected = await client.list(Queue, fields={"spec.title": "odd"})
    assert [each.name for each in selected] == [f"n{number:02}" for number in range(1, 12, 2)]
    assert rest.calls == ["list_page", "list_page"]
    # Rows that other clients of the system have changed: another selection, a new row, a deleted one.
    for name, title in (("n00", "odd"), ("n01", "even")):
        spec = json.dumps({"title": title})
        rest.database.execute("UPDATE queues SET title = ?, spec = ? WHERE name = ?", (title, spec, name))
    rest.database.execute("DELETE FROM queues WHERE name = 'n03'")
    rest.calls.clear()
    selected = await client.list(Queue, fields={"spec.title": "odd"})
    assert [each.name for each in selected] == ["n00", "n05", "n07", "n09", "n11"]
    assert sorted(rest.calls) == ["get", "get", "list_page"]
    labelled = await client.list(Queue, labels={"third": "0"}, limit=2)
    assert [each.name for each in labelled] == ["n00", "n06"]
    assert "list" not in rest.calls


class Graceful(Strategy):
    def grace_period(self, op: Operation, obj: dict[str, Any], requested: int | None) -> int:
        return 30 if requested is None else requested


async def test_graceful_deletion(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest, strategy=Graceful()))
    await client.create(queue("a"))
    await client.delete(Queue, "a")
    stored = await rest.get("a", namespace="default")
    assert stored.metadata.deletion_grace_period_seconds == 30
    await client.delete(Queue, "a", grace_period=0)
    with pytest.raises(NotFound):
        await rest.get("a", namespace="default")


async def test_collections_are_deleted(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest))
    for name in ("a", "b", "c"):
        await client.create(queue(name, title=name))
    await client.delete_all(Queue, namespace="default", fields={"spec.title": "b"})
    assert [each.name for each in await rest.list(namespace="")] == ["a", "c"]


async def test_wrong_declarations_are_errors() -> None:
    class Neither(Rest[Queue]):
        async def create(self, obj: Queue) -> None: ...

    class Unknown(Titles):
        stores = ("labels", "spec")

    for rest, options, message in (
        (Neither(), {}, "Neither, the Rest of Queue, has neither get nor list"),
        (Unknown(), {}, "Unknown.stores has spec; use labels, annotations"),
        (Titles(), {"strategy": Graceful()}, 'the strategy of Queue has a grace period.*"finalizers"'),
    ):
        with pytest.raises(ValueError, match=message):
            jobs(rest, **options).build({})


async def test_a_failed_or_cancelled_write_is_read_again(serve: Serve) -> None:
    class Failing(Titles):
        async def update(self, obj: Queue, old: Queue) -> None:
            await super().update(obj, old)
            raise RuntimeError("the connection was lost after the commit")

    rest = Failing()
    client = await serve(jobs(rest))
    await client.create(queue("a", title="old"))
    async with asyncio.timeout(60), client.watch(Queue, namespace="default") as watch:
        await anext(watch)
        with pytest.raises(APIError):
            await client.patch(Queue, "a", merge_patch({"spec": {"title": "new"}}))
        assert (await anext(watch)).object.spec.title == "new"


async def test_changes_that_a_system_reports_are_read_again(serve: Serve) -> None:
    """A late event neither restores an old state nor a deleted object."""

    class Reporting(Titles):
        def __init__(self) -> None:
            super().__init__()
            self.changes: asyncio.Queue[Any] = asyncio.Queue()

        async def watch(self) -> AsyncIterator[Any]:
            while True:
                yield await self.changes.get()

    rest = Reporting()
    client = await serve(jobs(rest))
    await client.create(queue("a", title="new"))
    async with asyncio.timeout(60), client.watch(Queue, namespace="default") as watch:
        assert (await anext(watch)).object.spec.title == "new"
        rest.changes.put_nowait(("MODIFIED", queue("a", title="old")))
        rest.changes.put_nowait(("ADDED", queue("deleted", title="old")))
        rest.titles["b"] = "created in the system"
        rest.changes.put_nowait(("ADDED", queue("b", title="created in the system")))
        event = await anext(watch)
        assert (event.type, event.object.name) == ("ADDED", "b")


class OldSpec(Spec):
    names: list[str] = []


@resource(group="jobs.example.com", version="v1alpha1", kind="Queue")
class OldQueue(CustomResource[OldSpec, None]):
    """A version with another shape."""

    def convert_to(self, hub: type[Queue]) -> Queue:
        return hub(metadata=self.metadata, spec=QueueSpec(title="".join(self.spec.names)))

    @classmethod
    def convert_from(cls, hub: Queue) -> Self:
        return cls(metadata=hub.metadata, spec=OldSpec(names=[hub.spec.title]))


async def test_several_versions(serve: Serve) -> None:
    rest = SqlQueues()
    app = APIServerApp("jobs")
    app.add(Queue, OldQueue, hub=Queue, rest=rest)
    client = await serve(app)
    old = from_plain(
        {"metadata": {"name": "a", "namespace": "default"}, "spec": {"names": ["x", "y"]}}, OldQueue
    )
    made = await client.create(old)
    assert made.spec.names == ["xy"]
    assert (await rest.get("a", namespace="default")).spec.title == "xy"
    made.spec.names = ["z"]
    assert (await client.update(made)).spec.names == ["z"]
    assert (await client.get(Queue, "a")).spec.title == "z"


async def test_verbs_without_methods(serve: Serve) -> None:
    class ReadOnly(Titles):
        update = Rest.update  # type: ignore[assignment]

    rest = ReadOnly()
    rest.titles["a"] = "x"
    assert "update" not in ReadOnly().verbs
    client = await serve(jobs(rest))
    found = await client.get(Queue, "a")
    found.status.ready = 1
    with pytest.raises((MethodNotAllowed, Invalid)):
        await client.update_status(found)
    with pytest.raises(MethodNotAllowed):
        await client.scale(Queue, "a", replicas=3)


def test_page_requests_have_defaults() -> None:
    assert PageRequest() == PageRequest(namespace="", after=None, limit=0, labels=None, fields=None)


async def test_resource_versions_are_not_reused_after_a_restart(serve: Serve) -> None:
    rest = SqlQueues()
    client = await serve(jobs(rest))
    old = await client.create(queue("a", title="old"))
    await client.patch(Queue, "a", merge_patch({"spec": {"title": "new"}}))
    client = await serve(jobs(rest))
    read = await client.get(Queue, "a")
    assert read.metadata.uid == old.metadata.uid
    assert int(read.metadata.resource_version or 0) > int(old.metadata.resource_version or 0)
    old.spec.title = "lost update"
    with pytest.raises(Conflict):
        await client.update(old)
