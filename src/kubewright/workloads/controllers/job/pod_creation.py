"""Creation and deletion of the pods of a Job, with events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError
from kubewright.api.meta import ObjectMeta
from kubewright.api.owners import owner_reference
from kubewright.api.values.names import check_dns_subdomain
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pod_control import PodControl, is_namespace_terminating, slow_start

from .ownership import remove_tracking_finalizer
from .pod_states import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    ignored_failure_count,
    index_failure_count,
    is_ready,
)
from .policies import match_failure_policy

MAX_GENERATE_NAME = 58
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def new_pod(job: Job, index: int | None, replaced: Pod | None = None) -> Pod:
    """Return a pod from the template of a Job, with a completion index if the Job is indexed.

    `replaced` is the failed pod of the same index, whose failures are added to those of the new pod.
    """
    assert job.spec is not None
    assert job.spec.template is not None
    template = job.spec.template.copy()
    metadata, spec = template.metadata or ObjectMeta(), template.spec
    assert spec is not None
    prefix = f"{job.name}-"
    labels, annotations = dict(metadata.labels or {}), dict(metadata.annotations or {})
    if index is not None:
        for container in (*(spec.init_containers or ()), *(spec.containers or ())):
            _add_index_variable(container)
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(index)
        spec.hostname = f"{job.name}-{index}"
        suffix = f"-{index}-"
        prefix = f"{job.name}{suffix}"
        if len(prefix) > MAX_GENERATE_NAME:
            prefix = prefix[: MAX_GENERATE_NAME - len(suffix)] + suffix
        if job.spec.backoff_limit_per_index is not None:
            annotations.update(_failure_counts(job, replaced))
    elif check_dns_subdomain(prefix, prefix=True):
        prefix = job.name
    finalizers = list(metadata.finalizers or ())
    if TRACKING_FINALIZER not in finalizers:
        finalizers.append(TRACKING_FINALIZER)
    return Pod(
        metadata=ObjectMeta(
            generate_name=prefix,
            namespace=job.namespace,
            labels=labels or None,
            annotations=annotations or None,
            finalizers=finalizers,
            owner_references=[owner_reference(job, controller=True, block_owner_deletion=True)],
        ),
        spec=spec,
    )


def _add_index_variable(container: Container) -> None:
    if any(each.name == INDEX_VARIABLE for each in container.env or ()):
        return
    field = ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']")
    variable = EnvVar(name=INDEX_VARIABLE, value_from=EnvVarSource(field_ref=field))
    container.env = [*(container.env or ()), variable]


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    counted = ignored = 0
    if replaced is not None:
        counted, ignored = index_failure_count(replaced), ignored_failure_count(replaced)
        if match_failure_policy(job, replaced).counts:
            counted += 1
        else:
            ignored += 1
    found = {INDEX_FAILURE_COUNT: str(counted)}
    if ignored:
        found[INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
    return found


async def create_pods(manager: ComponentManager, job: Job, pods: Sequence[Pod]) -> int:
    """Create pods in batches that double; return how many were created. Raises the first error."""
    control = PodControl(manager)
    try:
        return await slow_start(len(pods), lambda number: control.create(to_plain(pods[number]), job))
    except APIError as error:
        if is_namespace_terminating(error):
            return 0
        raise


async def delete_pods(
    manager: ComponentManager, job: Job, pods: Sequence[Pod], *, release: bool
) -> tuple[int, int]:
    """Delete pods; return how many were deleted, and how many of them were ready.

    With `release` their finalizers are removed first, because they do not count as failed.
    """
    control = PodControl(manager)

    async def delete(pod: Pod) -> None:
        if release:
            await remove_tracking_finalizer(manager.client, pod)
        await control.delete(pod, job)

    await asyncio.gather(*(delete(pod) for pod in pods))
    return len(pods), sum(map(is_ready, pods))
