"""Validation of the schema of a CRD version: allowed keywords, list and map topology, defaults and CEL rules.

The walk tracks, for each node: whether defaults are allowed, whether it is inside metadata, which ancestor
makes old and new values uncorrelatable, and how often the node can occur in one object (its cardinality,
for the cost of rules).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from kubewright.api.field_errors import FieldError
from kubewright.cel.costs import limits
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node, Schema
from kubewright.schema.validation.rules import Rule, compile_rules

from .defaults import default_errors
from .field_paths import FieldPathError, resolve_field_path
from .internal_form import SCHEMA_FIELDS, show_rule, show_schema
from .structural import structural_errors, unsupported

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META_FIELDS: Final = frozenset(("metadata", "kind", "apiVersion"))
_ALLOWED_AT_ROOT: Final = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
]
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, "
    "and strings are declared)"
)


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Checks that are relaxed because the stored CRD already fails them."""

    valid_types: bool = True
    structural: bool = True
    pruned_defaults: bool = True
    atomic_sets: bool = True
    map_keys: bool = True
    rule_costs: bool = True


@dataclass(slots=True)
class _Costs:
    """Estimated total cost of all rules, and the four most expensive rules."""

    total: int = 0
    largest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, limits.MAX_UINT64)
        if cost >= limits.STATIC_CRD_LIMIT // 100:
            self.largest = sorted([*self.largest, (cost, path)], key=lambda entry: -entry[0])[:4]


@dataclass(frozen=True, slots=True)
class _Place:
    """Context of a node in the walk."""

    defaults_forbidden: str | None = None
    inside_metadata: bool = False
    uncorrelatable: str | None = None
    node: Node | None = None
    root: bool = False
    cardinality: int | None = 1


def schema_errors(
    schema: Schema, path: str, options: SchemaOptions, *, status_subresource: bool
) -> list[FieldError]:
    """Return the errors of one `openAPIV3Schema`; `path` is the path of the object that contains it."""
    where = f"{path}.openAPIV3Schema"
    errors = _root_errors(schema, path) if status_subresource else []
    if schema.get("nullable"):
        errors.append(fe.forbidden(f"{where}.nullable", "nullable cannot be true at the root"))
    costs = _Costs()
    node: Node | None = None
    late: list[FieldError] = []
    if options.structural:
        why = unsupported(schema)
        if why:
            late.append(fe.invalid(where, "", why))
        else:
            found = structural_errors(schema, where)
            if not found:
                candidate = Node(schema)
                found = default_errors(candidate, where, pruned=options.pruned_defaults)
                node = candidate if not found else None
            errors += found
    walk = _SchemaWalk(options, costs)
    walk.visit(schema, where, _Place(node=node, root=True))
    errors += walk.errors + walk.rule_errors
    if not errors:
        errors += late
    if costs.total > limits.STATIC_CRD_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [fe.forbidden(place, text) for _, place in costs.largest]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(fe.forbidden(where, _cost_text(name, costs.total, limits.STATIC_CRD_LIMIT)))
    return errors


def _root_errors(schema: Schema, path: str) -> list[FieldError]:
    """With a status subresource, only keywords that also apply to the status are allowed at the root."""
    for name, keyword, zero in SCHEMA_FIELDS:
        value = schema.get(keyword, zero)
        if value == zero:
            continue
        if name == "Type":
            if value != "object":
                text = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [fe.invalid(f"{path}.openAPIV3Schema.type", value, text)]
        elif name not in _ALLOWED_AT_ROOT:
            text = (
                f"only [{' '.join(_ALLOWED_AT_ROOT)}] fields are allowed at the root of the schema "
                "if the status subresource is enabled"
            )
            return [fe.invalid(f"{path}.openAPIV3Schema", show_schema(schema), text)]
    return []


_HOLDERS: Final = frozenset(
    (
        "additionalProperties",
        "allOf",
        "anyOf",
        "definitions",
        "dependencies",
        "items",
        "not",
        "oneOf",
        "properties",
    )
)
"""Keywords that contain nested schemas."""


