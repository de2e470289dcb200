"""Jobs: completions, indexes, failures and their policies, suspension, deadlines, ownership."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.batch.v1 import Job
from kubewright.api.conditions import get_condition, is_condition_true
from kubewright.api.core.v1 import Pod
from kubewright.client import patches
from kubewright.workloads.controllers.job.pod_states import format_indexes, parse_indexes


def job(name: str = "work", *, restart: str = "Never", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def pods(cluster: Any, *, active: bool = True) -> list[Pod]:
    found = await cluster.client.list(Pod, namespace="default")
    return [
        pod
        for pod in sorted(found, key=lambda each: each.name)
        if not active
        or (pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed"))
    ]


async def wait_for_pods(cluster: Any, count: int, timeout: float = 60.0) -> list[Pod]:
    async def check() -> Any:
        found = await pods(cluster)
        return (found or True) if len(found) == count else None

    found = await cluster.eventually(check, timeout)
    return [] if found is True else list(found)


async def wait_for_condition(cluster: Any, type_: str, name: str = "work", timeout: float = 60.0) -> Job:
    async def check() -> Any:
        found = await cluster.client.get(Job, name, namespace="default")
        return found if is_condition_true(found.status, type_) else None

    found: Job = await cluster.eventually(check, timeout)
    return found


async def fail(cluster: Any, pod: Pod, code: int = 1) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminated = {"exitCode": code, "finishedAt": now}
    status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    await cluster.set_pod(
        pod.name, phase="Failed", containerStatuses=[{**status, "state": {"terminated": terminated}}]
    )


def test_index_sets() -> None:
    assert format_indexes({0, 2, 3, 4, 6, 7}) == "0,2-4,6,7"
    assert format_indexes([]) == ""
    assert parse_indexes("0,2-4,x,9", 4) == {0, 2, 3}
    assert parse_indexes(None, 4) == set()


async def test_completions(run: Any) -> None:
    async with run("job-controller") as cluster:
        await cluster.client.create(job(completions=3, parallelism=2))
        first = await wait_for_pods(cluster, 2)
        assert all(pod.name.startswith("work-") for pod in first)
        assert first[0].metadata.finalizers == ["batch.kubernetes.io/job-tracking"]
        for pod in first:
            await cluster.set_pod(pod.name)

        async def ready() -> Any:
            return (await cluster.client.get(Job, "work", namespace="default")).status.ready == 2

        await cluster.eventually(ready)
        for pod in first:
            await cluster.set_pod(pod.name, phase="Succeeded")
        (last,) = await wait_for_pods(cluster, 1)
        await cluster.set_pod(last.name, phase="Succeeded")
        done = await wait_for_condition(cluster, "Complete")
        assert done.status is not None
        assert (done.status.succeeded, done.status.failed, done.status.active) == (3, None, None)
        assert (done.status.ready, done.status.terminating) == (0, 0)
        assert done.status.completion_time is not None
        assert [(each.type, each.reason, each.message) for each in done.status.conditions or ()] == [
            ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"),
            ("Complete", "CompletionsReached", "Reached expected number of succeeded pods"),
        ]
        assert not any(pod.metadata.finalizers for pod in await pods(cluster, active=False))
        events = await cluster.events()
        assert [reason for reason, _ in events] == ["SuccessfulCreate"] * 3 + ["Completed"]
        assert events[-1][1] == "Job completed"
        writes = len(cluster.requests)
        await asyncio.sleep(3600)
        assert len(cluster.requests) == writes


async def test_indexed(run: Any) -> None:
    async with run("job-controller") as cluster:
        await cluster.client.create(job(completions=4, parallelism=4, completionMode="Indexed"))
        found = await wait_for_pods(cluster, 4)
        assert [pod.spec.hostname for pod in found if pod.spec] == [f"work-{index}" for index in range(4)]
        assert found[2].name.startswith("work-2-")
        assert found[2].metadata.annotations is not None
        assert found[2].metadata.annotations["batch.kubernetes.io/job-completion-index"] == "2"
        assert found[2].spec is not None
        (variable,) = (found[2].spec.containers or [])[0].env or []
        assert variable.name == "JOB_COMPLETION_INDEX"
        for index in (0, 1, 3):
            await cluster.set_pod(found[index].name, phase="Succeeded")

        async def completed() -> Any:
            status = (await cluster.client.get(Job, "work", namespace="default")).status
            return status.completed_indexes == "0,1,3"

        await cluster.eventually(completed)
        await cluster.set_pod(found[2].name, phase="Succeeded")
        done = await wait_for_condition(cluster, "Complete")
        assert done.status is not None
        assert (done.status.completed_indexes, done.status.succeeded) == ("0-3", 4)


async def test_backoff_limit(run: Any) -> None:
    async with run("job-controller") as cluster:
        loop = asyncio.get_running_loop()
        await cluster.client.create(job(backoffLimit=2))
        delays = []
        for _ in range(3):
            (pod,) = await wait_for_pods(cluster, 1)
            await fail(cluster, pod)
            await wait_for_pods(cluster, 0)
            started = loop.time()
            if len(delays) < 2:
                await wait_for_pods(cluster, 1)
                delays.append(loop.time() - started)
        assert 8 <= delays[0] <= 11
        assert 18 <= delays[1] <= 21
        failed = await wait_for_condition(cluster, "Failed")
        assert failed.status is not None
        assert failed.status.failed == 3
        condition = get_condition(failed.status, "Failed")
        assert condition is not None
        assert condition.reason == "BackoffLimitExceeded"
        assert condition.message == "Job has reached the specified backoff limit"
        events = await cluster.events()
        assert events[-1] == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


async def test_backoff_limit_per_index(run: Any) -> None:
    async with run("job-controller") as cluster:
        await cluster.client.create(
            job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
        )
        first, second = await wait_for_pods(cluster, 2)
        await cluster.set_pod(second.name, phase="Succeeded")
        await fail(cluster, first)
        await wait_for_pods(cluster, 0)
        (again,) = await wait_for_pods(cluster, 1)
        assert again.metadata.annotations is not None
        assert again.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
        await fail(cluster, again)
        failed = await wait_for_condition(cluster, "Failed")
        assert failed.status is not None
        assert (failed.status.failed_indexes, failed.status.completed_indexes) == ("0", "1")
        condition = get_condition(failed.status, "Failed")
        assert condition is not None
        assert (condition.reason, condition.message) == ("FailedIndexes", "Job has failed indexes")


async def test_pod_failure_policy(run: Any) -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    async with run("job-controller") as cluster:
        await cluster.client.create(
            job(completions=2, parallelism=2, backoffLimit=0, podFailurePolicy={"rules": rules})
        )
        first, second = await wait_for_pods(cluster, 2)
        condition = {"type": "DisruptionTarget", "status": "True"}
        await cluster.set_pod(first.name, phase="Failed", conditions=[condition])
        await wait_for_pods(cluster, 1)
        found = await wait_for_pods(cluster, 2)
        await fail(cluster, second, code=42)
        failed = await wait_for_condition(cluster, "Failed")
        reason = get_condition(failed.status, "FailureTarget")
        assert reason is not None
        assert reason.reason == "PodFailurePolicy"
        assert reason.message == (
            f"Container c for pod default/{second.name} failed with exit code 42 "
            "matching FailJob rule at index 1"
        )
        assert failed.status is not None
        assert failed.status.failed == 2, "the pod with exit code 42 and the one that was deleted"
        assert len(found) == 2


async def test_success_policy(run: Any) -> None:
    async with run("job-controller") as cluster:
        policy = {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]}
        await cluster.client.create(
            job(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
        )
        found = await wait_for_pods(cluster, 3)
        await cluster.set_pod(found[1].name, phase="Succeeded")
        await wait_for_pods(cluster, 2)
        await cluster.set_pod(found[2].name, phase="Succeeded")
        done = await wait_for_condition(cluster, "Complete")
        condition = get_condition(done.status, "Complete")
        assert condition is not None
        assert (condition.reason, condition.message) == ("SuccessPolicy", "Matched rules at index 0")
        assert await pods(cluster) == []
        assert done.status is not None
        assert done.status.failed is None


async def test_suspend_and_deadline(run: Any) -> None:
    async with run("job-controller") as cluster:
        client = cluster.client
        await client.create(job(suspend=True, activeDeadlineSeconds=100, parallelism=2, completions=2))
        suspended = await wait_for_condition(cluster, "Suspended")
        assert suspended.status is not None
        assert suspended.status.start_time is None
        await asyncio.sleep(500)
        assert await pods(cluster) == []
        resume = patches.merge_patch({"spec": {"suspend": False}})
        await client.patch("jobs", "work", resume, namespace="default")
        await wait_for_pods(cluster, 2)
        stop = patches.merge_patch({"spec": {"suspend": True}})
        await client.patch("jobs", "work", stop, namespace="default")
        await wait_for_pods(cluster, 0)
        await client.patch("jobs", "work", resume, namespace="default")
        await wait_for_pods(cluster, 2)
        failed = await wait_for_condition(cluster, "Failed", timeout=200)
        condition = get_condition(failed.status, "Failed")
        assert condition is not None
        assert (condition.reason, condition.message) == (
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
        reasons = [reason for reason, _ in await cluster.events()]
        assert {"Suspended", "Resumed"} <= set(reasons)


async def test_other_manager_and_deleted_job(run: Any) -> None:
    async with run("job-controller") as cluster:
        client = cluster.client
        await client.create(job("other", managedBy="example.com/queue"))
        await client.create(job())
        await wait_for_pods(cluster, 1)
        await client.delete(Job, "work", namespace="default", propagation="Background")

        async def released() -> Any:
            (found,) = await pods(cluster, active=False)
            return not found.metadata.finalizers

        await cluster.eventually(released)
        other = await client.get(Job, "other", namespace="default")
        assert other.status is None or other.status.start_time is None


@pytest.mark.parametrize("adopt", [True, False])
async def test_adoption_and_release(run: Any, pod: Any, adopt: bool) -> None:
    async with run("job-controller") as cluster:
        client = cluster.client
        made = job(manualSelector=True, selector={"matchLabels": {"run": "x"}})
        made["spec"]["template"]["metadata"] = {"labels": {"run": "x"}}
        if adopt:
            await client.create(pod("orphan", {"run": "x"}, restartPolicy="Never"))
            await client.create(made)

            async def adopted() -> Any:
                found = await client.get(Pod, "orphan", namespace="default")
                return found.metadata.owner_references and found.metadata.finalizers

            await cluster.eventually(adopted)
            assert len(await pods(cluster)) == 1
            return
        await client.create(made)
        (owned,) = await wait_for_pods(cluster, 1)
        label = patches.merge_patch({"metadata": {"labels": {"run": "y"}}})
        await client.patch("pods", owned.name, label, namespace="default")
        await wait_for_pods(cluster, 2)
        released = await client.get(Pod, owned.name, namespace="default")
        assert not released.metadata.owner_references
        assert not released.metadata.finalizers
