"""Validation of a CustomResourceDefinition, on create and on update.

An update does not report errors that the stored CRD already has, so that a CRD that was valid under earlier
rules can still be updated (ratcheting). The group, and names that are served, are immutable.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from kubewright.api.field_errors import FieldError
from kubewright.api.values import names
from kubewright.api.values.go_format import quote
from kubewright.cel.compatibility import new_expressions
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node, Schema
from kubewright.schema.validation import formats
from kubewright.schema.validation.metadata import validate_metadata

from .conversion import conversion_errors, enum_errors
from .defaults import UNKNOWN_FIELDS, default_errors, has_defaults
from .field_paths import FieldPathError, resolve_field_path
from .internal_form import CRDForm, every_schema, show_versions
from .schema import TYPES, SchemaOptions, map_key_errors, schema_errors
from .structural import structural_errors, unsupported

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE: Final = 8
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_TEXT: Final = f'protected groups must have approval annotation "{_APPROVAL}"'
_APPROVAL_LINK: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def default_crd(crd: dict[str, Any]) -> None:
    """Set the defaults of a CRD in place."""
    spec = crd.setdefault("spec", {})
    declared = spec.setdefault("names", {})
    kind = declared.get("kind") or ""
    if not declared.get("singular") and kind:
        declared["singular"] = kind.lower()
    if not declared.get("listKind") and kind:
        declared["listKind"] = f"{kind}List"
    conversion = spec.get("conversion")
    if conversion is None:
        conversion = spec["conversion"] = {"strategy": "None"}
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    status = crd.get("status") or {}
    if not status.get("storedVersions"):
        stored = [version.get("name") for version in spec.get("versions") or [] if version.get("storage")]
        if stored:
            crd["status"] = {**status, "storedVersions": stored[:1]}


def validate_crd(
    crd: dict[str, Any], old: dict[str, Any] | None = None, *, metadata: bool = True
) -> list[FieldError]:
    """Return the validation errors of a defaulted CRD; `old` is the stored CRD on update.

    Without `metadata`, only the name is checked: the server validates metadata separately.
    """
    form = CRDForm(crd)
    errors: list[FieldError] = []
    if old is None:

        def name_rule(name: str, *, prefix: bool = False) -> list[str]:
            problems = names.check_dns_subdomain(name, prefix=prefix)
            if name != f"{form.names.get('plural') or ''}.{form.group}":
                problems.append('must be spec.names.plural+"."+spec.group')
            return problems

        given = crd.get("metadata") or {}
        if metadata:
            errors += validate_metadata(given, "metadata", namespaced=False, name_rule=name_rule)
        else:
            for field, prefix in (("generateName", True), ("name", False)):
                value = given.get(field)
                for problem in name_rule(value, prefix=prefix) if value else ():
                    errors.append(fe.invalid(f"metadata.{field}", value, problem))
        with new_expressions():
            errors += _spec_errors(form, SchemaOptions(), None, {})
    else:
        before = CRDForm(old)
        with new_expressions(_expressions(before)):
            errors += _spec_errors(form, _ratchet(before), before, old)
        errors += _immutable_errors(form, before, established=_is_established(old))
    status = crd.get("status") or {}
    errors += name_errors(status.get("acceptedNames") or {}, "status.acceptedNames")
    errors += _stored_version_errors(status.get("storedVersions") or [], form.versions)
    errors += _approval_errors(crd, old)
    if form.preserve_unknown and not (old is not None and CRDForm(old).preserve_unknown):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.append(fe.invalid("spec.preserveUnknownFields", True, text))
    return errors


def validate_crd_status(crd: dict[str, Any]) -> list[FieldError]:
    """Return the validation errors of a status written through the status subresource."""
    return name_errors((crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def crd_warnings(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Return warnings about formats that are not enforced, except those that `old` already had."""
    warnings = _warnings(CRDForm(crd))
    known = set(_warnings(CRDForm(old))) if old is not None else set()
    return [warning for warning in warnings if warning not in known]


def _warnings(form: CRDForm) -> list[str]:
    found: list[str] = []
    for schema in form.schemas():
        for inner in every_schema(schema):
            name = inner.get("format") or ""
            type_name = inner.get("type") or ""
            if name and formats.is_reported(type_name) and not formats.known(type_name, name):
                found.append(f"unrecognized format {quote(name)}")
    return found


def _expressions(form: CRDForm) -> set[str]:
    """Return the rules and message expressions of all schemas."""
    rules = (
        rule
        for schema in form.schemas()
        for inner in every_schema(schema)
        for rule in inner.get("x-kubernetes-validations") or ()
    )
    return {rule.get(field) or "" for rule in rules for field in ("rule", "messageExpression")}


