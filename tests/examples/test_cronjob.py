"""CronJob: schedule, history limits, events, status and webhooks."""

from datetime import UTC, datetime, timedelta

import pytest
from cronjob.controller import SCHEDULED_AT, job_for, plan

from cronjob import controller, make_operator, v1
from kubewright.api import ObjectMeta, set_controller_reference
from kubewright.api.batch.v1 import Job, JobSpec
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.errors import Invalid, NotFound
from kubewright.api.values.times import format_time
from kubewright.client import merge_patch
from kubewright.manager import Operator


def template(**metadata):
    pod = PodSpec(containers=[Container(name="work", image="busybox")], restart_policy="OnFailure")
    return v1.JobTemplate(
        metadata=v1.TemplateMetadata(**metadata), spec=JobSpec(template=PodTemplateSpec(spec=pod))
    )


def cron_job(world, name="hello", *, schedule="* * * * *", labels=None, annotations=None, **spec):
    return v1.CronJob(
        metadata=world.meta(name),
        spec=v1.CronJobSpec(
            schedule=schedule, job_template=template(labels=labels, annotations=annotations), **spec
        ),
    )


def alone(world):
    """The controller without webhooks."""
    operator = Operator("cronjob")
    controller.add_to(operator, world.now)
    return operator


def says(type, status, reason):
    def holds(obj):
        found = obj is not None and get_condition(obj.status, type)
        return bool(found) and (found.status, found.reason) == (status, reason)

    holds.__name__ = f"{type}={status}/{reason}"
    return holds


async def jobs_of(world):
    listed = await world.client.list(Job, namespace=world.namespace)
    return {job.metadata.name: job for job in listed}


async def first_run(world, made):
    """Wait for the first Job and return it."""
    seen = await world.wait_for(v1.CronJob, made.metadata.name, says("Progressing", "True", "JobsActive"))
    return await world.client.get(Job, seen.status.active[0].name)


async def hand_made(world, owner, name, *, due=None, status=None):
    """A Job of a CronJob, in some state."""
    job = Job(metadata=world.meta(name), spec=template().spec)
    if due is not None:
        job.metadata.annotations = {SCHEDULED_AT: due if isinstance(due, str) else format_time(due)}
    set_controller_reference(owner, job)
    await world.client.create(job)
    if status is not None:
        await world.client.patch(job, merge_patch({"status": status}), subresource="status")
    return job


def finished(how, start):
    """Return the status of a finished Job that passes validation."""
    since, end = format_time(start), format_time(start + timedelta(seconds=5))
    kinds = ("SuccessCriteriaMet", "Complete") if how == "Complete" else ("FailureTarget", "Failed")
    status = {
        "startTime": since,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": end, "reason": "Test"} for kind in kinds
        ],
    }
    if how == "Complete":
        status |= {"completionTime": end, "succeeded": 1}
    return status


async def finish(world, job, how="Complete"):
    await world.client.patch(job, merge_patch({"status": finished(how, world.now())}), subresource="status")


async def test_due_run_creates_a_job_from_the_template(world):
    async with world.running(alone(world)):
        made = await world.client.create(cron_job(world, labels={"app": "x"}, annotations={"note": "y"}))
        job = await first_run(world, made)
        due = controller.parse_time(job.metadata.annotations[SCHEDULED_AT])
        assert due > made.metadata.creation_timestamp
        assert due.second == 0
        assert due <= world.now() < due + timedelta(minutes=1)
        assert job.metadata.name == f"hello-{int(due.timestamp())}"
        assert job.metadata.labels.items() >= {"app": "x"}.items()
        assert job.metadata.annotations["note"] == "y"
        [owner] = job.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("CronJob", "hello", True)
        seen = await world.client.get(v1.CronJob, "hello")
        assert seen.status.last_schedule_time == due
        assert [each.uid for each in seen.status.active] == [job.metadata.uid]


async def test_every_minute_has_one_job(world):
    async with world.running(alone(world)):
        made = await world.client.create(cron_job(world))
        first = await first_run(world, made)
        start = controller.parse_time(first.metadata.annotations[SCHEDULED_AT])
        last = f"hello-{int((start + timedelta(minutes=4)).timestamp())}"
        await world.wait_for(Job, last, lambda job: job is not None)
        expected = {f"hello-{int((start + timedelta(minutes=n)).timestamp())}" for n in range(5)}
        assert set(await jobs_of(world)) == expected


