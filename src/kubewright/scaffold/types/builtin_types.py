"""Built-in types by their schema, to reuse `LabelSelector` instead of generating a class with its fields."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kubewright.api.builtin.schemas import definitions
from kubewright.schema.generation.from_builtin import CONDITION, META, RecursiveSchema, builtin_schema

_CORE: Final = "io.k8s.api.core.v1."


def find_builtin_type(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return module and name of the built-in type with this schema, or `None`."""
    names = frozenset(schema.get("properties", ()))
    wanted = comparable(schema)
    for definition in _by_properties().get(names, ()):
        try:
            found = builtin_schema(definition)
        except RecursiveSchema:
            continue
        if comparable(found) == wanted:
            return _location(definition)
    return None


def comparable(schema: Any) -> Any:
    """Return a schema without descriptions and with sorted lists of required fields."""
    if isinstance(schema, list):
        return [comparable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "description" and isinstance(value, str):
            continue
        if key == "required" and isinstance(value, list):
            result[key] = sorted(value)
        elif key == "properties":
            result[key] = {name: comparable(child) for name, child in value.items()}
        elif key in ("default", "example", "enum"):
            result[key] = value
        else:
            result[key] = comparable(value)
    return result


@cache
def _by_properties() -> dict[frozenset[str], list[str]]:
    found: dict[frozenset[str], list[str]] = {frozenset(CONDITION["properties"]): [META + "Condition"]}
    for name, schema in definitions().items():
        if name.startswith((_CORE, META)) and schema.get("properties") and _location(name) is not None:
            listed = found.setdefault(frozenset(schema["properties"]), [])
            if name not in listed:
                listed.append(name)
    return found


def _location(definition: str) -> tuple[str, str] | None:
    name = definition.rpartition(".")[2]
    module = "kubewright.api.core.v1" if definition.startswith(_CORE) else "kubewright.api.meta"
    if not isinstance(getattr(importlib.import_module(module), name, None), type):
        return None
    # The public import of meta types is kubewright.api.
    if module == "kubewright.api.meta" and name in dir(importlib.import_module("kubewright.api")):
        module = "kubewright.api"
    return module, name
