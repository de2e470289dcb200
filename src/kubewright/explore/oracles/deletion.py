"""`Deletion`: when all that the scenario created is deleted, nothing that belongs to it is left behind.

`EarlyDeletion` deletes the custom resources while the operator works on them, at a write or an external call.
`NamespaceDeletion` deletes a namespace with copies of them.

An object belongs to a deleted one if it refers to it as its owner, has its name as a part of its own, or has
its name or UID in a label; PersistentVolumeClaims and entries of external systems always do. Objects that the
operator shares between instances are not reported.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.explore.families import spread_out
from kubewright.explore.state import is_of_user

from .probe import NAMESPACE, Probe
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import Trace, TraceEvent
    from kubewright.explore.state import StateObject

MAX_EARLY = 12
"""Points at which custom resources are deleted."""


class Deletion(Variation):
    """Delete all objects of the user after the last step."""

    name = "deletion"

    async def finish(self, probe: Probe) -> None:
        """Delete custom resources first, and check what remains."""
        if not await probe.settle():
            return
        custom = probe.custom_objects()
        instances = {each.uid: each for each in self._instances(probe)}
        for each in reversed(custom):
            await probe.delete(each)
        await probe.settle(lambda: not set(custom_uids(probe)) & {each.uid for each in custom})
        for obj in probe.custom_objects():
            if obj.uid in instances and obj.is_deleting:
                finalizers = ", ".join(obj.finalizers) or "none"
                probe.find(
                    self.name,
                    f"{obj} is still being deleted when the operator is idle (finalizers: {finalizers}); "
                    "the finalizer must end, also if what it deletes does not exist",
                )
                return
        for each in reversed([each for each in probe.user_objects() if each.key.kind != "Namespace"]):
            await probe.delete(each)
        await probe.settle()
        for text in self._remaining(probe, list(instances.values())):
            probe.find(
                self.name,
                f"{text} after all objects of the scenario were deleted; set an owner reference, or delete "
                "it in a finalizer",
            )

    def _instances(self, probe: Probe) -> Iterator[StateObject]:
        """Return the custom resources of the user that exist, or existed in the run."""
        state = probe.cluster_state
        for each in (state, *state.earlier()):
            for obj in each:
                if is_of_user(obj) and obj.key[:2] in probe.custom_kinds:
                    yield obj

    def _remaining(self, probe: Probe, instances: list[StateObject]) -> Iterator[str]:
        for obj in probe.cluster_state:
            if is_of_user(obj) or obj.is_deleting:
                continue
            owner = next((each for each in instances if belongs_to(obj, each)), None)
            if owner is not None or obj.key.kind == "PersistentVolumeClaim":
                yield f"{obj} still exists"
        if instances:
            for system, data in probe.run.cluster.external.data.items():
                for key in data:
                    if key not in probe.external_at_start.get(system, ()):
                        yield f"external {system} {key} still exists"


class EarlyDeletion(Deletion):
    """Delete the custom resources of the user at a point, which is `target`, and end the scenario."""

    name = "early-deletion"

    async def begin(self, probe: Probe) -> None:
        """Wait for the point."""
        cluster = probe.run.cluster

        def on_point(event: TraceEvent) -> None:
            if event.point == self.target:
                cluster.on_point = None
                cluster.loop.create_task(self._delete(probe), context=contextvars.Context())

        cluster.on_point = on_point

    async def _delete(self, probe: Probe) -> None:
        for each in reversed(probe.custom_objects()):
            await probe.delete(each)
        self.interrupted.set()


def early_deletions(trace: Trace) -> Iterator[EarlyDeletion]:
    """Return deletions at the writes and external calls of the operator that create or change something."""
    points = [
        each
        for kind in ("write", "external")
        for each in trace.points(kind)
        if each.reconcile and each.text.partition(" ")[0] not in ("get", "list", "delete")
    ]
    for each in list(spread_out(sorted(points, key=lambda event: event.number)))[:MAX_EARLY]:
        yield EarlyDeletion(each.point)


class NamespaceDeletion(Variation):
    """Create copies of the custom resources in another namespace, and delete the namespace."""

    name = "namespace-deletion"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Delete the namespace, and check what remains."""
        if not await probe.settle():
            return
        before = {name: set(data) for name, data in probe.run.cluster.external.data.items()}
        newest = {each.key[:2]: each for each in probe.reconciled_objects() if each.namespace}
        copies = [each for obj in newest.values() if (each := await probe.copy_to_namespace(obj))]
        if not copies or not await probe.settle():
            return
        await probe.client.delete("Namespace", NAMESPACE)
        await probe.settle(lambda: not _is_in(probe, NAMESPACE))
        for obj in probe.cluster_state:
            if obj.namespace == NAMESPACE and obj.key[:2] in probe.custom_kinds and obj.finalizers:
                probe.find(
                    self.name,
                    f"the namespace {NAMESPACE} was deleted, and {obj} in it remains (finalizers: "
                    f"{', '.join(obj.finalizers)}); a finalizer must not create objects in a namespace that "
                    "is being deleted",
                )
                return
        for system, data in probe.run.cluster.external.data.items():
            for key in data:
                if key not in before.get(system, ()):
                    probe.find(
                        self.name,
                        f"external {system} {key} still exists after the namespace {NAMESPACE} of its owner "
                        "was deleted; delete it in a finalizer",
                    )


def _is_in(probe: Probe, namespace: str) -> bool:
    return any(
        each.namespace == namespace or (each.key.kind == "Namespace" and each.name == namespace)
        for each in probe.cluster_state
    )


def belongs_to(obj: StateObject, instance: StateObject) -> bool:
    """Whether an object was created for an instance."""
    if any(each.get("uid") == instance.uid for each in obj.owner_references):
        return True
    name = re.escape(instance.name)
    if re.search(rf"(?:^|[-.]){name}(?:[-.]|$)", obj.name):
        return True
    return any(value in (instance.name, instance.uid) for value in obj.labels.values())


def custom_uids(probe: Probe) -> list[str]:
    """Return the UIDs of the custom resources of the user."""
    return [each.uid for each in probe.custom_objects()]