async def test_conditions_are_set_before_the_first_run(world):
    async with world.running(alone(world)):
        far = world.now() + timedelta(days=2)
        await world.client.create(cron_job(world, schedule=f"0 0 {far.day} {far.month} *"))
        seen = await world.wait_for(v1.CronJob, "hello", says("Available", "True", "AllJobsCompleted"))
        assert seen.status.active is None
        assert seen.status.last_schedule_time is None
        assert says("Progressing", "False", "NoJobsActive")(seen)
        assert says("Degraded", "False", "AsExpected")(seen)
        assert await jobs_of(world) == {}


async def test_manually_created_job_is_listed_as_active(world):
    async with world.running(alone(world)):
        far = world.now() + timedelta(days=2)
        made = await world.client.create(cron_job(world, schedule=f"0 0 {far.day} {far.month} *"))
        job = await hand_made(
            world, made, "by-hand", status={"active": 2, "startTime": format_time(world.now())}
        )
        seen = await world.wait_for(v1.CronJob, "hello", says("Available", "True", "JobsActive"))
        assert [(each.kind, each.name, each.uid) for each in seen.status.active] == [
            ("Job", "by-hand", job.metadata.uid)
        ]


async def test_jobs_of_other_owners_are_ignored(world):
    async with world.running(alone(world)):
        far = world.now() + timedelta(days=2)
        schedule = f"0 0 {far.day} {far.month} *"
        await world.client.create(cron_job(world, schedule=schedule))
        other = await world.client.create(cron_job(world, "other", schedule=schedule, suspend=True))
        await hand_made(world, other, "theirs")
        await world.client.create(Job(metadata=world.meta("nobodys"), spec=template().spec))
        await world.wait_for(v1.CronJob, "other", says("Progressing", "True", "JobsActive"))
        seen = await world.wait_for(v1.CronJob, "hello", says("Available", "True", "AllJobsCompleted"))
        assert seen.status.active is None


async def test_failed_jobs_degrade_it(world):
    async with world.running(alone(world)):
        far = world.now() + timedelta(days=2)
        made = await world.client.create(cron_job(world, schedule=f"0 0 {far.day} {far.month} *"))
        await hand_made(world, made, "bad", status=finished("Failed", world.now()))
        seen = await world.wait_for(v1.CronJob, "hello", says("Available", "False", "JobsFailed"))
        assert says("Degraded", "True", "JobsFailed")(seen)


async def test_history_keeps_the_newest_of_each_outcome(world):
    made = None
    operator = alone(world)
    async with world.running(operator):
        far = world.now() + timedelta(days=2)
        made = await world.client.create(
            cron_job(
                world,
                schedule=f"0 0 {far.day} {far.month} *",
                suspend=True,
                successful_jobs_history_limit=2,
                failed_jobs_history_limit=1,
            )
        )
        start = world.now() - timedelta(hours=1)
        for n in range(4):
            await hand_made(
                world, made, f"good-{n}", status=finished("Complete", start + timedelta(minutes=n))
            )
        for n in range(3):
            await hand_made(world, made, f"bad-{n}", status=finished("Failed", start + timedelta(minutes=n)))
        for gone in ("good-0", "good-1", "bad-0", "bad-1"):
            await world.wait_for(Job, gone, _gone)
        left = {name for name, job in (await jobs_of(world)).items() if not job.metadata.deletion_timestamp}
        assert left == {"good-2", "good-3", "bad-2"}


def _gone(job):
    return job is None or job.metadata.deletion_timestamp is not None


async def test_run_is_not_repeated_after_its_job_was_deleted(world):
    async with world.running(alone(world)):
        made = await world.client.create(cron_job(world, successful_jobs_history_limit=0))
        job = await first_run(world, made)
        due = controller.parse_time(job.metadata.annotations[SCHEDULED_AT])
        await finish(world, job)
        await world.wait_for(Job, job.metadata.name, _gone)
        following = f"hello-{int((due + timedelta(minutes=1)).timestamp())}"
        await world.wait_for(Job, following, lambda job: job is not None)
        alive = {name for name, job in (await jobs_of(world)).items() if not job.metadata.deletion_timestamp}
        assert alive == {following}


