"""Lists in the status of pods that an update without them does not change, and an empty list clears.

Clients that do not know a field remove it from what they update. The fields of resource claims decide what a
node has access to, so kube-apiserver restores them since 1.37. Objects have no empty lists after decoding, so
those of these fields are kept until the update is prepared.
"""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object

RESTORED = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
CLEARABLE = (("status", "resourceClaimStatuses"), ("status", "nodeAllocatableResourceClaimStatuses"))


def keep_empty_list(sent: Object, read: Object, path: tuple[str, ...]) -> None:
    """Copy an empty list at a path of an object to its decoded form."""
    *parents, field = path
    before: Any = sent
    after: Any = read
    for name in parents:
        before, after = before.get(name), after.get(name)
        if not isinstance(before, dict) or not isinstance(after, dict):
            return
    if before.get(field) == []:
        after[field] = []


def restore_absent(status: Object, before: Object) -> None:
    """Restore fields that an update does not have, and remove lists that it clears."""
    for field in RESTORED:
        if status.get(field) is None and before.get(field) is not None:
            status[field] = before[field]
        elif status.get(field) == []:
            del status[field]
