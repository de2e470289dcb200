"""The manager: order of start and stop, and failures."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.manager import (
    BaseRunnable,
    Cluster,
    LeaderElector,
    LeadershipLost,
    Manager,
    ManagerStopped,
    ShutdownTimeout,
)


class Part:
    """Records its start and stop; needs `slow` seconds to stop."""

    def __init__(
        self, log: list[str], name: str, group: str = "", *, slow: float = 0.0, fails: Exception | None = None
    ) -> None:
        self.name = name
        self.log = log
        self.slow = slow
        self.fails = fails
        self.needs_leader = not group
        if group:
            self.group = group

    async def run(self, stop: asyncio.Event) -> None:
        self.log.append(f"+{self.name}")
        if self.fails is not None:
            raise self.fails
        try:
            await stop.wait()
            await asyncio.sleep(self.slow)
            self.log.append(f"-{self.name}")
        except asyncio.CancelledError:
            self.log.append(f"!{self.name}")
            raise


class Listener(Part):
    """Starts to listen with a delay, as a server does."""

    async def wait_until_started(self) -> None:
        await asyncio.sleep(5)
        self.log.append(f"={self.name}")


class Warm(Part):
    needs_warm_up = True

    async def warm_up(self) -> None:
        await asyncio.sleep(1)
        self.log.append(f"~{self.name}")

    async def stop_warm_up(self) -> None:
        self.log.append(f"_{self.name}")


def elector(client: Client, identity: str = "me", **options: Any) -> LeaderElector:
    return LeaderElector(
        client,
        "test",
        namespace="default",
        identity=identity,
        clock=asyncio.get_running_loop().time,
        **options,
    )


def manager_of(client: Client, **options: Any) -> Manager:
    return Manager(Cluster(client), handle_signals=False, **options)


async def test_a_runnable_needs_only_run_and_may_define_other_members(client, running, eventually) -> None:
    class Plain:
        def __init__(self) -> None:
            self.started = False

        async def run(self, stop: asyncio.Event) -> None:
            self.started = True
            await stop.wait()

    class Busy(Plain):
        needs_leader = False
        is_idle = False

    class Inherited(BaseRunnable):
        needs_leader = False
        started = False

        async def run(self, stop: asyncio.Event) -> None:
            self.started = True
            await stop.wait()

    plain, busy, inherited = Plain(), Busy(), Inherited()
    manager = manager_of(client, elector=elector(client))
    for each in (plain, busy, inherited):
        manager.add(each)
    assert manager.runnables[-3:] == [plain, busy, inherited]
    async with running(manager):
        await eventually(lambda: plain.started)
        assert busy.started
        assert inherited.started
        assert not manager.is_idle
        busy.is_idle = True
        assert manager.is_idle


async def test_a_group_that_does_not_exist_is_rejected(client) -> None:
    class Wrong(BaseRunnable):
        needs_leader = False
        group = "leader"

    with pytest.raises(ValueError, match="Wrong: unknown group 'leader'; expected one of events, http"):
        manager_of(client).add(Wrong())


async def test_groups_start_in_order_and_stop_in_reverse_order(client, running, eventually) -> None:
    log: list[str] = []
    manager = manager_of(client, elector=elector(client))
    manager.add(Part(log, "leader"))
    for group in ("others", "caches", "webhooks", "http", "events"):
        manager.add((Listener if group in ("http", "webhooks") else Part)(log, group, group))
    manager.add(Warm(log, "warm"))
    manager.on_stop(lambda: log.append("clean"))
    async with running(manager):
        await eventually(lambda: "+leader" in log)
        assert manager.ready
        assert log == [
            *("+events", "+http", "=http", "+webhooks", "=webhooks", "+caches", "+others"),
            *("~warm", "+leader", "+warm"),
        ]
        del log[:]
    assert log[:1] == ["-others"]
    assert set(log[1:3]) == {"-leader", "-warm"}
    assert log[3:] == ["-caches", "-webhooks", "-http", "clean", "-events"]
    assert not manager.ready


async def test_reconciles_finish_before_caches_and_clients_close(client, running, eventually) -> None:
    done: list[str] = []
    manager = Manager(Cluster(client, allow=[ConfigMap]), handle_signals=False)

    class Worker:
        async def run(self, stop: asyncio.Event) -> None:
            await stop.wait()
            await asyncio.sleep(10)
            await manager.client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")))
            done.append((await manager.client.get(ConfigMap, "late", namespace="default")).metadata.name)

    manager.add(Worker())
    async with running(manager):
        await eventually(lambda: manager.elected.is_set())
    assert done == ["late"]


async def test_runnable_that_does_not_stop_is_cancelled_and_reported(client, running, eventually) -> None:
    log: list[str] = []
    manager = manager_of(client, graceful_shutdown_timeout=30)
    manager.add(Part(log, "quick", slow=29))
    manager.add(Part(log, "slow", slow=31))
    with pytest.raises(ShutdownTimeout, match="did not stop within 30 s and were cancelled: Part slow"):
        async with running(manager):
            await eventually(lambda: len(log) == 2)
    assert log[2:] == ["-quick", "!slow"]


async def test_negative_grace_period_waits_without_limit(client, running, eventually) -> None:
    log: list[str] = []
    manager = manager_of(client, graceful_shutdown_timeout=-1)
    manager.add(Part(log, "slow", slow=100_000))
    async with running(manager):
        await eventually(lambda: log)
    assert log == ["+slow", "-slow"]


async def test_runnable_that_ignores_cancellation_does_not_block_others(client, running, eventually) -> None:
    class Stubborn:
        async def run(self, stop: asyncio.Event) -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if asyncio.get_running_loop().time() > 100:
                        raise

    manager = manager_of(client, graceful_shutdown_timeout=1)
    manager.add(Stubborn())
    with pytest.raises(ShutdownTimeout, match="Stubborn"):
        async with running(manager):
            await eventually(manager.elected.is_set)
    await asyncio.sleep(200)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_failing_runnable_stops_the_manager_with_its_error(client) -> None:
    log: list[str] = []
    manager = manager_of(client)
    manager.add(Part(log, "others", "others"))
    manager.add(Part(log, "broken", fails=ZeroDivisionError("oh")))
    with pytest.raises(ZeroDivisionError, match="oh"):
        await manager.run()
    assert log == ["+others", "+broken", "-others"]


async def test_failed_start_prevents_later_groups(client) -> None:
    class Deaf(Part):
        async def wait_until_started(self) -> None:
            await asyncio.Event().wait()

    log: list[str] = []
    manager = manager_of(client)
    manager.add(Deaf(log, "http", "http", fails=OSError("port taken")))
    manager.add(Part(log, "webhooks", "webhooks"))
    with pytest.raises(OSError, match="port taken"):
        await manager.run()
    assert log == ["+http"]


async def test_runnable_that_returns_early_is_ignored(client, running, eventually) -> None:
    class Job:
        done = False

        async def run(self, stop: asyncio.Event) -> None:
            self.done = True

    job = Job()
    manager = manager_of(client)
    manager.add(job)
    async with running(manager) as task:
        await eventually(lambda: job.done)
        await asyncio.sleep(100)
        assert not task.done()


async def test_runnables_added_later_start_with_their_group(client, running, eventually) -> None:
    log: list[str] = []
    held = elector(client, "another")
    await held.acquire()
    keeping = asyncio.create_task(held.renew())
    manager = manager_of(client, elector=elector(client))
    async with running(manager):
        await eventually(lambda: manager.ready)
        manager.add(Part(log, "others", "others"))
        manager.add(Warm(log, "warm"))
        manager.add(Part(log, "leader"))
        await asyncio.sleep(5)
        assert log == ["+others", "~warm"]
        keeping.cancel()
        await held.release()
        await eventually(lambda: "+leader" in log)
        manager.add(Part(log, "second"))
        await eventually(lambda: "+second" in log)


async def test_runnables_cannot_be_added_while_stopping(client, running, eventually) -> None:
    manager = manager_of(client)
    errors: list[BaseException] = []

    class Late:
        async def run(self, stop: asyncio.Event) -> None:
            await stop.wait()
            try:
                manager.add(Part([], "new"))
            except ManagerStopped as error:
                errors.append(error)

    manager.add(Late())
    async with running(manager):
        await eventually(manager.elected.is_set)
    assert len(errors) == 1


async def test_unknown_group_is_rejected(client) -> None:
    with pytest.raises(ValueError, match="unknown group 'middle'; expected one of events, http"):
        manager_of(client).add(Part([], "odd", "middle"))


async def test_a_manager_runs_once(client, running, eventually) -> None:
    manager = manager_of(client)
    async with running(manager):
        await eventually(manager.elected.is_set)
    with pytest.raises(RuntimeError, match="can only run once"):
        await manager.run()


async def test_stop_before_election_prevents_leadership(client, running, eventually) -> None:
    log: list[str] = []
    held = elector(client, "another")
    await held.acquire()
    manager = manager_of(client, elector=elector(client))
    manager.add(Part(log, "leader"))
    manager.add(Warm(log, "warm"))
    async with running(manager):
        await eventually(lambda: manager.ready)
    await held.release()
    await asyncio.sleep(100)
    assert log == ["~warm", "_warm"]
    assert not manager.elected.is_set()


async def test_stop_during_election_prevents_leadership(client) -> None:
    stop = asyncio.Event()
    log: list[str] = []

    class Slow(LeaderElector):
        async def acquire(self) -> None:
            await super().acquire()
            stop.set()

    mine = Slow(client, "test", namespace="default", clock=asyncio.get_running_loop().time)
    manager = manager_of(client, elector=mine)
    manager.add(Part(log, "leader"))
    await manager.run(stop)
    assert log == []
    other = elector(client, "another")
    await asyncio.wait_for(other.acquire(), 1)


async def test_lost_lease_stops_the_manager_and_blocks_writes(client, eventually) -> None:
    from kubewright.api.coordination.v1 import Lease

    log: list[str] = []
    manager = manager_of(client, elector=elector(client), graceful_shutdown_timeout=1000)
    errors: list[BaseException] = []

    class Writer:
        async def run(self, stop: asyncio.Event) -> None:
            try:
                await stop.wait()
                await manager.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            except LeadershipLost as error:
                errors.append(error)
                raise

    manager.add(Part(log, "slow", slow=500))
    manager.add(Writer())
    task = asyncio.create_task(manager.run())
    await eventually(manager.elected.is_set)
    lease = await client.get(Lease, "test", namespace="default")
    assert lease.spec is not None
    lease.spec.holder_identity = "thief"
    await client.update(lease)
    before = asyncio.get_running_loop().time()
    with pytest.raises(LeadershipLost, match="thief acquired the lease"):
        await task
    assert asyncio.get_running_loop().time() - before < 20
    assert log == ["+slow", "!slow"]
    assert [type(error) for error in errors] == [LeadershipLost]
    with pytest.raises(LeadershipLost):
        await manager.client.delete(ConfigMap, "a", namespace="default")
    lease = await client.get(Lease, "test", namespace="default")
    assert lease.spec is not None
    assert lease.spec.holder_identity == "thief"


async def test_additional_clusters_are_fenced_too(client, eventually) -> None:
    from kubewright.testing.server import start_test_server

    async with start_test_server("in-process", None, controllers=False) as second:
        other = Cluster(second.client(), name="other", allow=[ConfigMap])
        manager = manager_of(client, elector=elector(client))
        manager.add(other)
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        await eventually(manager.elected.is_set)
        made = await other.client.create(ConfigMap(metadata=ObjectMeta(name="there", namespace="default")))
        assert (
            await other.client.get(ConfigMap, "there", namespace="default")
        ).metadata.uid == made.metadata.uid
        assert [each.metadata.name async for each in client.list(ConfigMap, namespace="default")] == []
        stop.set()
        await task
        with pytest.raises(LeadershipLost):
            await other.client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")))


async def test_a_signal_stops_it(client, eventually) -> None:
    log: list[str] = []
    manager = Manager(Cluster(client))
    manager.add(Part(log, "leader", slow=3))
    task = asyncio.create_task(manager.run())
    await eventually(lambda: log)
    os.kill(os.getpid(), signal.SIGTERM)
    await task
    assert log == ["+leader", "-leader"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_cancelled_manager_stops_its_runnables(client, eventually) -> None:
    log: list[str] = []
    manager = manager_of(client)
    manager.add(Part(log, "leader"))
    task = asyncio.create_task(manager.run())
    await eventually(lambda: log)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["+leader", "-leader"]


async def test_write_is_not_retried_after_the_lease_expired(server, eventually) -> None:
    """The server responds with Retry-After 30 s; by then the lease has expired."""
    from multidict import CIMultiDict

    from kubewright.client.transport.interface import APIResponse

    attempts: list[str] = []

    class Busy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        async def send(self, method: str, path: str, *rest: Any) -> APIResponse:
            if method == "POST" and path.endswith("/configmaps"):
                attempts.append(path)
                return APIResponse(429, CIMultiDict({"Retry-After": "30"}), b"{}")
            if attempts and "/leases" in path:
                return APIResponse(500, CIMultiDict(), b"{}")
            return await self.inner.send(method, path, *rest)

    client = Client.from_transport(Busy(server.transport))  # type: ignore[arg-type]
    manager = manager_of(client, elector=elector(client))
    task = asyncio.create_task(manager.run())
    await eventually(manager.elected.is_set)
    writing = asyncio.create_task(
        manager.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    )
    for pending in (task, writing):
        with pytest.raises(LeadershipLost):
            await pending
    assert len(attempts) == 1
