"""The internal form of a CRD, which validation uses, and how messages print parts of it.

kube-apiserver validates the internal version of a CRD: what all versions share (schema, subresources,
columns, selectable fields) is moved to the top level, so an error in the only version's schema is reported at
`spec.validation.openAPIV3Schema`. Internal types have no JSON names, so messages print Go field names.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.schema.field_errors import GoStruct
from kubewright.schema.structural import Schema

_SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


class CRDForm:
    """A CRD spec with the shared parts at the top level."""

    __slots__ = (
        "columns",
        "conversion",
        "group",
        "names",
        "preserve_unknown",
        "scope",
        "selectable_fields",
        "subresources",
        "validation",
        "versions",
        "without_versions",
    )

    def __init__(self, crd: dict[str, Any]) -> None:
        spec = crd.get("spec") or {}
        self.group: str = spec.get("group") or ""
        self.names: dict[str, Any] = spec.get("names") or {}
        self.scope: str = spec.get("scope") or ""
        self.preserve_unknown: bool = bool(spec.get("preserveUnknownFields"))
        self.conversion: dict[str, Any] | None = spec.get("conversion")
        self.versions: list[dict[str, Any]] = [dict(version) for version in spec.get("versions") or []]
        self.without_versions: bool = spec.get("versions") is None
        shared: dict[str, Any] = {}
        for part in _SHARED if self.versions else ():
            values = [version.get(part) for version in self.versions]
            if part not in ("schema", "subresources"):
                values = [value or None for value in values]
            if all(value == values[0] for value in values):
                shared[part] = values[0]
                for version in self.versions:
                    version.pop(part, None)
        self.validation: dict[str, Any] | None = shared.get("schema")
        self.subresources: dict[str, Any] | None = shared.get("subresources")
        self.columns: list[dict[str, Any]] = shared.get("additionalPrinterColumns") or []
        self.selectable_fields: list[dict[str, Any]] = shared.get("selectableFields") or []

    @property
    def version(self) -> str:
        """The name of the first version."""
        return (self.versions[0].get("name") or "") if self.versions else ""

    def schemas(self) -> list[Schema]:
        """Return all schemas of the CRD."""
        declared = [self.validation, *(version.get("schema") for version in self.versions)]
        return [holder["openAPIV3Schema"] for holder in declared if holder and holder.get("openAPIV3Schema")]

    def schema_of(self, version: str) -> Schema | None:
        """The schema that applies to a version."""
        for declared in self.versions:
            if declared.get("name") == version:
                holder = declared.get("schema") or self.validation
                return (holder or {}).get("openAPIV3Schema")
        return None


def subschemas(schema: Schema) -> list[Schema]:
    """Yield the direct subschemas of a schema."""
    found: list[Any] = []
    items = schema.get("items")
    found += items if isinstance(items, list) else [items]
    for keyword in ("allOf", "anyOf", "oneOf"):
        found += schema.get(keyword) or []
    found += [schema.get("not"), schema.get("additionalProperties"), schema.get("additionalItems")]
    for keyword in ("properties", "patternProperties", "definitions", "dependencies"):
        part = schema.get(keyword) or {}
        found += [part[name] for name in sorted(part)]
    return [inner for inner in found if isinstance(inner, dict)]


def every_schema(schema: Schema) -> list[Schema]:
    """Yield a schema and all nested schemas, outermost first."""
    found, position = [schema], 0
    while position < len(found):
        found += subschemas(found[position])
        position += 1
    return found


def show_versions(versions: list[dict[str, Any]]) -> list[GoStruct]:
    """Return versions as messages print them."""
    return [
        GoStruct(
            Name=version.get("name") or "",
            Served=bool(version.get("served")),
            Storage=bool(version.get("storage")),
            Deprecated=bool(version.get("deprecated")),
            DeprecationWarning=version.get("deprecationWarning"),
            Schema=_show_holder(version.get("schema")),
            Subresources=_show_subresources(version.get("subresources")),
            AdditionalPrinterColumns=_show_columns(version.get("additionalPrinterColumns")),
            SelectableFields=_show_selectable(version.get("selectableFields")),
        )
        for version in versions
    ]


def _show_holder(holder: dict[str, Any] | None) -> GoStruct | None:
    if holder is None:
        return None
    schema = holder.get("openAPIV3Schema")
    return GoStruct(OpenAPIV3Schema=show_schema(schema) if schema is not None else None)


def _show_subresources(subresources: dict[str, Any] | None) -> GoStruct | None:
    if subresources is None:
        return None
    scale = subresources.get("scale")
    return GoStruct(
        Status=GoStruct() if subresources.get("status") is not None else None,
        Scale=None
        if scale is None
        else GoStruct(
            SpecReplicasPath=scale.get("specReplicasPath") or "",
            StatusReplicasPath=scale.get("statusReplicasPath") or "",
            LabelSelectorPath=scale.get("labelSelectorPath"),
        ),
    )


def _show_columns(columns: list[dict[str, Any]] | None) -> list[GoStruct] | None:
    if columns is None:
        return None
    return [
        GoStruct(
            Name=column.get("name") or "",
            Type=column.get("type") or "",
            Format=column.get("format") or "",
            Description=column.get("description") or "",
            Priority=column.get("priority") or 0,
            JSONPath=column.get("jsonPath") or "",
        )
        for column in columns
    ]


def _show_selectable(fields: list[dict[str, Any]] | None) -> list[GoStruct] | None:
    return None if fields is None else [GoStruct(JSONPath=field.get("jsonPath") or "") for field in fields]


def show_rule(rule: dict[str, Any]) -> GoStruct:
    """Return a CEL rule as messages print it."""
    return GoStruct(
        Rule=rule.get("rule") or "",
        Message=rule.get("message") or "",
        MessageExpression=rule.get("messageExpression") or "",
        Reason=rule.get("reason"),
        FieldPath=rule.get("fieldPath") or "",
        OptionalOldSelf=rule.get("optionalOldSelf"),
    )


SCHEMA_FIELDS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("ID", "id", ""),
    ("Schema", "$schema", ""),
    ("Ref", "$ref", None),
    ("Description", "description", ""),
    ("Type", "type", ""),
    ("Nullable", "nullable", False),
    ("Format", "format", ""),
    ("Title", "title", ""),
    ("Default", "default", None),
    ("Maximum", "maximum", None),
    ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", None),
    ("ExclusiveMinimum", "exclusiveMinimum", False),
    ("MaxLength", "maxLength", None),
    ("MinLength", "minLength", None),
    ("Pattern", "pattern", ""),
    ("MaxItems", "maxItems", None),
    ("MinItems", "minItems", None),
    ("UniqueItems", "uniqueItems", False),
    ("MultipleOf", "multipleOf", None),
    ("Enum", "enum", None),
    ("MaxProperties", "maxProperties", None),
    ("MinProperties", "minProperties", None),
    ("Required", "required", None),
    ("Items", "items", None),
    ("AllOf", "allOf", None),
    ("OneOf", "oneOf", None),
    ("AnyOf", "anyOf", None),
    ("Not", "not", None),
    ("Properties", "properties", None),
    ("AdditionalProperties", "additionalProperties", None),
    ("PatternProperties", "patternProperties", None),
    ("Dependencies", "dependencies", None),
    ("AdditionalItems", "additionalItems", None),
    ("Definitions", "definitions", None),
    ("ExternalDocs", "externalDocs", None),
    ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None),
    ("XListType", "x-kubernetes-list-type", None),
    ("XMapType", "x-kubernetes-map-type", None),
    ("XValidations", "x-kubernetes-validations", None),
)
"""Go fields of a schema in declaration order: name, keyword, zero value."""


def show_schema(schema: Schema) -> GoStruct:
    """Return a schema as messages print it: all fields, set or not."""
    shown = GoStruct()
    for name, keyword, zero in SCHEMA_FIELDS:
        shown[name] = _show_keyword(keyword, schema[keyword]) if keyword in schema else zero
    return shown


def _show_keyword(keyword: str, value: Any) -> Any:
    if keyword in ("allOf", "oneOf", "anyOf"):
        return [show_schema(part) for part in value]
    if keyword == "not":
        return show_schema(value)
    if keyword in ("properties", "patternProperties", "definitions"):
        return {name: show_schema(part) for name, part in value.items()}
    if keyword == "items":
        many = isinstance(value, list)
        return GoStruct(
            Schema=None if many else show_schema(value),
            JSONSchemas=[show_schema(part) for part in value] if many else None,
        )
    if keyword in ("additionalProperties", "additionalItems"):
        inner = isinstance(value, dict)
        return GoStruct(Allows=True if inner else bool(value), Schema=show_schema(value) if inner else None)
    if keyword == "externalDocs":
        return GoStruct(Description=value.get("description") or "", URL=value.get("url") or "")
    if keyword == "x-kubernetes-validations":
        return [show_rule(rule) for rule in value]
    return value
