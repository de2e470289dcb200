"""Descriptions of built-in types and their fields, as `kubectl explain` prints them.

`descriptions/<group>.txt` has the types of an API group, for all of its versions. A type is one line, then a
line per field:

    EphemeralContainer (Container): A container that is added to a running pod for debugging.
    - targetContainerName: Container whose namespaces are shared.

A field that a type does not describe is looked up in its base types (in parentheses), then in `common.txt`:
under `Condition` for types of that suffix, under `kind` or `list` for objects and lists, and under `*`.

A field that older versions of Kubernetes lack is described with its first version. Files are read when an
OpenAPI document is built, never before.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from kubewright.api.kubernetes_version import version_table

Schema = dict[str, Any]
_COMMON: Final = "common"
_KINDS: Final = "x-kubernetes-group-version-kind"


class _Type(NamedTuple):
    text: str
    bases: tuple[str, ...]
    fields: dict[str, str]


@lru_cache(maxsize=4)
def _types(group: str) -> dict[str, _Type]:
    """Parse the file of a group. Few are cached: a document needs its own group, core and meta."""
    found: dict[str, _Type] = {}
    fields: dict[str, str] = {}
    for line in (files("kubewright.api") / "descriptions" / f"{group}.txt").read_text("utf-8").splitlines():
        if not line:
            continue
        name, _, text = line.partition(": ")
        if name.startswith("- "):
            fields[name[2:]] = text
            continue
        name, _, bases = name.partition(" (")
        fields = {}
        found[name] = _Type(text, tuple(bases[:-1].split(", ")) if bases else (), fields)
    return found


def _group_of(definition: str) -> str:
    """Return the file that describes a definition such as `io.k8s.api.core.v1.Pod`."""
    return "meta" if definition.startswith("io.k8s.apimachinery.") else definition.rsplit(".", 3)[1]


def _tables(types: Mapping[str, _Type], name: str) -> Iterator[dict[str, str]]:
    found = types.get(name)
    if found is not None:
        yield found.fields
        for base in found.bases:
            yield from _tables(types, base)


def common_fields(name: str) -> Mapping[str, str]:
    """Return the descriptions of the fields of every `kind` or every `list`."""
    return _types(_COMMON)[name].fields


def describe(definition: str, schema: Schema) -> None:
    """Add descriptions to the published schema of a built-in type, in place; existing ones are kept."""
    name = definition.rpartition(".")[2]
    types = _types(_group_of(definition))
    properties: Schema = schema.get("properties") or {}
    is_object = _KINDS in schema and "kind" in properties
    is_list = is_object and "items" in properties and name not in types
    if is_list:
        schema.setdefault("description", f"List of {name.removesuffix('List')} objects.")
    elif name in types:
        schema.setdefault("description", types[name].text)
    common = _types(_COMMON)
    tables = list(_tables(types, name))
    if name.endswith("Condition"):
        tables.append(common["Condition"].fields)
        schema.setdefault("description", common["Condition"].text)
    if is_object:
        tables.append(common["list" if is_list else "kind"].fields)
    texts = ChainMap(*tables, common["*"].fields)
    versions = version_table()["fields"].get(definition, {})
    for field, part in properties.items():
        # Clients ignore everything beside a plain reference.
        if field in texts and "$ref" not in part:
            since, _, _ = versions.get(field, "").partition("-")
            part.setdefault("description", texts[field] + (f" Since Kubernetes {since}." if since else ""))
