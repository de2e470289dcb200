"""DefaultBinder: binds a pod with its `binding` subresource."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kubewright.api.core.v1 import Binding, Pod
from kubewright.api.errors import APIError
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.client.errors import ConnectionFailed
from kubewright.workloads.scheduler.framework.cluster_events import ClusterEvent
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import Plugin
from kubewright.workloads.scheduler.framework.status import SchedulingStatus
from kubewright.workloads.scheduler.state.pod_info import PodInfo


class DefaultBinder(Plugin):
    """Creates a Binding. Permission: `create` of `pods/binding`.

    Argument: `max_concurrent`, the number of bindings that are written at the same time.
    """

    def __init__(self, handle: Handle, max_concurrent: int = 100) -> None:
        super().__init__(handle)
        self._limit = asyncio.Semaphore(max_concurrent)

    def events(self) -> Iterable[ClusterEvent]:
        """No pod is rejected."""
        return ()

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Bind the pod."""
        client = self.handle.client
        if client is None:
            return None
        binding = Binding(
            metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.pod.metadata.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )
        try:
            async with self._limit:
                await client.subresource("binding", Pod, pod.name, namespace=pod.namespace).create(binding)
        except (APIError, ConnectionFailed, OSError) as error:
            return SchedulingStatus.from_error(error)
        return None
