"""ConfigMap."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column
from kubewright.controlplane.kinds.validation import CONFIG_KEY, Errors, MapKeys, Rules, UpdateRules
from kubewright.schema import field_errors as fe

MAX_BYTES = 1 << 20
_IMMUTABLE = "field is immutable when `immutable` is set"


def decoded_size(text: str | None) -> int:
    """Return the size of base64-encoded data."""
    if not text:
        return 0
    return len(text) * 3 // 4 - text[-2:].count("=")


def _check_binary_keys(obj: Object, path: str) -> Errors:
    shared = (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()
    return [
        fe.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in sorted(shared)
    ]


def _check_size(obj: Object, path: str) -> Errors:
    size = sum(len(text.encode()) for text in (obj.get("data") or {}).values())
    size += sum(map(decoded_size, (obj.get("binaryData") or {}).values()))
    return [fe.too_long("[]", MAX_BYTES)] if size > MAX_BYTES else []


def check_immutable(*fields: str) -> Any:
    """Return a check that `fields` do not change once `immutable` is set."""

    def check(obj: Object, old: Object) -> Errors:
        if not old.get("immutable"):
            return []
        errors = [] if obj.get("immutable") else [fe.forbidden("immutable", _IMMUTABLE)]
        return errors + [
            fe.forbidden(field, _IMMUTABLE)
            for field in fields
            if (obj.get(field) or {}) != (old.get(field) or {})
        ]

    return check


def _count_keys(obj: Object) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


RULES = Rules(
    [
        {"data": MapKeys(CONFIG_KEY)},
        _check_binary_keys,
        {"binaryData": MapKeys(CONFIG_KEY)},
        _check_size,
    ]
)
KINDS = {
    "configmaps": Kind(
        validate=RULES,
        validate_update=UpdateRules(check_immutable("data", "binaryData"), RULES),
        columns=(column("Data", _count_keys, description="Number of keys."), AGE),
        checks_whole_on_update=True,
    )
}
