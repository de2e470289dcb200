"""CronJob under faults: killed at every write, and with an unreachable server."""

import asyncio
from datetime import timedelta

from cronjob.controller import SCHEDULED_AT

from cronjob import controller, v1
from kubewright.api import ObjectMeta, set_controller_reference
from kubewright.api.batch.v1 import Job, JobSpec
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Container, Namespace, PodSpec, PodTemplateSpec
from kubewright.api.values.times import format_time
from kubewright.client import Client, ConnectionFailed, merge_patch
from kubewright.manager import Operator

TEMPLATE = v1.JobTemplate(
    spec=JobSpec(
        template=PodTemplateSpec(
            spec=PodSpec(containers=[Container(name="work", image="busybox")], restart_policy="OnFailure")
        )
    )
)


def keeping(namespace, world):
    """An operator for the CronJobs of one namespace, without webhooks."""
    operator = Operator("cronjob", namespaces=[namespace])
    controller.add_to(operator, world.now)
    return operator


class Death:
    """Simulates a killed process at its n-th write: before the request, or after the response."""

    def __init__(self, at: int, *, after: bool, created: list[str]) -> None:
        self.at = at
        self.after = after
        self.created = created
        self.writes: list[str] = []
        self.dead = asyncio.Event()

    async def __call__(self, call, proceed):
        if self.dead.is_set():
            await asyncio.Future()
        own = call.method != "GET" and str(call.resource) in ("jobs.batch", f"cronjobs.{v1.GROUP}")
        if not own:
            return await proceed(call)
        self.writes.append(f"{call.verb} {call.resource} {call.subresource}")
        fatal = len(self.writes) == self.at
        if fatal and not self.after:
            await self._die()
        response = await proceed(call)
        if call.verb == "create":
            self.created.append(call.name)
        if fatal:
            await self._die()
        return response

    async def _die(self):
        self.dead.set()
        await asyncio.Future()


async def prepare(world, namespace):
    """A CronJob that must replace a run and delete old Jobs."""
    client = world.client
    await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
    due = world.now().replace(second=0, microsecond=0) + timedelta(minutes=3)
    made = await client.create(
        v1.CronJob(
            metadata=ObjectMeta(name="hello", namespace=namespace),
            spec=v1.CronJobSpec(
                schedule=f"{due.minute} {due.hour} {due.day} {due.month} *",
                job_template=TEMPLATE,
                concurrency_policy="Replace",
                successful_jobs_history_limit=1,
            ),
        )
    )
    for name in ("old-0", "old-1", "running"):
        job = Job(metadata=ObjectMeta(name=name, namespace=namespace), spec=TEMPLATE.spec)
        job.metadata.annotations = {SCHEDULED_AT: format_time(world.now() - timedelta(minutes=9))}
        set_controller_reference(made, job)
        await client.create(job)
        if name != "running":
            await client.patch(job, merge_patch({"status": done(world.now())}), subresource="status")
    return due


def done(moment):
    when = format_time(moment)
    return {
        "startTime": when,
        "completionTime": when,
        "succeeded": 1,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": when, "reason": "Test"}
            for kind in ("SuccessCriteriaMet", "Complete")
        ],
    }


def settled(due):
    """Whether the run has started and the status is complete."""

    def holds(obj):
        status = obj.status
        progressing = status is not None and get_condition(status, "Progressing")
        return (
            bool(progressing)
            and progressing.reason == "JobsActive"
            and [each.name for each in status.active or ()] == [f"hello-{int(due.timestamp())}"]
        )

    return holds


async def end_state(world, namespace, due):
    """Return the final state without fields that differ between runs."""
    seen = await world.client.get(v1.CronJob, "hello", namespace=namespace)
    jobs = await world.client.list(Job, namespace=namespace)
    alive = [job.metadata.name for job in jobs if job.metadata.deletion_timestamp is None]
    return (
        sorted(name.replace(str(int(due.timestamp())), "DUE") for name in alive),
        sorted((each.type, each.status, each.reason) for each in seen.status.conditions),
        seen.status.last_schedule_time == due,
    )


