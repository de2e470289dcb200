"""The `At` example: a command runs once at a given time."""

from datetime import timedelta

from at import At, AtSpec, Phase, make_operator
from kubewright.api.core.v1 import Pod
from kubewright.client import exists, field_is, is_deleted, merge_patch


def at(world, name, when, command="echo hello world"):
    return At(metadata=world.meta(name), spec=AtSpec(schedule=when, command=command))


def phase(wanted):
    return field_is(".status.phase", str(wanted))


async def test_command_runs_at_its_time_and_completes(world):
    async with world.running(make_operator(world.now)):
        when = world.now().replace(microsecond=0) + timedelta(minutes=5)
        await world.client.create(at(world, "later", when))
        await world.wait_for(At, "later", phase(Phase.PENDING))
        pod = await world.wait_for(Pod, "later-pod", exists)
        assert world.now() >= when
        assert pod.spec.containers[0].command == ["echo", "hello", "world"]
        assert (pod.metadata.labels, pod.spec.restart_policy) == ({"app": "later"}, "OnFailure")
        assert pod.metadata.owner_references[0].controller
        await world.wait_for(At, "later", phase(Phase.RUNNING))
        await world.client.patch(pod, merge_patch({"status": {"phase": "Succeeded"}}), subresource="status")
        await world.wait_for(At, "later", phase(Phase.DONE))


async def test_overdue_command_runs_immediately_and_once(world):
    async with world.running(make_operator(world.now)):
        await world.client.create(at(world, "overdue", world.now() - timedelta(days=1)))
        pod = await world.wait_for(Pod, "overdue-pod", exists)
        await world.wait_for(At, "overdue", phase(Phase.RUNNING))
    async with world.running(make_operator(world.now)):
        await world.client.patch(pod, merge_patch({"status": {"phase": "Failed"}}), subresource="status")
        await world.wait_for(At, "overdue", phase(Phase.DONE))
        assert [each.metadata.uid for each in await world.client.list(Pod, namespace=world.namespace)] == [
            pod.metadata.uid
        ]


async def test_pod_is_deleted_with_its_owner(cluster):
    async with cluster.running(make_operator(cluster.now)):
        await cluster.client.create(at(cluster, "short", cluster.now()))
        await cluster.wait_for(Pod, "short-pod", exists)
        await cluster.client.delete(At, "short")
        await cluster.wait_for(Pod, "short-pod", is_deleted)