class _SchemaWalk:
    """Visits a schema; `errors` are schema errors, `rule_errors` errors of CEL rules."""

    def __init__(self, options: SchemaOptions, costs: _Costs) -> None:
        self.options = options
        self.costs = costs
        self.errors: list[FieldError] = []
        self.rule_errors: list[FieldError] = []

    def visit(self, schema: Schema, path: str, place: _Place) -> None:
        before = len(self.errors)
        self._keywords(schema, path, place)
        self._children(schema, path, place)
        self._topology(schema, path)
        if self.options.map_keys:
            self.errors += map_key_errors(schema, path)
        if schema.get("x-kubernetes-validations"):
            self._rules(schema, path, place, before)

    def _forbid(self, path: str, text: str) -> None:
        self.errors.append(fe.forbidden(path, text))

    def _keywords(self, schema: Schema, path: str, place: _Place) -> None:
        kind = schema.get("type") or ""
        if self.options.valid_types and kind and kind not in TYPES:
            self.errors.append(fe.not_supported(f"{path}.type", kind, TYPES))
        if schema.get("default") is not None and place.defaults_forbidden is not None:
            self._forbid(f"{path}.default", f"must not be set {place.defaults_forbidden}".rstrip())
        for keyword in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
            present = schema.get(keyword)
            if present or (present is not None and keyword in ("additionalItems", "dependencies", "$ref")):
                self._forbid(f"{path}.{keyword}", f"{keyword} is not supported")
        if kind == "null":
            self._forbid(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
        if isinstance(schema.get("items"), list):
            self._forbid(f"{path}.items", "items must be a schema object and not an array")
        if place.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
            self._forbid(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
        if schema.get("uniqueItems"):
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            self._forbid(f"{path}.uniqueItems", text)

    def _children(self, schema: Schema, path: str, place: _Place) -> None:
        if _HOLDERS.isdisjoint(schema):
            return
        node = place.node
        inner = replace(place, root=False, cardinality=_below(schema, place.cardinality))
        additional = schema.get("additionalProperties")
        properties = schema.get("properties") or {}
        if additional is not None:
            if properties and (additional is False or isinstance(additional, dict)):
                text = "additionalProperties and properties are mutual exclusive"
                self._forbid(f"{path}.additionalProperties", text)
            if isinstance(additional, dict):
                below = replace(inner, node=node.additional if node is not None else None)
                if place.inside_metadata:
                    below = replace(
                        below, defaults_forbidden="inside additionalProperties applying to object metadata"
                    )
                self.visit(additional, f"{path}.additionalProperties", below)
        resource = place.root or schema.get("x-kubernetes-embedded-resource")
        for name in sorted(properties):
            below = replace(inner, node=node.properties.get(name) if node is not None else None)
            if schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic"):
                below = replace(below, uncorrelatable=place.uncorrelatable or path)
            if resource and name in _META_FIELDS:
                below = replace(below, inside_metadata=True)
                if place.root:
                    below = replace(below, defaults_forbidden=f"in top-level {name}")
            self.visit(properties[name], f"{path}.properties[{name}]", below)
        outside = replace(place, node=None, root=False)
        if isinstance(schema.get("not"), dict):
            self.visit(schema["not"], f"{path}.not", outside)
        for keyword in ("allOf", "oneOf", "anyOf"):
            for position, part in enumerate(schema.get(keyword) or ()):
                self.visit(part, f"{path}.{keyword}[{position}]", outside)
        for name, part in sorted((schema.get("definitions") or {}).items()):
            self.visit(part, f"{path}.definitions[{name}]", outside)
        items = schema.get("items")
        if items is not None:
            if schema.get("x-kubernetes-list-type") != "map":
                inner = replace(inner, uncorrelatable=place.uncorrelatable or path)
            if isinstance(items, dict):
                self.visit(
                    items, f"{path}.items", replace(inner, node=node.items if node is not None else None)
                )
            else:
                for position, part in enumerate(items):
                    self.visit(part, f"{path}.items[{position}]", replace(inner, node=None))
        for name, part in sorted((schema.get("dependencies") or {}).items()):
            if isinstance(part, dict):
                self.visit(part, f"{path}.dependencies[{name}]", outside)

    def _topology(self, schema: Schema, path: str) -> None:
        errors = self.errors
        kind = schema.get("type") or ""
        map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
        keys = schema.get("x-kubernetes-list-map-keys") or []
        items = schema.get("items")
        if schema.get("x-kubernetes-preserve-unknown-fields") is False:
            where = f"{path}.x-kubernetes-preserve-unknown-fields"
            errors.append(fe.invalid(where, False, "must be true or undefined"))
        if map_type is not None and kind != "object":
            self._wrong_type(path, kind, "must be object if x-kubernetes-map-type is specified")
        if map_type is not None and map_type not in ("atomic", "granular"):
            errors.append(fe.not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular")))
        if list_type is not None and kind != "array":
            self._wrong_type(path, kind, "must be array if x-kubernetes-list-type is specified")
        elif self.options.atomic_sets and list_type == "set" and isinstance(items, dict):
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
                where = f"{path}.items.x-kubernetes-list-type"
                errors.append(fe.invalid(where, items["x-kubernetes-list-type"], text))
            if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
                where = f"{path}.items.x-kubernetes-map-type"
                errors.append(fe.invalid(where, items.get("x-kubernetes-list-type"), text))
        if list_type is not None and list_type not in ("atomic", "set", "map"):
            where = f"{path}.x-kubernetes-list-type"
            errors.append(fe.not_supported(where, list_type, ("atomic", "set", "map")))
        if keys and list_type != "map":
            where, text = (
                f"{path}.x-kubernetes-list-type",
                "must be map if x-kubernetes-list-map-keys is non-empty",
            )
            errors.append(
                fe.required(where, text) if list_type is None else fe.invalid(where, list_type, text)
            )
        if list_type == "map":
            self._map_list(schema, path, keys)

    def _wrong_type(self, path: str, kind: str, text: str) -> None:
        where = f"{path}.type"
        self.errors.append(fe.invalid(where, kind, text) if kind else fe.required(where, text))

    def _map_list(self, schema: Schema, path: str, keys: list[str]) -> None:
        errors, items = self.errors, schema.get("items")
        where = f"{path}.x-kubernetes-list-map-keys"
        if not keys:
            errors.append(fe.required(where, "must not be empty if x-kubernetes-list-type is map"))
        if items is None:
            errors.append(fe.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        elif not isinstance(items, dict):
            text = "must only have a single schema if x-kubernetes-list-type is map"
            errors.append(fe.invalid(f"{path}.items", [show_schema(part) for part in items], text))
        elif items.get("type") != "object":
            text = "must be object if parent array's x-kubernetes-list-type is map"
            errors.append(fe.invalid(f"{path}.items.type", items.get("type") or "", text))
        else:
            declared = items.get("properties") or {}
            seen: set[str] = set()
            for key in keys:
                if key not in declared:
                    errors.append(fe.invalid(where, keys, "entries must all be names of item properties"))
                elif declared[key].get("type") in ("array", "object"):
                    text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                    errors.append(fe.invalid(f"{path}.items.properties[{key}].type", items["type"], text))
                if key in seen:
                    errors.append(fe.invalid(where, keys, "must not contain duplicate entries"))
                seen.add(key)

    def _rules(self, schema: Schema, path: str, place: _Place, before: int) -> None:
        declared: list[dict[str, Any]] = schema["x-kubernetes-validations"]
        for position, rule in enumerate(declared):
            self.errors += _rule_text_errors(rule, schema, f"{path}.x-kubernetes-validations[{position}]")
        if len(self.errors) > before or place.node is None:
            return
        compiled = compile_rules(place.node, root=place.root)
        for position, (rule, result) in enumerate(zip(declared, compiled, strict=True)):
            self._compiled_rule(rule, result, f"{path}.x-kubernetes-validations[{position}]", place)

    def _compiled_rule(self, declared: dict[str, Any], rule: Rule, path: str, place: _Place) -> None:
        errors = self.rule_errors
        occurs = place.cardinality
        if occurs is None:
            occurs = limits.max_cardinality(rule.min_json)
        cost = min(rule.max_cost * occurs, limits.MAX_UINT64)
        self._cost("estimated rule cost", f"{path}.rule", cost)
        if rule.problem:
            errors.append(fe.invalid(f"{path}.rule", show_rule(declared), rule.problem))
        if rule.message_problem:
            errors.append(fe.invalid(f"{path}.messageExpression", show_rule(declared), rule.message_problem))
        elif rule.message_program is not None:
            self._cost("estimated messageExpression cost", f"{path}.messageExpression", rule.message_max_cost)
        if rule.uses_old:
            if place.uncorrelatable is not None:
                text = (
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                    f"{place.uncorrelatable}"
                )
                errors.append(fe.invalid(f"{path}.rule", declared.get("rule") or "", text))
        elif declared.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            errors.append(fe.invalid(f"{path}.optionalOldSelf", declared["optionalOldSelf"], text))

    def _cost(self, name: str, path: str, cost: int) -> None:
        if self.options.rule_costs and cost > limits.STATIC_EXPRESSION_LIMIT:
            self.rule_errors.append(
                fe.forbidden(path, _cost_text(name, cost, limits.STATIC_EXPRESSION_LIMIT))
            )
        self.costs.add(path, cost)


def _below(schema: Schema, cardinality: int | None) -> int | None:
    """Return how often a child of a node can occur; `None` means unbounded."""
    if cardinality is None:
        return None
    most: int | None = 1
    if schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    elif schema.get("type") == "array":
        most = schema.get("maxItems")
    return None if most is None else min(cardinality * max(most, 0), limits.MAX_UINT64)


def _cost_text(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _rule_text_errors(rule: dict[str, Any], schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of a rule that need no compilation."""
    errors: list[FieldError] = []
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        errors.append(fe.required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(fe.invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_line_breaks(message.strip()):
        errors.append(fe.invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _has_line_breaks(text.strip()) and not message.strip():
        errors.append(
            fe.required(f"{path}.message", "message must be specified if rule contains line breaks")
        )
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        where = f"{path}.messageExpression"
        errors.append(fe.required(where, "messageExpression must be non-empty if specified"))
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        errors.append(fe.not_supported(f"{path}.reason", rule["reason"], _REASONS))
    field_path = rule.get("fieldPath") or ""
    where = f"{path}.fieldPath"
    if field_path and not field_path.strip():
        errors.append(fe.invalid(where, field_path, "must be non-empty if specified"))
    if _has_line_breaks(field_path):
        errors.append(fe.invalid(where, field_path, "must not contain line breaks"))
    if field_path and not unsupported(schema):
        try:
            resolve_field_path(field_path, Node(schema))
        except FieldPathError:
            errors.append(fe.invalid(where, field_path, "must be a valid path"))
    return errors


def map_key_errors(schema: Schema, path: str) -> list[FieldError]:
    """Items of sets and list maps are not nullable; keys of list maps are required or have a default."""
    items, list_type = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or list_type not in ("set", "map"):
        return []
    errors: list[FieldError] = []
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        errors.append(fe.forbidden(f"{path}.items.nullable", text))
    declared, wanted = items.get("properties") or {}, items.get("required") or []
    for key in schema.get("x-kubernetes-list-map-keys") or () if list_type == "map" else ():
        if key not in declared:
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in wanted and declared[key].get("default") is None:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default "
                "or be a required property"
            )
            errors.append(fe.required(f"{where}.default", text))
        if declared[key].get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(fe.forbidden(f"{where}.nullable", text))
    return errors
