"""Config maps and secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.validation.formats import Errors, immutable
from kubewright.schema import field_errors as fe

_MAX_BYTES = 1 << 20
_FIXED = "field is immutable when `immutable` is set"
_REDACTED = "<secret contents redacted>"


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _fixed_errors(obj: Object, old: Object, fields: tuple[str, ...]) -> Errors:
    """What may not change once an object has said that it will not."""
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [fe.forbidden("immutable", _FIXED)]
    return errors + [
        fe.forbidden(field, _FIXED) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})
    ]


class ConfigMapStrategy(KindStrategy):
    """Config maps."""

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Keys are file names; all values together fit into a megabyte."""
        errors: Errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in sorted(data):
            errors += [fe.invalid(f"data[{key}]", key, text) for text in names.check_config_key(key)]
            if key in binary:
                errors.append(fe.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in sorted(binary):
            errors += [fe.invalid(f"binaryData[{key}]", key, text) for text in names.check_config_key(key)]
        size = sum(len(text.encode()) for text in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > _MAX_BYTES:
            errors.append(fe.too_long("[]", _MAX_BYTES))
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Immutable ones stay as they are."""
        return [*_fixed_errors(obj, old, ("data", "binaryData")), *self.validate(op, obj)]


class SecretStrategy(KindStrategy):
    """Secrets. `stringData` is a convenience for writers: it ends up in `data`."""

    def default(self, version: Version, obj: Object) -> None:
        """A secret of no type is opaque."""
        if not obj.get("type"):
            obj["type"] = "Opaque"
        for key, value in (obj.get("data") or {}).items():
            if value is None:
                obj["data"][key] = ""
        plain = obj.pop("stringData", None)
        if plain:
            data: Object = obj.setdefault("data", {})
            for key, text in plain.items():
                text = text or ""
                data[key] = base64.b64encode(text.encode()).decode()

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """An update that says nothing about the type keeps it."""
        if not obj.get("type"):
            obj["type"] = old.get("type")

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Keys are file names; the well-known types have the keys they are known for."""
        errors: Errors = []
        data = obj.get("data") or {}
        for key in sorted(data):
            errors += [fe.invalid(f"data[{key}]", key, text) for text in names.check_config_key(key)]
        if sum(map(_decoded_size, data.values())) > _MAX_BYTES:
            errors.append(fe.too_long("data", _MAX_BYTES))
        return errors + _type_errors(obj, data)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """The type never changes; immutable secrets do not either."""
        errors = immutable(obj.get("type"), old.get("type"), "type")
        return [*errors, *_fixed_errors(obj, old, ("data",)), *self.validate(op, obj)]

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Certificates and keys that are none."""
        return _certificate_warnings(obj.get("data") or {}) if obj.get("type") == "kubernetes.io/tls" else ()


def _certificate_warnings(data: Object) -> Iterator[str]:
    for key, noun in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {noun} input"
            return


def _type_errors(obj: Object, data: Object) -> Errors:
    kind = obj.get("type")
    if kind == "kubernetes.io/service-account-token":
        key = "kubernetes.io/service-account.name"
        if not (obj["metadata"].get("annotations") or {}).get(key):
            return [fe.required(f"metadata.annotations[{key}]", "")]
    elif kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"):
        key = ".dockercfg" if kind == "kubernetes.io/dockercfg" else ".dockerconfigjson"
        if key not in data:
            return [fe.required(f"data[{key}]", "")]
        return _json_errors(data[key], f"data[{key}]")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            return [fe.required(f"data[{key}]", "") for key in ("username", "password")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [fe.required("data[ssh-privatekey]", "")]
    elif kind == "kubernetes.io/tls":
        return [fe.required(f"data[{key}]", "") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _json_errors(text: str, path: str) -> Errors:
    raw = base64.b64decode(text)
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        from kubewright.apiserver.encoding.json_errors import json_complaint

        return [fe.invalid(path, _REDACTED, json_complaint(raw, error))]
    if isinstance(value, dict) or value is None:
        return []
    word = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
    complaint = f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    return [fe.invalid(path, _REDACTED, complaint)]
