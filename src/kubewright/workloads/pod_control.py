"""Create pods from templates and delete them, with the events of kube-controller-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kubewright.api.core.v1 import Pod, PodTemplateSpec
from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError, NotFound
from kubewright.api.meta import MetaObject
from kubewright.api.values.names import check_dns_subdomain

from .controller_refs import controller_reference

if TYPE_CHECKING:
    from .component_manager import ComponentManager
    from .pods import PodSummary

MAX_BATCH = 500
"""Pods that one reconcile creates or deletes at most."""


def pod_from_template(template: PodTemplateSpec, owner: MetaObject) -> dict[str, Any]:
    """Return a new pod, as a dict, with a generated name and its owner as controller."""
    plain: dict[str, Any] = to_plain(template)
    source = plain.get("metadata") or {}
    prefix = f"{owner.name}-"
    if check_dns_subdomain(prefix, prefix=True):
        prefix = owner.name
    metadata = {key: source[key] for key in ("labels", "annotations", "finalizers") if source.get(key)}
    metadata["generateName"] = prefix
    metadata["namespace"] = owner.namespace
    metadata["ownerReferences"] = [controller_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": plain.get("spec") or {}}


def is_namespace_terminating(error: BaseException) -> bool:
    """Whether an object was not created because its namespace is being deleted."""
    return isinstance(error, APIError) and any(
        cause.get("reason") == "NamespaceTerminating" for cause in error.causes
    )


class PodControl:
    """Creates and deletes pods in the name of a component."""

    def __init__(self, manager: ComponentManager) -> None:
        self._client = manager.client
        self._recorder = manager.recorder

    async def create(self, pod: dict[str, Any], owner: MetaObject) -> str:
        """Create a pod and record the event on its owner; return the name of the pod."""
        try:
            created = await self._client.create({**pod})
        except APIError as error:
            if not is_namespace_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        name: str = created["metadata"]["name"]
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return name

    async def delete(self, pod: PodSummary | Pod, owner: MetaObject) -> None:
        """Delete a pod and record the event on its owner. A pod that does not exist is not an error."""
        try:
            await self._client.delete(Pod, pod.name, namespace=pod.namespace)
        except NotFound:
            return
        except APIError as error:
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")


async def slow_start(count: int, call: Callable[[int], Awaitable[object]]) -> int:
    """Call a function `count` times in batches of 1, 2, 4 and so on; stop after a batch with an error.

    Returns the number of successful calls, or raises the first error. So a quota that is used up costs one
    failed request, not hundreds.
    """
    done, size = 0, 1
    while done < count:
        batch = range(done, min(count, done + size))
        results = await asyncio.gather(*(call(number) for number in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        done += len(batch)
        size *= 2
    return done
