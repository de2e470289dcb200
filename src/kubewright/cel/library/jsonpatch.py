"""`jsonpatch.escapeKey`, and the insertion into a map that the map macros use."""

from __future__ import annotations

from typing import Any, Final

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.operators import has_key, show_key


def escape_key(key: str) -> str:
    """A key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def insert(mapping: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Add an entry in place; a second entry with the same key is an error."""
    if has_key(mapping, key):
        raise CelError(f"insert failed: key {show_key(key)} already exists")
    mapping[key] = value
    return mapping


def insert_all(mapping: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    """Add all entries in place."""
    for key, value in entries.items():
        insert(mapping, key, value)
    return mapping


POLICY_OVERLOADS: Final[list[Overload]] = [
    overload("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string", escape_key),
]
"""Only where expressions construct JSON patches."""
OVERLOADS: Final[list[Overload]] = [
    overload("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", insert),
    overload("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", insert_all),
]
