"""`Deletion`: when all that the scenario created is deleted, nothing that belongs to it is left behind.

An object belongs to a deleted one if it refers to it as its owner, has its name as a part of its own, or has
its name or UID in a label; PersistentVolumeClaims and entries of external systems always do. Objects that the
operator shares between instances are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.explore.state import is_of_user

from .probe import Probe
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject


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
