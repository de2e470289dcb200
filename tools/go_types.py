"""Structs of the Go packages of Kubernetes APIs, read from `types.go` files with regular expressions.

Only what API types use is understood: structs with tags, named scalars, slices and maps.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kubernetes_sources import Release

STAGING = "staging/src/k8s.io/"
META = "apimachinery/pkg/apis/meta/v1"
_DECLARATION = re.compile(r"^type (\w+) (struct \{(.*?)\n\}|struct\{\}|[^\n]+)", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([^\s`]+)\s+`([^`]*)`", re.MULTILINE)
_TAG = re.compile(r'(\w+):"([^"]*)"')
_IMPORT = re.compile(r'^\s*(?:import )?(?:(\w+) )?"(k8s\.io/[^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r"^\t//[^\n]*\n", re.MULTILINE)


class GoField(NamedTuple):
    """A field of a struct."""

    name: str
    """JSON name; empty if it is embedded."""
    type: str
    number: int
    wire_name: str
    """Name in protobuf."""
    omitempty: bool
    omitzero: bool
    comment: str


class GoPackage(NamedTuple):
    """The types of a package."""

    path: str
    """Below `staging/src/k8s.io/`."""
    structs: dict[str, list[GoField]]
    named: dict[str, str]
    """Other named types, with their definitions; those of aliases begin with `=`."""
    imports: dict[str, str]
    """Paths by local name."""


def read_package(one: Release, path: str) -> GoPackage:
    """Read the `types*.go` files of a package, and others that declare types of the API."""
    structs: dict[str, list[GoField]] = {}
    named: dict[str, str] = {}
    imports: dict[str, str] = {}
    for file in one.find(STAGING + path, ".go"):
        base = file.rpartition("/")[2]
        if (
            file != f"{STAGING}{path}/{base}"
            or base.endswith("_test.go")
            or base.startswith(("zz_", "generated"))
        ):
            continue
        text = one.text(file)
        for local, target in _IMPORT.findall(text):
            imports[local or target.rpartition("/")[2]] = target.removeprefix("k8s.io/")
        for name, definition, body in _DECLARATION.findall(text):
            if definition.startswith("struct"):
                structs[name] = _fields(body)
            else:
                named[name] = definition.partition("//")[0].strip()
    return GoPackage(path, structs, named, imports)


def _fields(body: str) -> list[GoField]:
    found = []
    end = 0
    for match in _FIELD.finditer(body):
        tags = dict(_TAG.findall(match[3]))
        name, _, options = tags.get("json", "").partition(",")
        numbers = tags.get("protobuf", "").split(",")
        number = int(numbers[1]) if len(numbers) > 1 else 0
        wire = next((part[5:] for part in numbers if part.startswith("name=")), "")
        comment = body[end : match.start()]
        end = match.end()
        if name == "-" and not number:
            continue
        is_inline = "inline" in options or (not name and not match[1])
        shown = "" if is_inline or name == "-" else name
        omits = ("omitempty" in options, "omitzero" in options)
        found.append(GoField(shown, match[2], number, wire, *omits, comment))
    return found
