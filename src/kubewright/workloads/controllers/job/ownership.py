"""The pods of a Job: adoption and release by selector, and pods whose Job no longer exists."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import Pod
from kubewright.api.errors import NotFound
from kubewright.api.finalizers import add_finalizer, remove_finalizer
from kubewright.api.owners import (
    controller_of,
    is_controlled_by,
    remove_owner_reference,
    set_controller_reference,
)
from kubewright.api.selectors.label_selectors import selector_of
from kubewright.cache import CacheEntry, ObjectChange
from kubewright.client import Client, patches
from kubewright.controller import Request
from kubewright.workloads.component_manager import ComponentManager

from .pod_states import JOB_NAME, TRACKING_FINALIZER, is_tracked


def job_of_pod(change: ObjectChange) -> Iterable[Request]:
    """Event handler for pods: enqueue the Job of a pod, or that of the label of an orphan."""
    found: dict[str, None] = {}
    for entry in (change.old, change.new):
        if entry is not None:
            found.update(dict.fromkeys(_job_names(entry)))
    return [Request(change.key.namespace, name) for name in found]


def _job_names(entry: CacheEntry) -> Iterable[str]:
    meta = entry.header().metadata
    for owner in meta.owner_references or ():
        if owner.controller:
            if owner.kind == "Job" and owner.api_version.startswith("batch/"):
                yield owner.name
            return
    labels = meta.labels or {}
    if JOB_NAME in labels:
        yield labels[JOB_NAME]


async def claim_pods(manager: ComponentManager, job: Job) -> list[Pod]:
    """Return the pods of a Job, after adopting orphans that match and releasing pods that do not."""
    assert job.spec is not None
    client, selector = manager.client, selector_of(job.spec.selector)
    deleting = job.metadata.deletion_timestamp is not None
    pods: list[Pod] = []
    for pod in await manager.cache.list(Pod, namespace=job.namespace, owner=job.metadata.uid or ""):
        if not is_controlled_by(pod, job):
            continue
        if selector.matches(pod.metadata.labels) or deleting:
            pods.append(pod)
        elif pod.metadata.deletion_timestamp is None:
            remove_owner_reference(pod, job)
            remove_finalizer(pod, TRACKING_FINALIZER)
            await _update_if_exists(client, pod)
    if deleting or selector.empty:
        return pods
    for pod in await client.list(Pod, namespace=job.namespace, labels=selector):
        if controller_of(pod) is None and pod.metadata.deletion_timestamp is None:
            set_controller_reference(job, pod)
            add_finalizer(pod, TRACKING_FINALIZER)
            if await _update_if_exists(client, pod):
                pods.append(pod)
    return pods


async def _update_if_exists(client: Client, pod: Pod) -> bool:
    try:
        await client.update(pod)
    except NotFound:
        return False
    return True


async def release_tracked_pods(manager: ComponentManager, request: Request, job: Job | None) -> None:
    """Remove the finalizer of pods whose Job is finished or does not exist."""
    labels = {JOB_NAME: request.name}
    for pod in await manager.client.list(Pod, namespace=request.namespace, labels=labels):
        if not is_tracked(pod):
            continue
        owner = controller_of(pod)
        if owner is not None and owner.kind != "Job":
            continue
        if owner is None or job is None or owner.uid == job.metadata.uid or owner.name == request.name:
            await remove_tracking_finalizer(manager.client, pod)


async def remove_tracking_finalizer(client: Client, pod: Pod) -> None:
    """Remove the finalizer of a pod; a pod that does not exist is not an error."""
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
    try:
        await client.patch(Pod, pod.name, patches.strategic_merge_patch(change), namespace=pod.namespace)
    except NotFound:
        return