async def test_suspended_cron_job_starts_no_jobs(world):
    async with world.running(alone(world)):
        await world.client.create(cron_job(world, suspend=True))
        await world.wait_for(v1.CronJob, "hello", says("Available", "False", "Suspended"))
        before = world.now()
        other = await world.client.create(cron_job(world, "other"))
        await first_run(world, other)
        assert world.now() > before
        assert [name for name in await jobs_of(world) if name.startswith("hello-")] == []
        await world.client.patch(v1.CronJob, "hello", merge_patch({"spec": {"suspend": False}}))
        await world.wait_for(v1.CronJob, "hello", says("Progressing", "True", "JobsActive"))


async def test_concurrency_policy_forbid(world):
    async with world.running(alone(world)):
        made = await world.client.create(
            cron_job(world, concurrency_policy="Forbid", starting_deadline_seconds=600)
        )
        first = await first_run(world, made)
        await world.client.create(cron_job(world, "other"))
        later = controller.parse_time(first.metadata.annotations[SCHEDULED_AT]) + timedelta(minutes=2)
        await world.wait_for(Job, f"other-{int(later.timestamp())}", lambda job: job is not None)
        assert [name for name in await jobs_of(world) if name.startswith("hello-")] == [first.metadata.name]
        await finish(world, first)
        seen = await world.wait_for(
            v1.CronJob,
            "hello",
            lambda obj: obj.status.active is not None and obj.status.active[0].name != first.metadata.name,
        )
        assert len(seen.status.active) == 1


async def test_concurrency_policy_replace(world):
    async with world.running(alone(world)):
        made = await world.client.create(cron_job(world, concurrency_policy="Replace"))
        first = await first_run(world, made)
        await world.wait_for(Job, first.metadata.name, _gone)
        due = controller.parse_time(first.metadata.annotations[SCHEDULED_AT]) + timedelta(minutes=1)
        await world.wait_for(Job, f"hello-{int(due.timestamp())}", lambda job: job is not None)


async def test_invalid_schedule_is_reported_and_not_retried(world):
    async with world.running(alone(world)):
        await world.client.create(cron_job(world, schedule="every now and then"))
        seen = await world.wait_for(v1.CronJob, "hello", says("Degraded", "True", "InvalidSchedule"))
        assert "five fields" in get_condition(seen.status, "Degraded").message
        await world.client.patch(v1.CronJob, "hello", merge_patch({"spec": {"schedule": "* * * * *"}}))
        await world.wait_for(v1.CronJob, "hello", says("Progressing", "True", "JobsActive"))


async def test_an_unreadable_annotation_is_skipped(world):
    async with world.running(alone(world)):
        far = world.now() + timedelta(days=2)
        made = await world.client.create(cron_job(world, schedule=f"0 0 {far.day} {far.month} *"))
        await hand_made(world, made, "odd", due="yesterday")
        due = world.now().replace(microsecond=0) - timedelta(minutes=5)
        await hand_made(world, made, "even", due=due)
        seen = await world.wait_for(
            v1.CronJob, "hello", lambda obj: obj.status and obj.status.last_schedule_time == due
        )
        assert {each.name for each in seen.status.active} == {"odd", "even"}


async def test_failed_job_creation_is_reported_and_retried(world):
    async with world.running(alone(world)):
        made = cron_job(world)
        made.spec.job_template.spec.template.spec.restart_policy = "Always"
        await world.client.create(made)
        seen = await world.wait_for(v1.CronJob, "hello", says("Degraded", "True", "JobCreationFailed"))
        assert "restartPolicy" in get_condition(seen.status, "Degraded").message
        seen.spec.job_template.spec.template.spec.restart_policy = "Never"
        await world.client.patch(seen)
        await world.wait_for(v1.CronJob, "hello", says("Progressing", "True", "JobsActive"))
        await world.wait_for(v1.CronJob, "hello", says("Degraded", "False", "AsExpected"))


