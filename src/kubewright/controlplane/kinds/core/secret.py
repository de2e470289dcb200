"""Secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, counted, shown
from kubewright.controlplane.kinds.validation import (
    CONFIG_KEY,
    Errors,
    Immutable,
    MapKeys,
    Rules,
    UpdateRules,
)
from kubewright.schema import field_errors as fe

from .config_map import MAX_BYTES, check_immutable, decoded_size

_REDACTED = "<secret contents redacted>"
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class SecretStrategy(KindStrategy):
    """Secrets: an update without a type keeps it."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Keep the type."""
        if not obj.get("type"):
            obj["type"] = old.get("type")


def _default(obj: Object) -> None:
    """Set the type, and move `stringData` to `data`."""
    if not obj.get("type"):
        obj["type"] = "Opaque"
    for key, value in (obj.get("data") or {}).items():
        if value is None:
            obj["data"][key] = ""
    strings = obj.pop("stringData", None)
    if strings:
        data: Object = obj.setdefault("data", {})
        for key, text in strings.items():
            data[key] = base64.b64encode((text or "").encode()).decode()


def _check_size(data: Object, path: str) -> Errors:
    return [fe.too_long(path, MAX_BYTES)] if sum(map(decoded_size, data.values())) > MAX_BYTES else []


def _check_type(obj: Object, path: str) -> Errors:
    """Check that a secret of a well-known type has the required keys."""
    kind, data = obj.get("type"), obj.get("data") or {}
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT_ANNOTATION):
            return [fe.required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]", "")]
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            return [fe.required(f"data[{key}]", "") for key in ("username", "password")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [fe.required("data[ssh-privatekey]", "")]
    elif kind in _REQUIRED_KEYS:
        missing = [fe.required(f"data[{key}]", "") for key in _REQUIRED_KEYS[kind] if key not in data]
        if missing or kind == "kubernetes.io/tls":
            return missing
        key = _REQUIRED_KEYS[kind][0]
        return _check_json(data[key], f"data[{key}]")
    return []


def _check_json(text: str, path: str) -> Errors:
    raw = base64.b64decode(text)
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        from kubewright.apiserver.encoding.json_errors import json_error

        return [fe.invalid(path, _REDACTED, json_error(raw, error))]
    if isinstance(value, dict) or value is None:
        return []
    name = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
    message = f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
    return [fe.invalid(path, _REDACTED, message)]


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    if obj.get("type") != "kubernetes.io/tls":
        return
    data = obj.get("data") or {}
    for key, noun in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {noun} input"
            return


RULES = Rules([{"data": [MapKeys(CONFIG_KEY), _check_size]}, _check_type])
KINDS = {
    "secrets": Kind(
        strategy=SecretStrategy,
        default=_default,
        validate=RULES,
        validate_update=UpdateRules({"type": Immutable()}, check_immutable("data"), RULES),
        warnings=_warnings,
        columns=(
            column("Type", shown("type"), description="Type of the secret."),
            column("Data", counted("data"), description="Number of keys."),
            AGE,
        ),
        field_selectors={"type": ".type"},
        checks_whole_on_update=True,
    )
}
