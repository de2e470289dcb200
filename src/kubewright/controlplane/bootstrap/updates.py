"""Changes of existing bootstrap objects at the start: another version may have written them.

As in kube-apiserver, roles and bindings get rules and subjects that are missing, and keep those that were
added to them, unless their annotation `rbac.authorization.kubernetes.io/autoupdate` is `false`. FlowSchemas
and PriorityLevelConfigurations get their spec, if their annotation `apf.kubernetes.io/autoupdate-spec` is
`true`. So replicas of two versions do not undo each other's roles, whichever starts last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.apiserver.resources.objects import Object

Merge = Callable[[Object, Object], Object | None]
"""Returns a stored object with what a bootstrap object requires; `None` if it does not change."""

_ROLE_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_FLOW_AUTOUPDATE: Final = "apf.kubernetes.io/autoupdate-spec"


def merge_role(stored: Object, wanted: Object) -> Object | None:
    """Add rules or subjects, labels and annotations that are missing in a role or binding."""
    if _annotation(stored, _ROLE_AUTOUPDATE) == "false":
        return None
    merged = dict(stored)
    if "aggregationRule" in wanted:
        # A controller collects its rules.
        merged.setdefault("aggregationRule", wanted["aggregationRule"])
    else:
        for field in ("rules", "subjects"):
            present = stored.get(field) or []
            missing = [each for each in wanted.get(field) or () if each not in present]
            if missing:
                merged[field] = [*present, *missing]
    metadata = dict(stored["metadata"])
    for field in ("labels", "annotations"):
        expected = wanted["metadata"].get(field)
        if expected:
            metadata[field] = {**expected, **(metadata.get(field) or {})}
    merged["metadata"] = metadata
    return merged if merged != stored else None


def merge_flow_spec(stored: Object, wanted: Object) -> Object | None:
    """Replace the spec of a FlowSchema or PriorityLevelConfiguration."""
    if _annotation(stored, _FLOW_AUTOUPDATE) != "true" or stored.get("spec") == wanted["spec"]:
        return None
    metadata = stored["metadata"]
    return {
        **stored,
        "metadata": {**metadata, "generation": metadata.get("generation", 1) + 1},
        "spec": wanted["spec"],
    }


def _annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")
