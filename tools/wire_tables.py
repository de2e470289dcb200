"""Protobuf messages of built-in types, in the notation of `kubewright.api.builtin.wire_messages`.

Numbers, names and the presence of fields come from the tags of the Go structs.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from go_types import META, GoField, GoPackage, read_package
from kubernetes_sources import Release

API = Path(__file__).resolve().parent.parent / "src" / "kubewright" / "api"
SCALARS = {
    "string": "s",
    "int32": "i",
    "int": "I",
    "int64": "I",
    "uint8": "i",
    "bool": "b",
    "float64": "d",
    "[]byte": "y",
    "apimachinery/pkg/api/resource.Quantity": "q",
    "apimachinery/pkg/util/intstr.IntOrString": "o",
    f"{META}.Time": "t",
    f"{META}.MicroTime": "T",
    f"{META}.Duration": "D",
    "apimachinery/pkg/runtime.RawExtension": "r",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "r",
    f"{META}.FieldsV1": "r",
}
OMITTED = frozenset(("io.k8s.apimachinery.pkg.version.Info", "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"))
"""Definitions that are not messages."""
PREFIXES = {
    "api/": "io.k8s.api.",
    "apimachinery/pkg/apis/": "io.k8s.apimachinery.pkg.apis.",
    "apiextensions-apiserver/pkg/apis/": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "kube-aggregator/pkg/apis/": "io.k8s.kube-aggregator.pkg.apis.",
}


@cache
def package(one: Release, path: str) -> GoPackage:
    return read_package(one, path)


def definition_name(path: str, name: str) -> str:
    for prefix, dotted in PREFIXES.items():
        if path.startswith(prefix):
            return dotted + path.removeprefix(prefix).replace("/", ".") + f".{name}"
    return f"{path}.{name}"


def resolve(one: Release, home: GoPackage, text: str) -> tuple[GoPackage, str]:
    """Return the package and the name of a named type."""
    local, dot, name = text.rpartition(".")
    return (package(one, home.imports[local]), name) if dot else (home, text)


LABELS = {"": "", "*": "[]", "%": "map[string]"}
UNIONS = frozenset(("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"))
"""Messages that are one of their fields in JSON."""


class Type(NamedTuple):
    """A type in the notation of messages."""

    label: str
    letter: str
    is_struct: bool
    shown: str
    """Name in error messages, if it differs from that of the letter."""


def fields_of(one: Release, home: GoPackage, name: str) -> tuple[GoPackage, list[GoField]] | None:
    """Return the fields of a message and the package that declares them; `None` if it is not a struct."""
    if name in home.structs:
        return home, home.structs[name]
    definition = home.named.get(name, "")
    if not re.fullmatch(r"\w+\.\w+", definition):
        return None
    target, other = resolve(one, home, definition)
    return fields_of(one, target, other)


def go_name(one: Release, home: GoPackage, text: str) -> str:
    """Return the name of a type in messages of Go: `v1.ResourceName`."""
    if text in SCALARS:
        return text
    target, name = resolve(one, home, text)
    return f"{target.path.rpartition('/')[2]}.{name}"


def type_of(one: Release, origin: GoPackage, text: str) -> Type:
    """Return the type of a Go type that a package names."""
    label = shown = ""
    home = origin
    while True:
        if text.startswith("[]") and text != "[]byte":
            label, text = "*", text[2:]
        elif text.startswith("map["):
            key, _, text = text.removeprefix("map[").partition("]")
            label = "%"
            if key != "string" and not shown:
                shown = f"map[{go_name(one, home, key)}]{go_name(one, home, text)}"
        elif text in SCALARS:
            return Type(label, SCALARS[text], False, shown)
        else:
            home, name = resolve(one, home, text)
            full = f"{home.path}.{name}"
            if full in SCALARS:
                return Type(label, SCALARS[full], True, shown)
            definition = home.named.get(name, "")
            if definition == "[]string" or (fields_of(one, home, name) and not definition.startswith("=")):
                letter = name if home.path == origin.path else definition_name(home.path, name)
                return Type(label, letter, True, shown)
            if not shown and not definition.startswith("="):
                shown = LABELS[label] + go_name(one, home, name)
            text = definition.removeprefix("= ")


def field_text(one: Release, home: GoPackage, field: GoField) -> str:
    """Return a field in the notation of `wire_messages`."""
    of = type_of(one, home, field.type.removeprefix("*"))
    pointer, inline = field.type.startswith("*"), not field.name
    omitted = field.omitzero or (field.omitempty and (pointer or of.label or not of.is_struct))
    flags = "~" if inline else "?" * pointer + "!" * (not omitted)
    return " ".join(
        filter(
            None,
            (
                str(field.number),
                field.name or field.wire_name or _embedded(of),
                of.label + of.letter + flags,
                of.shown,
            ),
        )
    )


def _embedded(of: Type) -> str:
    name = of.letter.rpartition(".")[2]
    return name[0].lower() + name[1:]


def message_text(one: Release, home: GoPackage, name: str) -> str | None:
    """Return the line of a message; `None` if the type has none."""
    found = fields_of(one, home, name)
    if found is None:
        definition = home.named.get(name, "")
        return "=1 *s" if definition == "[]string" else None
    declared, fields = found
    if name in UNIONS:
        parts = [type_of(one, declared, field.type.removeprefix("*")) for field in fields]
        return "|" + ";".join(
            f"{field.number} {of.label}{of.letter}" for field, of in zip(fields, parts, strict=True)
        )
    return ";".join(field_text(one, declared, field) for field in fields if field.number)


def tables(one: Release) -> dict[Path, str]:
    """Return the tables of a release, by file."""
    homes: dict[str, dict[str, str]] = {}
    waiting = [name for name in one.definitions if name not in OMITTED]
    waiting += [
        definition_name(META, name) for name in ("PartialObjectMetadata", "PartialObjectMetadataList")
    ]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path, short = package_of(name)
        home = package(one, path)
        line = None if f"{path}.{short}" in SCALARS else message_text(one, home, short)
        if line is None:
            continue
        group, version = path.rsplit("/", 2)[-2:]
        homes.setdefault(f"{group}.{version}", {})[name] = line
        dotted = name.rpartition(".")[0]
        for part in line.lstrip("=|").split(";"):
            for word in part.split(" ")[1:]:
                bare = word.lstrip("*%").rstrip("!?~")
                if re.fullmatch(r"io\.k8s\.[\w.-]+", bare):
                    waiting.append(bare)
                elif re.fullmatch(r"[A-Z]\w+", bare) and bare not in SCALARS.values():
                    waiting.append(f"{dotted}.{bare}")
    return {
        API / "wire" / f"{home}.json": "{\n"
        + ",\n".join(f"{json.dumps(name)}:{json.dumps(line)}" for name, line in sorted(lines.items()))
        + "\n}\n"
        for home, lines in sorted(homes.items())
    }


def package_of(name: str) -> tuple[str, str]:
    """Return the Go package and the type of a definition."""
    path, _, short = name.rpartition(".")
    for folder, dotted in PREFIXES.items():
        if path.startswith(dotted):
            return folder + path.removeprefix(dotted).replace(".", "/"), short
    return "apimachinery/pkg/" + path.removeprefix("io.k8s.apimachinery.pkg.").replace(".", "/"), short
