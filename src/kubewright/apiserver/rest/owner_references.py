"""Owner references that are there more than once.

An entry that is the same as an earlier one is dropped, and the client is warned; entries that only share
their uid stay. What is created or replaced is looked at as it was sent and again after mutating admission,
what is patched only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.strategy import Operation


def drop_repeated_owners(op: Operation, metadata: Object, *, admitted: bool = False) -> None:
    """Leave every owner reference once."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1:
        return
    kept: list[Object] = []
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if repeated:
        metadata["ownerReferences"] = kept
        when = " after mutating admission happens" if admitted else ""
        op.warn(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references "
            "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
            f"duplicate UID(s) observed: {', '.join(repeated)}"
        )
