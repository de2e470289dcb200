"""Check the JSON paths of columns, scale and selectable fields against the schema.

Every field of a path such as `.spec.size` must exist in the schema. Columns may use full JSONPath (filters,
indexes, quotes); after the first such step only the syntax is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubewright.api.selectors.jsonpath import JSONPath
from kubewright.api.selectors.jsonpath_steps import JSONPathError
from kubewright.schema.structural import Schema

_NAME: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)")


def column_path_errors(schema: Schema, path: str) -> Iterator[str]:
    """Return the errors of the path of a printer column."""
    if not path.startswith("."):
        yield f"path {path!r} must start with a dot; write {'.' + path.lstrip('{}.$')!r}"
        return
    try:
        JSONPath.relaxed(path)
    except JSONPathError as error:
        yield f"path {path!r} is not a JSONPath: {error}; write names and dots, as in .spec.size"
        return
    yield from _missing_field(schema, path)


def scale_path_errors(schema: Schema, path: str, root: str) -> Iterator[str]:
    """Return the errors of a path of the scale subresource, which must be below `.spec` or `.status`."""
    if not path.startswith(f".{root}."):
        yield f"path {path!r} must be below .{root}; write .{root}.<field>"
        return
    yield from _plain(schema, path)


def selectable_path_errors(schema: Schema, path: str) -> Iterator[str]:
    """Return the errors of the path of a selectable field."""
    if path.startswith(".metadata"):
        yield f"path {path!r} is in metadata, which is always selectable; remove it"
        return
    problems = list(_plain(schema, path))
    yield from problems
    if not problems:
        found = follow(schema, path)
        if found is None or found.get("type") not in ("string", "integer", "boolean"):
            yield f"path {path!r} must refer to a string, an integer or a boolean"


def follow(schema: Schema, path: str) -> Schema | None:
    """Return the schema at a path of plain names, or `None`."""
    here: Schema | None = schema
    for name in _NAME.findall(path):
        here = (here or {}).get("properties", {}).get(name)
    return here


def _plain(schema: Schema, path: str) -> Iterator[str]:
    if not re.fullmatch(rf"(?:{_NAME.pattern})+", path):
        yield f"path {path!r} must be names joined by dots, as in .spec.size, without lists and quotes"
        return
    yield from _missing_field(schema, path)


def _missing_field(schema: Schema, path: str) -> Iterator[str]:
    here, walked = schema, ""
    position = 0
    while step := _NAME.match(path, position):
        name = step.group(1)
        properties: Schema = here.get("properties", {})
        if not walked and name == "metadata":
            return
        if name not in properties:
            if here.get("additionalProperties") or here.get("x-kubernetes-preserve-unknown-fields"):
                return
            known = ", ".join(sorted(properties)) or "none"
            yield f"path {path!r}: {walked or 'the object'} has no field {name!r}; its fields are: {known}"
            return
        here, walked, position = properties[name], f"{walked}.{name}", step.end()
