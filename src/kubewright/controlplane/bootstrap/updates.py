"""Changes of existing bootstrap objects at the start: another version may have written them.

As in kube-apiserver, roles and bindings get rules and subjects that are missing, and keep those that were
added to them, unless their annotation `rbac.authorization.kubernetes.io/autoupdate` is `false`. FlowSchemas
and PriorityLevelConfigurations get their spec, if their annotation `apf.kubernetes.io/autoupdate-spec` is
`true`. So replicas of two versions do not undo each other's roles, whichever starts last.

managedFields of bootstrap objects. Building field managers and the schemas of built-in kinds takes longer
than all other parts of a start. Bootstrap objects have few shapes, so their field sets follow from three
facts about their kinds: which structs are part of their parent (no `.` entry), which maps are atomic, and
which lists are maps. Other lists are atomic. A test compares the result with that of the field managers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

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


_INLINE: Final = frozenset({("metadata",), ("spec",), ("spec", "priorityLevelConfiguration")})
_ATOMIC: Final = frozenset({("roleRef",)})
_LIST_KEYS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("spec", "ports"): ("port", "protocol")}
_IDENTITY: Final = frozenset({"name", "namespace", "generation"})
"""Fields of the metadata that have no manager."""


def managed_fields(body: Object, *, manager: str, time: str) -> list[Object]:
    """Return the entry of the manager that creates `body`."""
    metadata = {name: value for name, value in body["metadata"].items() if name not in _IDENTITY}
    sent = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    if metadata:
        sent["metadata"] = metadata
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": body["apiVersion"],
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _map_fields(sent, ()),
        }
    ]


def _map_fields(value: Object, path: tuple[str, ...]) -> Object:
    return {
        f"f:{name}": _fields(value[name], (*path, name)) for name in sorted(value) if value[name] is not None
    }


def _fields(value: Any, path: tuple[str, ...]) -> Object:
    if isinstance(value, dict) and path not in _ATOMIC:
        own: Object = {} if path in _INLINE else {".": {}}
        return {**own, **_map_fields(value, path)}
    keys = _LIST_KEYS.get(path)
    if keys is None:
        return {}
    return {".": {}, **{f"k:{_key(item, keys)}": {".": {}, **_map_fields(item, path)} for item in value}}


def _key(item: Object, keys: tuple[str, ...]) -> str:
    return msgspec.json.encode({key: item[key] for key in keys}).decode()
