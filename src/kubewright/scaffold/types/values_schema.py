"""The schema of a spec from `values.yaml` and `values.schema.json` of a template folder.

Each value of `values.yaml` becomes a typed field with that default, and a comment above it the description.
An empty mapping, an empty list or `null` has no known fields: any content is allowed. With a
`values.schema.json` the types come from there; what a structural schema cannot express is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from kubewright.manager.expansion.template_folder import SCHEMA_FILE, VALUES_FILE, RenderError, TemplateFolder
from kubewright.scaffold.errors import ScaffoldError

Schema = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_KEYWORDS: Final = (
    *("description", "title", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "enum", "default"),
)
_LEFT_OUT: Final = ("allOf", "anyOf", "oneOf", "not", "if", "dependencies", "dependentRequired", "contains")
_MAX_DEPTH: Final = 20


def schema_of_values(folder: TemplateFolder) -> tuple[Schema, list[str]]:
    """Return the schema of the spec, and warnings about what could not be converted."""
    try:
        values = folder.defaults
    except RenderError as error:
        raise ScaffoldError(f"{folder.directory}/{error}") from None
    comments = _comments(folder)
    path = folder.directory / SCHEMA_FILE
    if not path.is_file():
        return (_inferred(values, comments, ()) if values else {"type": "object", _PRESERVE: True}), []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ScaffoldError(f"cannot read {path}: {error}") from None
    if not isinstance(document, dict):
        raise ScaffoldError(f"{path}: expected a JSON object, not {type(document).__name__}")
    converter = _Converter(document)
    schema = converter.convert(document, "")
    if schema.get("type") != "object":
        raise ScaffoldError(f"{path}: the schema is not of type object")
    _add_defaults(schema, values, comments, ())
    return {
        name: item for name, item in schema.items() if name not in ("default", "title")
    }, converter.warnings


def _inferred(value: Any, comments: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> Schema:
    """Return the schema of a value, with the value as the default."""
    schema: Schema = _type_of(value)
    if isinstance(value, dict) and value:
        schema = {
            "type": "object",
            "properties": {
                str(name): _inferred(item, comments, (*path, str(name))) for name, item in value.items()
            },
        }
        if path:
            schema["default"] = {}
    elif value is not None and value != {}:
        schema["default"] = value
    if path in comments:
        schema["description"] = comments[path]
    return schema


def _type_of(value: Any) -> Schema:
    """Return the schema of values like this one, without a default."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "format": "int64"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        items = [_type_of(each) for each in value]
        same = bool(items) and all(each == items[0] for each in items)
        return {"type": "array", "items": items[0] if same else {_PRESERVE: True}}
    if isinstance(value, dict):
        return {"type": "object", _PRESERVE: True}
    return {_PRESERVE: True}


def _comments(folder: TemplateFolder) -> dict[tuple[str, ...], str]:
    """Return the comments directly above the keys of `values.yaml`, by path."""
    path = folder.directory / VALUES_FILE
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}

    def visit(node: yaml.Node | None, path: tuple[str, ...]) -> None:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            above: list[str] = []
            number = key.start_mark.line - 1
            while number >= 0 and lines[number].lstrip().startswith("#"):
                above.insert(0, lines[number].lstrip().lstrip("#").strip().removeprefix("-- "))
                number -= 1
            comment = " ".join(filter(None, above)).strip()
            name = (*path, str(key.value))
            if comment and not comment.startswith("@"):
                found[name] = comment
            visit(value, name)

    visit(yaml.compose(text, Loader=yaml.SafeLoader), ())
    return found


