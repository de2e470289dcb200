"""Validation of structural schemas.

In a structural schema every node has a type, `allOf`, `anyOf`, `oneOf` and `not` only constrain fields that
are declared outside of them, and metadata is implicit. Errors are sorted by their text.
"""

from __future__ import annotations

from typing import Any, Final

import re2

from kubewright.api.field_errors import FieldError
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Schema
from kubewright.schema.validation.compiled import compile_pattern

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_LEVELS: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN_INSIDE: Final = (
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of a non-structural schema."""
    errors: list[FieldError] = []
    _invariants(schema, "root", path, errors)
    _completeness(schema, schema, path, path, errors)
    return sorted(errors, key=str)


def unsupported(schema: Schema) -> str:
    """Return why a schema cannot be converted to a structural schema, or an empty string."""
    for keyword in (
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ):
        if schema.get(keyword):
            name = "schema" if keyword == "$schema" else keyword
            return f"OpenAPIV3Schema '{name}' is not supported"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    inner: list[Any] = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("not")]
    inner += [schema.get("additionalProperties")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        inner += schema.get(keyword) or []
    for part in inner:
        why = unsupported(part) if isinstance(part, dict) else ""
        if why:
            return why
    return ""


def _invariants(schema: Schema, level: str, path: str, errors: list[FieldError]) -> None:
    kind = schema.get("type") or ""
    items = schema.get("items")
    if kind == "array" and items is None:
        errors.append(fe.required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        _invariants(items, "item", f"{path}.items", errors)
    properties = schema.get("properties") or {}
    for name, inner in properties.items():
        _invariants(inner, "field", f"{path}.properties[{name}]", errors)
    additional = schema.get("additionalProperties")
    if additional is not None:
        if level == "root":
            errors.append(fe.forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, dict):
            _invariants(additional, "field", f"{path}.additionalProperties", errors)
    embedded = schema.get("x-kubernetes-embedded-resource") or False
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") or False
    int_or_string = schema.get("x-kubernetes-int-or-string") or False
    if int_or_string:
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(keyword):
                errors.append(
                    fe.invalid(
                        f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true"
                    )
                )
    _value_validation(schema, path, errors, skip_any_of=schema.get("anyOf") == _INT_OR_STRING)
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(fe.invalid(f"{path}.type", kind, text) if kind else fe.required(f"{path}.type", text))
    elif not kind and not int_or_string and not preserve:
        errors.append(fe.required(f"{path}.type", _LEVELS[level]))
    if embedded and additional is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(fe.forbidden(f"{path}.additionalProperties", text))
    if level == "root" and kind not in ("", "object"):
        errors.append(fe.invalid(f"{path}.type", kind, "must be object at the root"))
    if level == "root" or embedded:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                found = properties[name].get("type") or ""
                errors.append(fe.invalid(f"{path}.properties[{name}].type", found, "must be string"))
    if "metadata" in properties:
        _metadata(
            properties["metadata"], level, level == "root" or embedded, f"{path}.properties[metadata]", errors
        )
    if embedded and not preserve and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(fe.required(f"{path}.properties", text))


def _metadata(schema: Schema, level: str, resource: bool, path: str, errors: list[FieldError]) -> None:
    """At the root metadata may only name `name` and `generateName`."""
    if resource and schema.get("type") != "object":
        errors.append(fe.invalid(f"{path}.type", schema.get("type") or "", "must be object"))
    if level != "root":
        return
    named = schema.get("properties") or {}
    rest = {keyword for keyword, value in schema.items() if value not in (None, "", False, [], {})}
    rest -= {"type", "default"}
    if named and named.keys() <= {"name", "generateName"}:
        rest.discard("properties")
    if rest:
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        errors.append(fe.forbidden(path, text))


def _value_validation(
    schema: Schema, path: str, errors: list[FieldError], *, skip_any_of: bool = False
) -> None:
    if not skip_any_of:
        for position, part in enumerate(schema.get("anyOf") or ()):
            _nested(part, f"{path}.anyOf[{position}]", errors)
    for position, part in enumerate(schema.get("allOf") or ()):
        first = position == 0 and part.get("anyOf") == _INT_OR_STRING
        _nested(part, f"{path}.allOf[{position}]", errors, skip_any_of=first)
    for position, part in enumerate(schema.get("oneOf") or ()):
        _nested(part, f"{path}.oneOf[{position}]", errors)
    if isinstance(schema.get("not"), dict):
        _nested(schema["not"], f"{path}.not", errors)
    pattern = schema.get("pattern") or ""
    if pattern:
        try:
            compile_pattern(pattern)
        except re2.error as error:
            why = regexp_error(error.args[0].decode(), pattern)
            text = f"must be a valid regular expression, but isn't: {why}"
            errors.append(fe.invalid(f"{path}.pattern", pattern, text))


def _nested(schema: Schema, path: str, errors: list[FieldError], *, skip_any_of: bool = False) -> None:
    _value_validation(schema, path, errors, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        _nested(schema["items"], f"{path}.items", errors)
    properties = schema.get("properties") or {}
    for name, inner in properties.items():
        _nested(inner, f"{path}.properties[{name}]", errors)
    for keyword, wanted in _FORBIDDEN_INSIDE:
        value = schema.get(keyword)
        if value is not None and (value or keyword == "default" or value == {}):
            errors.append(fe.forbidden(f"{path}.{keyword}", f"must be {wanted} to be structural"))
    if "metadata" in properties:
        text = "must not be specified in a nested context"
        errors.append(fe.forbidden(f"{path}.properties[metadata]", text))


def _completeness(
    constraint: Schema, schema: Schema | None, path: str, inside: str, errors: list[FieldError]
) -> None:
    """Fields constrained inside `allOf`, `anyOf`, `oneOf`, `not` must be declared outside of them."""
    if isinstance(constraint.get("not"), dict):
        _nested_completeness(constraint["not"], schema, path, f"{inside}.not", errors)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for position, part in enumerate(constraint.get(keyword) or ()):
            _nested_completeness(part, schema, path, f"{inside}.{keyword}[{position}]", errors)


def _nested_completeness(
    constraint: Schema, schema: Schema | None, path: str, inside: str, errors: list[FieldError]
) -> None:
    if schema is None:
        errors.append(fe.required(path, f"because it is defined in {inside}"))
        return
    _completeness(constraint, schema, path, inside, errors)
    if isinstance(constraint.get("items"), dict):
        outer = schema.get("items")
        outer = outer if isinstance(outer, dict) else None
        _nested_completeness(constraint["items"], outer, f"{path}.items", f"{inside}.items", errors)
    declared = schema.get("properties") or {}
    for name, inner in (constraint.get("properties") or {}).items():
        where, there = f"{path}.properties[{name}]", f"{inside}.properties[{name}]"
        _nested_completeness(inner, declared.get(name), where, there, errors)


_GO_REGEXP: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def regexp_error(text: str, pattern: str) -> str:
    """Translate an RE2 error to the message of Go's regexp package."""
    what, _, where = text.partition(": ")
    message = _GO_REGEXP.get(what, what)
    shown = "" if message.startswith("trailing") else where or pattern
    return f"error parsing regexp: {message}: `{shown}`"
