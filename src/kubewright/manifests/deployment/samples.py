"""Sample objects from the schema of a CRD: required fields, and optional ones that have a default."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from kubewright.schema.examples import Examples
from kubewright.schema.version import SchemaVersion

from .names import Manifest

_FORMATS: Final = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "duration": "1m",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "email": "user@example.com",
    "uri": "https://example.com",
    "hostname": "example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "byte": "ZXhhbXBsZQ==",
}
_MAX_DEPTH: Final = 8


def sample_file(definition: Mapping[str, Any], version: str, domain: str) -> str:
    """Return the path of a sample object; the domain of the project is not part of it."""
    spec = definition["spec"]
    group = spec["group"].removesuffix(f".{domain}") if domain else spec["group"]
    return f"samples/{group}_{version}_{spec['names']['singular']}.yaml"


def sample(definition: Manifest, version: str) -> Manifest:
    """Return a sample object of a served version.

    If patterns or CEL rules reject the values that follow from the structure, other values are tried; a rule
    that none of them meets is left to the user, and `kubewright manifests` reports the sample.
    """
    spec = definition["spec"]
    schema = next(each for each in spec["versions"] if each["name"] == version)["schema"]["openAPIV3Schema"]
    obj: Manifest = {
        "apiVersion": f"{spec['group']}/{version}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": f"{spec['names']['singular']}-sample"},
    }
    required = set(schema.get("required") or ())
    for name, field in (schema.get("properties") or {}).items():
        if name in ("apiVersion", "kind", "metadata", "status"):
            continue
        if name == "spec" or name in required:
            obj[name] = _value(field, _MAX_DEPTH)
    if SchemaVersion(schema).process(copy.deepcopy(obj))[1].errors:
        return Examples(schema, identity=_identity(obj)).minimal() or obj
    return obj


def _identity(obj: Manifest) -> Manifest:
    """Return the fields of an object that name it."""
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


def _value(schema: Manifest, depth: int) -> Any:
    for keyword in ("default", "example"):
        if keyword in schema:
            return schema[keyword]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    type_ = schema.get("type")
    if type_ == "object":
        return _object(schema, depth)
    if type_ == "array":
        count = schema.get("minItems") or 0
        return [_value(schema.get("items") or {}, depth - 1)] * count if depth else []
    if type_ in ("integer", "number"):
        return _number(schema)
    if type_ == "boolean":
        return False
    if type_ == "string":
        text = _FORMATS.get(schema.get("format", ""), "example")
        longest = schema.get("maxLength")
        text = text.ljust(schema.get("minLength") or 0, "x")
        return text[:longest] if longest is not None else text
    return {}


def _object(schema: Manifest, depth: int) -> Manifest:
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not depth:
        return {}
    if schema.get("x-kubernetes-embedded-resource"):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}}
    values = {
        name: _value(field, depth - 1)
        for name, field in properties.items()
        if name in required or ("default" in field and field["default"] not in ({}, [], ""))
    }
    for name, field in properties.items():
        if len(values) >= (schema.get("minProperties") or 0):
            break
        values.setdefault(name, _value(field, depth - 1))
    return values


def _number(schema: Manifest) -> Any:
    least = schema.get("minimum")
    if least is None:
        most = schema.get("maximum")
        return 1 if most is None or most >= 1 else most
    if schema.get("exclusiveMinimum"):
        least += 1
    step = schema.get("multipleOf")
    return least + (-least % step) if step else least