def _add_defaults(
    schema: Schema, values: Any, comments: Mapping[tuple[str, ...], str], path: tuple[str, ...]
) -> None:
    """Add the defaults, descriptions and undeclared fields of `values.yaml` to a schema."""
    properties = schema.get("properties")
    if properties is None or not isinstance(values, dict):
        return
    for name, value in values.items():
        child = properties.get(str(name))
        where = (*path, str(name))
        if child is None:
            properties[str(name)] = _inferred(value, comments, where)
            continue
        if where in comments:
            child.setdefault("description", comments[where])
        if child.get("properties"):
            _add_defaults(child, value, comments, where)
        elif value is not None and value != {}:
            child.setdefault("default", value)
    for child in properties.values():
        nested = child.get("properties") or {}
        is_complete = all("default" in nested.get(name, {}) for name in child.get("required") or ())
        if is_complete and any("default" in each for each in nested.values()):
            child.setdefault("default", {})
    required = [name for name in schema.get("required") or () if "default" not in properties.get(name, {})]
    if required:
        schema["required"] = required
    else:
        schema.pop("required", None)


class _Converter:
    """Converts JSON Schema (draft 4 to 2020-12) to a structural schema."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.warnings: list[str] = []

    def convert(self, schema: Any, path: str, depth: int = 0) -> Schema:
        """Return the structural schema; it allows any value if the type is not known."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return {_PRESERVE: True}
        if "$ref" in schema:
            target = self._resolve(str(schema["$ref"]), path)
            others = {name: item for name, item in schema.items() if name != "$ref"}
            return self.convert({**target, **others}, path, depth + 1)
        self.warnings += [
            f"{SCHEMA_FILE}: {path or 'the root'}: {name} was left out"
            for name in _LEFT_OUT
            if name in schema
        ]
        result: Schema = {name: schema[name] for name in _KEYWORDS if name in schema}
        if "const" in schema:
            result["enum"] = [schema["const"]]
        types = schema.get("type") or _implied_type(schema, result)
        names = [types] if isinstance(types, str) else list(types)
        is_nullable = "null" in names or None in result.get("enum", ())
        names = [name for name in names if name not in ("null", "")]
        if "enum" in result:
            result["enum"] = [each for each in result["enum"] if each is not None]
        if is_nullable:
            result["nullable"] = True
            if result.get("default", ...) is None:
                del result["default"]
        if len(names) != 1:
            both = sorted(names) == ["integer", "string"]
            kept: Schema = {
                name: item for name, item in result.items() if name in ("description", "nullable", "default")
            }
            return {**kept, **(_INT_OR_STRING if both else {_PRESERVE: True})}
        result["type"] = names[0]
        self._add_parts(result, schema, path, depth)
        return result

    def _add_parts(self, result: Schema, schema: Mapping[str, Any], path: str, depth: int) -> None:
        type_ = result["type"]
        if type_ == "integer":
            result.setdefault("format", "int64")
        if type_ in ("integer", "number"):
            for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                limit = schema.get(name)
                if isinstance(limit, bool):
                    result[name] = limit
                elif limit is not None:
                    result.update({bound: limit, name: True})
        elif type_ == "array":
            result["items"] = self.convert(schema.get("items"), f"{path}[]", depth + 1)
        elif type_ == "object":
            self._add_properties(result, schema, path, depth)

    def _add_properties(self, result: Schema, schema: Mapping[str, Any], path: str, depth: int) -> None:
        additional = schema.get("additionalProperties")
        properties = schema.get("properties") or {}
        if properties:
            result["properties"] = {
                name: self.convert(child, f"{path}.{name}", depth + 1) for name, child in properties.items()
            }
            if schema.get("required"):
                result["required"] = list(schema["required"])
            if additional is True or schema.get("patternProperties"):
                result[_PRESERVE] = True
        elif isinstance(additional, Mapping) and additional:
            result["additionalProperties"] = self.convert(additional, f"{path}.*", depth + 1)
        else:
            result[_PRESERVE] = True

    def _resolve(self, reference: str, path: str) -> Mapping[str, Any]:
        found: Any = self.document
        parts = reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else [None]
        for part in filter(lambda each: each != "", parts):
            name = part.replace("~1", "/").replace("~0", "~") if part is not None else None
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            self.warnings.append(f"{SCHEMA_FILE}: {path or 'the root'}: {reference} was left out")
            return {}
        return found


def _implied_type(schema: Mapping[str, Any], result: Schema) -> str:
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    types = {_type_of(each).get("type", "") for each in result.get("enum", ()) if each is not None}
    return types.pop() if len(types) == 1 else ""