def _ratchet(old: CRDForm) -> SchemaOptions:
    """Return the options that relax validation for errors that the stored CRD already has."""
    schemas = old.schemas()
    inside = [inner for schema in schemas for inner in every_schema(schema)]
    structural = not any(unsupported(schema) or structural_errors(schema, "") for schema in schemas)
    return SchemaOptions(
        valid_types=all((inner.get("type") or "string") in TYPES for inner in inside),
        structural=structural,
        pruned_defaults=not (
            structural
            and any(
                error.detail == UNKNOWN_FIELDS
                for schema in schemas
                if has_defaults(schema)
                for error in default_errors(Node(schema), "")
            )
        ),
        atomic_sets=not any(_non_atomic_set(inner) for inner in inside),
        map_keys=not any(map_key_errors(inner, "") for inner in inside),
    )


def _non_atomic_set(schema: Schema) -> bool:
    items = schema.get("items")
    if schema.get("x-kubernetes-list-type") != "set" or not isinstance(items, dict):
        return False
    if items.get("type") == "array":
        return items.get("x-kubernetes-list-type") not in (None, "atomic")
    return items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic"


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)


def _spec_errors(
    form: CRDForm, options: SchemaOptions, before: CRDForm | None, old: dict[str, Any]
) -> list[FieldError]:
    errors: list[FieldError] = []
    if not form.group:
        errors.append(fe.required("spec.group"))
    elif problems := names.check_dns_subdomain(form.group):
        errors.append(fe.invalid("spec.group", form.group, ",".join(problems)))
    elif "." not in form.group:
        errors.append(fe.invalid("spec.group", form.group, "should be a domain with at least one dot"))
    errors += enum_errors("spec.scope", form.scope, ("Cluster", "Namespaced"))
    errors += _presence_errors(form, before)
    schemas = form.schemas()
    structural = options.structural or not form.preserve_unknown or any(map(_needs_structure, schemas))
    if form.preserve_unknown and any(map(has_defaults, schemas)):
        text = "must be false in order to use defaults in the schema"
        errors.append(fe.invalid("spec.preserveUnknownFields", True, text))
    seen: set[str] = set()
    unique = True
    for position, version in enumerate(form.versions):
        name = version.get("name") or ""
        unique = unique and name not in seen
        seen.add(name)
        if problems := names.check_dns_1035_label(name):
            errors.append(fe.invalid(f"spec.versions[{position}].name", name, ",".join(problems)))
        chosen = _options(options, structural, form, before, name)
        errors += _version_errors(form, version, f"spec.versions[{position}]", chosen, before)
    if not unique:
        errors.append(
            fe.invalid("spec.versions", show_versions(form.versions), "must contain unique version names")
        )
    if sum(1 for version in form.versions if version.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        shown = None if form.without_versions else show_versions(form.versions)
        errors.append(fe.invalid("spec.versions", shown, text))
    if form.version and (problems := names.check_dns_1035_label(form.version)):
        errors.append(fe.invalid("spec.version", form.version, ",".join(problems)))
    errors += [
        fe.required(f"spec.names.{name}")
        for name in ("plural", "singular", "kind", "listKind")
        if not form.names.get(name)
    ]
    errors += name_errors(form.names, "spec.names")
    if form.validation and form.validation.get("openAPIV3Schema"):
        any_status = any(
            (holder or {}).get("status") is not None
            for holder in (form.subresources, *(version.get("subresources") for version in form.versions))
        )
        chosen = _options(options, structural, form, before, form.version)
        schema = form.validation["openAPIV3Schema"]
        errors += schema_errors(schema, "spec.validation", chosen, status_subresource=any_status)
    errors += _subresource_errors(form.subresources, "spec.subresources")
    for position, column in enumerate(form.columns):
        errors += _column_errors(column, f"spec.additionalPrinterColumns[{position}]")
    if form.selectable_fields:
        if form.validation is None:
            text = "may only be set when validations.schema is included"
            errors.append(fe.invalid("spec.selectableFields", "", text))
        else:
            errors += _selectable_errors(
                form.selectable_fields,
                form.validation.get("openAPIV3Schema") or {},
                "spec.selectableFields",
                before.selectable_fields if before is not None else None,
            )
    strategy = (form.conversion or {}).get("strategy") or ""
    if form.conversion is not None and strategy != "None" and form.preserve_unknown:
        text = "must be None if spec.preserveUnknownFields is true"
        errors.append(fe.invalid("spec.conversion.strategy", strategy, text))
    return errors + conversion_errors(
        form.conversion, before.conversion if before is not None else None, established=_is_established(old)
    )


def _options(
    options: SchemaOptions, structural: bool, form: CRDForm, before: CRDForm | None, version: str
) -> SchemaOptions:
    unchanged = before is not None and form.schema_of(version) is not None
    unchanged = unchanged and form.schema_of(version) == (before.schema_of(version) if before else None)
    return SchemaOptions(
        options.valid_types,
        structural,
        options.pruned_defaults,
        options.atomic_sets,
        options.map_keys,
        rule_costs=not unchanged,
    )


def _needs_structure(schema: Schema) -> bool:
    return has_defaults(schema) or any(
        any(keyword.startswith("x-kubernetes-") and value for keyword, value in inner.items())
        for inner in every_schema(schema)
    )


def _presence_errors(form: CRDForm, before: CRDForm | None) -> list[FieldError]:
    """Every version requires a schema, unless the stored CRD had versions without one."""
    if (form.validation or {}).get("openAPIV3Schema"):
        return []
    lenient = before is not None and not (
        (before.validation or {}).get("openAPIV3Schema")
        or all((version.get("schema") or {}).get("openAPIV3Schema") for version in before.versions)
    )
    errors = []
    for position, version in enumerate(form.versions):
        if (version.get("schema") or {}).get("openAPIV3Schema"):
            continue
        where = f"spec.versions[{position}].schema.openAPIV3Schema"
        if not lenient:
            errors.append(fe.required(where))
        elif version.get("served") and not form.preserve_unknown:
            errors.append(fe.required(where, "because otherwise all fields are pruned"))
    return errors


def _version_errors(
    form: CRDForm, version: dict[str, Any], path: str, options: SchemaOptions, before: CRDForm | None
) -> list[FieldError]:
    errors: list[FieldError] = []
    warning = version.get("deprecationWarning")
    errors += [
        fe.invalid(f"{path}.deprecationWarning", warning, text)
        for text in _deprecation_problems(bool(version.get("deprecated")), warning)
    ]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    per_version = any(other.get("subresources") is not None for other in form.versions)
    subresources = version.get("subresources") if per_version else form.subresources
    if schema:
        has_status = (subresources or {}).get("status") is not None
        errors += schema_errors(schema, f"{path}.schema", options, status_subresource=has_status)
    errors += _subresource_errors(version.get("subresources"), f"{path}.subresources")
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += _column_errors(column, f"{path}.additionalPrinterColumns[{position}]")
    declared = version.get("selectableFields")
    if declared:
        if not schema:
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            errors.append(fe.invalid(f"{path}.selectableFields", "", text))
        else:
            stored = [
                each
                for each in (before.versions if before else ())
                if each.get("name") == version.get("name")
            ]
            errors += _selectable_errors(
                declared,
                schema,
                f"{path}.selectableFields",
                stored[0].get("selectableFields") if stored else None,
            )
    return errors


def _deprecation_problems(deprecated: bool, warning: str | None) -> list[str]:
    if warning is None:
        return []
    if not deprecated:
        return ["can only be set for deprecated versions"]
    problems = ["must be <= 256 characters long"] if len(warning.encode()) > 256 else []
    if not warning:
        problems.append("must not be an empty string")
    for position, char in enumerate(warning):
        if not char.isprintable():
            at = len(warning[:position].encode())
            problems.append(
                f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
            )
            break
    return problems


def name_errors(declared: dict[str, Any], path: str) -> list[FieldError]:
    """Return the errors in `spec.names` or `status.acceptedNames`."""
    errors: list[FieldError] = []
    for name in ("plural", "singular"):
        value = declared.get(name) or ""
        if value and (problems := names.check_dns_1035_label(value)):
            errors.append(fe.invalid(f"{path}.{name}", value, ",".join(problems)))
    for name in ("kind", "listKind"):
        value = declared.get(name) or ""
        if value and (problems := names.check_dns_1035_label(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(problems)
            errors.append(fe.invalid(f"{path}.{name}", value, text))
    for position, value in enumerate(declared.get("shortNames") or ()):
        if problems := names.check_dns_1035_label(value):
            errors.append(fe.invalid(f"{path}.shortNames[{position}]", value, ",".join(problems)))
    kind = declared.get("kind") or ""
    if kind and kind == declared.get("listKind"):
        errors.append(fe.invalid(f"{path}.listKind", kind, "kind and listKind may not be the same"))
    for position, value in enumerate(declared.get("categories") or ()):
        if problems := names.check_dns_1035_label(value):
            errors.append(fe.invalid(f"{path}.categories[{position}]", value, ",".join(problems)))
    return errors


def _column_errors(column: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not column.get("name"):
        errors.append(fe.required(f"{path}.name"))
    kind, text = column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(fe.required(f"{path}.type", text))
    elif kind not in _COLUMN_TYPES:
        errors.append(fe.invalid(f"{path}.type", kind, text))
    shape = column.get("format") or ""
    if shape and shape not in _COLUMN_FORMATS:
        errors.append(fe.invalid(f"{path}.format", shape, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    json_path = column.get("jsonPath") or ""
    if not json_path:
        errors.append(fe.required(f"{path}.JSONPath"))
    elif not json_path.startswith("."):
        text = "must be a simple json path starting with ."
        errors.append(fe.invalid(f"{path}.JSONPath", json_path, text))
    return errors


def _subresource_errors(subresources: dict[str, Any] | None, path: str) -> list[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for name, prefix in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(name) or ""
        where = f"{path}.scale.{name}"
        if not value:
            errors.append(fe.required(where))
        else:
            errors += _scale_path_errors(where, value, (prefix,), f"should be a json path under {prefix}")
    value = scale.get("labelSelectorPath") or ""
    if value:
        text = "should be a json path under either .spec or .status"
        errors += _scale_path_errors(f"{path}.scale.labelSelectorPath", value, (".spec", ".status"), text)
    return errors


def _scale_path_errors(path: str, value: str, prefixes: tuple[str, ...], text: str) -> list[FieldError]:
    if not value.startswith("."):
        return [fe.invalid(path, value, "must be a simple json path starting with .")]
    fits = any(value.startswith(f"{prefix}.") for prefix in prefixes)
    return [] if fits else [fe.invalid(path, value, text)]


def _selectable_errors(
    declared: list[dict[str, Any]], schema: Schema, path: str, stored: list[dict[str, Any]] | None
) -> list[FieldError]:
    if unsupported(schema):
        return []
    errors: list[FieldError] = []
    seen: set[str] = set()
    node = Node(schema)
    for position, entry in enumerate(declared):
        where, json_path = f"{path}[{position}].jsonPath", entry.get("jsonPath") or ""
        if not json_path:
            errors.append(fe.required(where))
            continue
        try:
            field, target = resolve_field_path(json_path, node, subscripts=False)
        except FieldPathError as error:
            errors.append(fe.invalid(where, json_path, f"is an invalid path: {error}"))
            continue
        if field.partition(".")[0] == "metadata":
            errors.append(fe.invalid(where, json_path, "must not point to fields in metadata"))
        if target is None or target.type not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(fe.invalid(where, json_path, text))
        if field in seen:
            errors.append(fe.duplicate(where, json_path))
        seen.add(field)
    kept = stored is not None and len(stored) > _MAX_SELECTABLE and stored == declared
    if len(seen) > _MAX_SELECTABLE and not kept:
        errors.append(fe.too_many(path, len(seen), _MAX_SELECTABLE))
    return errors


def _immutable_errors(form: CRDForm, before: CRDForm, *, established: bool) -> list[FieldError]:
    pairs = [
        ("spec.group", form.group, before.group),
        ("spec.names.plural", form.names.get("plural") or "", before.names.get("plural") or ""),
    ]
    if established:
        pairs = [
            ("spec.scope", form.scope, before.scope),
            ("spec.names.kind", form.names.get("kind") or "", before.names.get("kind") or ""),
            *pairs,
        ]
    return [fe.invalid(path, new, "field is immutable") for path, new, old in pairs if new != old]


def _stored_version_errors(stored: list[str], versions: list[dict[str, Any]]) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [fe.invalid(path, None, "must have at least one stored version")]
    declared = [version.get("name") for version in versions]
    errors = [
        fe.invalid(path, stored, f"must have the storage version {version.get('name')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    for position, name in enumerate(stored):
        if name not in declared:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            errors.append(fe.invalid(f"{path}[{position}]", name, text))
    return errors


def _approval_state(crd: dict[str, Any]) -> str:
    value = ((crd.get("metadata") or {}).get("annotations") or {}).get(_APPROVAL) or ""
    if not value:
        return "missing"
    if value.startswith("unapproved"):
        return "bypassed"
    try:
        parts = urlsplit(value)
    except ValueError:
        return "invalid"
    return "approved" if parts.scheme and parts.netloc else "invalid"


def _approval_errors(crd: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """Groups of the Kubernetes project need an annotation that says who approved them."""
    group = CRDForm(crd).group
    protected = any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io"))
    state = _approval_state(crd)
    if (
        not protected
        or state in ("approved", "bypassed")
        or (old is not None and _approval_state(old) == state)
    ):
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [fe.required(path, f"{_APPROVAL_TEXT}, {_APPROVAL_LINK}")]
    value = crd["metadata"]["annotations"][_APPROVAL]
    text = f'{_APPROVAL_TEXT} with either a URL or a reason starting with "unapproved", {_APPROVAL_LINK}'
    return [fe.invalid(path, value, text)]
