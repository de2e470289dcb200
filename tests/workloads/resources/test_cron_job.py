"""CronJobs and the deletion of finished Jobs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.batch.v1 import CronJob, CronJobSpec, CronJobStatus, Job
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.cron_schedules import parse_schedule
from kubewright.client import patches
from kubewright.workloads.controllers.cron_job.controller import find_missed_times


def cron_job(schedule: str = "*/5 * * * *", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}},
            **spec,
        },
    }


async def jobs(cluster: Any) -> list[Job]:
    found = await cluster.client.list(Job, namespace="default")
    return sorted(found, key=lambda job: job.name)


async def finish(cluster: Any, job: Job, condition: str = "Complete") -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    interim = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": now} for each in (interim, condition)
    ]
    status = {"startTime": now, "conditions": conditions}
    if condition == "Complete":
        status["completionTime"] = now
    change = patches.merge_patch({"status": status})
    await cluster.client.patch("jobs", job.name, change, namespace="default", subresource="status")


async def test_schedule(run: Any) -> None:
    async with run("cronjob-controller") as cluster:
        client = cluster.client
        # Every five minutes, for the first time in one or two minutes.
        minute = (datetime.now(UTC) + timedelta(minutes=2)).minute % 5
        schedule = f"{minute}-59/5 * * * *"
        await client.create(cron_job(schedule, timeZone="Europe/Berlin", successfulJobsHistoryLimit=1))
        await asyncio.sleep(301)
        (first,) = await jobs(cluster)
        assert first.metadata.annotations is not None
        scheduled = datetime.fromisoformat(
            first.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        )
        assert scheduled.minute % 5 == minute
        assert scheduled.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
        assert first.name == f"tick-{int(scheduled.timestamp()) // 60}"
        assert first.metadata.labels == {"a": "b"}
        status = (await client.get(CronJob, "tick", namespace="default")).status
        assert status is not None
        assert [each.name for each in status.active or ()] == [first.name]
        assert status.last_schedule_time == scheduled
        await finish(cluster, first)
        await asyncio.sleep(1)
        status = (await client.get(CronJob, "tick", namespace="default")).status
        assert status is not None
        assert status.active is None
        assert status.last_successful_time is not None
        await asyncio.sleep(300)
        second = (await jobs(cluster))[-1]
        assert second.name != first.name
        await finish(cluster, second)
        await asyncio.sleep(1)
        assert [job.name for job in await jobs(cluster)] == [second.name]
        events = await cluster.events()
        assert ("SuccessfulCreate", f"Created job {first.name}") in events
        assert ("SawCompletedJob", f"Saw completed job: {first.name}, condition: Complete") in events
        assert ("SuccessfulDelete", f"Deleted job {first.name}") in events
        await client.patch(
            "cronjobs", "tick", patches.merge_patch({"spec": {"suspend": True}}), namespace="default"
        )
        await asyncio.sleep(1)
        writes = len(cluster.requests)
        await asyncio.sleep(3600)
        assert len(cluster.requests) == writes


async def test_concurrency_policies(run: Any) -> None:
    async with run("cronjob-controller") as cluster:
        client = cluster.client
        await client.create(cron_job("* * * * *", concurrencyPolicy="Forbid"))
        await asyncio.sleep(130)
        (only,) = await jobs(cluster)
        assert any(reason == "JobAlreadyActive" for reason, _ in await cluster.events())
        change = patches.merge_patch({"spec": {"concurrencyPolicy": "Replace"}})
        await client.patch("cronjobs", "tick", change, namespace="default")
        await asyncio.sleep(61)
        (replaced,) = await jobs(cluster)
        assert replaced.name != only.name
        await client.delete(Job, replaced.name, namespace="default", propagation="Background")
        await asyncio.sleep(1)
        events = await cluster.events()
        assert ("MissingJob", f"Active job went missing: {replaced.name}") in events


def test_missed_times() -> None:
    last = datetime(2024, 1, 1, tzinfo=UTC)
    made = CronJob(
        metadata=ObjectMeta(name="x"),
        spec=CronJobSpec(schedule="* * * * *"),
        status=CronJobStatus(last_schedule_time=last),
    )
    schedule = parse_schedule("* * * * *")
    few = find_missed_times(made, schedule, last + timedelta(minutes=3, seconds=2), within_deadline=True)
    assert few.most_recent == last + timedelta(minutes=3)
    many = find_missed_times(made, schedule, last + timedelta(hours=3), within_deadline=True)
    assert many.missed > 100
    assert made.spec is not None
    made.spec.starting_deadline_seconds = 30
    late = find_missed_times(made, schedule, last + timedelta(seconds=100), within_deadline=True)
    assert late.most_recent is None


async def test_ttl_after_finished(run: Any) -> None:
    async with run("ttl-after-finished-controller", controllers=True) as cluster:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = await cluster.client.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "once", "namespace": "default"},
                "spec": {"ttlSecondsAfterFinished": 100, "template": template},
            }
        )
        assert job
        (made,) = await jobs(cluster)
        await finish(cluster, made, "Failed")
        await asyncio.sleep(90)
        assert await jobs(cluster)
        await asyncio.sleep(20)
        assert not await jobs(cluster)
