"""`kubewright up` with nodes on SQLite, killed during a rollout: the next one continues it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.controlplane.conftest import start_up
from tests.waiting import eventually
from tests.workloads.controllers.conftest import manifest, template

from kubewright.api.apps.v1 import Deployment, ReplicaSet
from kubewright.api.core.v1 import Pod
from kubewright.api.owners import controller_of
from kubewright.client import Client, patches

REPLICAS = 12
LABELS = {"app": "web"}
IMAGES = ("web:1", "web:2", "web:3")
KILL_AFTER = (0.15, 0.4)
"""Seconds between an edit and the kill."""


async def has_rolled_out(client: Client, image: str) -> bool:
    """Whether exactly the declared pods run, all of them with an owner."""
    deployment = await client.get(Deployment, "web", namespace="default")
    status = deployment.status
    if status is None or status.observed_generation != deployment.metadata.generation:
        return False
    if {status.replicas, status.updated_replicas, status.available_replicas} != {REPLICAS}:
        return False
    owners = {each.metadata.uid for each in await client.list(ReplicaSet, namespace="default")}
    pods = await client.list(Pod, namespace="default")
    controllers = [controller_of(pod) for pod in pods]
    images = {(pod.spec.containers or [])[0].image for pod in pods if pod.spec is not None}
    owned = all(each is not None and each.uid in owners for each in controllers)
    return len(pods) == REPLICAS and owned and images == {image}


async def edit(client: Client, image: str) -> None:
    """Create the Deployment, or change its image."""
    if image == IMAGES[0]:
        spec = {"replicas": REPLICAS, "selector": {"matchLabels": LABELS}}
        spec["template"] = template(LABELS, image=image)
        await client.create(manifest("Deployment", "web", spec))
        return
    containers = {"containers": [{"name": "c", "image": image}]}
    patch = patches.strategic_merge_patch({"spec": {"template": {"spec": containers}}})
    await client.patch(Deployment, "web", patch, namespace="default")


async def test_rollout_continues_after_a_kill(tmp_path: Path) -> None:
    options = ("--nodes", "2", "--quiet", "--store", f"sqlite:{tmp_path / 'state.db'}")
    up = start_up(tmp_path, *options)
    try:
        for image, delay in zip(IMAGES, KILL_AFTER, strict=False):
            async with Client.connect(up.kubeconfig, metrics=False) as client:
                await edit(client, image)
                await asyncio.sleep(delay)
                up.process.send_signal(signal.SIGKILL)
                up.process.wait()
            up = start_up(tmp_path, *options)
        async with Client.connect(up.kubeconfig, metrics=False) as client:
            await edit(client, IMAGES[-1])
            await eventually(lambda: has_rolled_out(client, IMAGES[-1]), timeout=180, interval=0.1)
        up.stop()
    finally:
        up.process.kill()
        up.process.wait()