async def live(world, namespace, due, death=None):
    """Run an operator until it is idle or killed."""
    operator = keeping(namespace, world)
    client = world.client if death is None else world.client.with_interceptor(death)
    goal = asyncio.create_task(
        world.client.wait(v1.CronJob, "hello", namespace=namespace, until=settled(due), timeout=900)
    )
    waits = {goal}
    if death is not None:
        waits.add(asyncio.create_task(death.dead.wait()))
    async with world.running(operator, client, dies=True):
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if death is None or not death.dead.is_set():
            await goal
    for each in waits:
        each.cancel()


async def test_kill_at_any_write_converges_to_the_same_state(world):
    await world.install(keeping("whole", world))
    due = await prepare(world, "whole")
    created: list[str] = []
    whole = Death(0, after=False, created=created)
    await live(world, "whole", due, whole)
    expected = await end_state(world, "whole", due)
    assert expected[0] == ["hello-DUE", "old-1"]
    assert created == [f"hello-{int(due.timestamp())}"]
    assert len(whole.writes) >= 6

    for after in (False, True):
        for at in range(1, 50):
            namespace = f"killed-{'after' if after else 'before'}-{at}"
            due = await prepare(world, namespace)
            created = []
            death = Death(at, after=after, created=created)
            await live(world, namespace, due, death)
            if death.dead.is_set():
                await live(world, namespace, due, Death(0, after=False, created=created))
            assert await end_state(world, namespace, due) == expected, death.writes
            assert created == [f"hello-{int(due.timestamp())}"], death.writes
            if not death.dead.is_set():
                break
        else:
            raise AssertionError("the reconcile never came to an end")
        assert at > 5


def has_run(obj):
    return obj.status is not None and obj.status.last_schedule_time is not None


class Away:
    """A transport whose server can become unreachable, which closes watches."""

    def __init__(self, real):
        self._real = real
        self._gone = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._real, name)

    def leave(self):
        self._gone.set()

    def come_back(self):
        self._gone = asyncio.Event()

    def _check(self):
        if self._gone.is_set():
            raise ConnectionFailed("the server is unreachable", sent=False)

    async def send(self, *args, **options):
        self._check()
        return await self._real.send(*args, **options)

    async def stream(self, *args, **options):
        self._check()
        return _Breaking(await self._real.stream(*args, **options), self._gone)


class _Breaking:
    def __init__(self, real, gone):
        self._real = real
        self._gone = gone

    def __getattr__(self, name):
        return getattr(self._real, name)

    async def __aiter__(self):
        chunks = aiter(self._real)
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            while True:
                chunk = asyncio.ensure_future(anext(chunks, None))
                await asyncio.wait([chunk, gone], return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    await asyncio.gather(chunk, return_exceptions=True)
                    raise ConnectionFailed("the server closed the connection")
                if (found := chunk.result()) is None:
                    return
                yield found
        finally:
            gone.cancel()


async def test_resumes_after_an_unreachable_server(world):
    transport = Away(world.server.transport)
    operator = keeping(world.namespace, world)
    async with world.running(operator, Client.from_transport(transport, namespace=world.namespace)):
        spec = v1.CronJobSpec(schedule="* * * * *", job_template=TEMPLATE)
        await world.client.create(v1.CronJob(metadata=world.meta("before"), spec=spec))
        first = await world.wait_for(
            v1.CronJob, "before", lambda obj: obj.status and obj.status.last_schedule_time
        )
        transport.leave()
        await world.client.create(v1.CronJob(metadata=world.meta("meanwhile"), spec=spec))
        await asyncio.sleep(60)
        transport.come_back()
        for name in ("before", "meanwhile"):
            seen = await world.wait_for(
                v1.CronJob,
                name,
                lambda obj: (
                    obj.status
                    and obj.status.last_schedule_time
                    and obj.status.last_schedule_time > first.status.last_schedule_time
                ),
            )
            due = int(seen.status.last_schedule_time.timestamp())
            assert await world.client.get(Job, f"{name}-{due}")