async def test_job_of_another_owner_is_not_changed(world):
    async with world.running(alone(world)):
        due = world.now().replace(second=0, microsecond=0) + timedelta(minutes=5)
        made = cron_job(world, schedule=f"{due.minute} {due.hour} {due.day} {due.month} *")
        foreign = Job(metadata=world.meta(f"hello-{int(due.timestamp())}"), spec=template().spec)
        await world.client.create(foreign)
        await world.client.create(made)
        await world.wait_for(v1.CronJob, "hello", says("Degraded", "True", "JobCreationFailed"))
        seen = await world.client.get(Job, foreign.metadata.name)
        assert seen.metadata.owner_references is None
        await world.client.delete(seen, propagation="Background")
        await world.wait_for(v1.CronJob, "hello", says("Progressing", "True", "JobsActive"))


async def test_deleted_object_is_ignored(world):
    async with world.running(alone(world)):
        await world.client.create(cron_job(world))
        await world.wait_for(v1.CronJob, "hello", lambda obj: obj.status.conditions)
        await world.client.delete(v1.CronJob, "hello")
        other = await world.client.create(cron_job(world, "other"))
        await first_run(world, other)
        with pytest.raises(NotFound):
            await world.client.get(v1.CronJob, "hello")


NOON = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def planned(*, created=NOON, last=None, now=NOON, schedule="*/10 * * * *", **spec):
    made = v1.CronJob(
        metadata=ObjectMeta(name="x", creation_timestamp=created),
        spec=v1.CronJobSpec(schedule=schedule, job_template=template(), **spec),
    )
    return plan(made, last, now)


def minutes(count):
    return timedelta(minutes=count)


def test_latest_missed_run_is_started():
    found = planned(now=NOON + minutes(35))
    assert found.run == NOON + minutes(30)
    assert found.next == NOON + minutes(40)
    assert planned(last=NOON + minutes(30), now=NOON + minutes(35)).run is None
    assert planned(now=NOON + minutes(10)).run == NOON + minutes(10)


def test_more_than_a_hundred_missed_runs_are_an_error():
    assert planned(now=NOON + minutes(1000)).run == NOON + minutes(1000)
    found = planned(now=NOON + minutes(1010))
    assert found.run is None
    assert found.next is None
    assert found.problem[0] == "TooManyMissedRuns"
    assert planned(now=NOON + minutes(1010), starting_deadline_seconds=600).run == NOON + minutes(1010)


def test_run_past_its_deadline_is_skipped():
    found = planned(now=NOON + minutes(15), starting_deadline_seconds=60)
    assert found.run is None
    assert found.next == NOON + minutes(20)
    assert found.problem[0] == "MissedSchedule"
    assert planned(now=NOON + minutes(15), starting_deadline_seconds=301).run == NOON + minutes(10)


def test_job_name_contains_the_scheduled_time():
    made = v1.CronJob(
        metadata=ObjectMeta(name="x", namespace="y"),
        spec=v1.CronJobSpec(schedule="* * * * *", job_template=template()),
    )
    job = job_for(made, NOON)
    assert job.metadata.name == "x-1893499200"
    assert job.metadata.annotations == {SCHEDULED_AT: "2030-01-01T12:00:00Z"}


async def test_webhooks_default_and_validate(world):
    async with world.running(make_operator(world.now)):
        made = await world.client.create(cron_job(world, suspend=None))
        assert (made.spec.concurrency_policy, made.spec.suspend) == ("Allow", False)
        assert (made.spec.successful_jobs_history_limit, made.spec.failed_jobs_history_limit) == (3, 1)
        kept = await world.client.create(cron_job(world, "kept", suspend=True, failed_jobs_history_limit=7))
        assert (kept.spec.suspend, kept.spec.failed_jobs_history_limit) == (True, 7)
        with pytest.raises(Invalid) as excinfo:
            await world.client.create(cron_job(world, "n" * 53, schedule="61 * * * *"))
        causes = excinfo.value.details["causes"]
        # Webhooks of both versions are called, and either may respond first: v2 names the field.
        name, schedule = (cause["field"] for cause in causes)
        assert name == "metadata.name"
        assert schedule in ("spec.schedule", "spec.schedule.minute")
        with pytest.raises(Invalid, match=r"spec\.schedule"):
            await world.client.patch(v1.CronJob, "kept", merge_patch({"spec": {"schedule": "no"}}))
        await world.client.create(cron_job(world, "n" * 52))
        await world.client.delete(v1.CronJob, "kept")
