"""CustomResourceDefinitions from declared kinds.

All versions of a kind are part of one definition. Names, scope and conversion belong to the kind, so all
versions must declare the same; schema, columns, subresources and selectable fields belong to a version. If a
kind has several versions, exactly one has `storage=True`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from kubewright.api.declaring.declarations import ResourceInfo, WebhookConversion, resource_info
from kubewright.api.objects import Object
from kubewright.api.presence import copy_value
from kubewright.schema.crd.definition import default_crd, validate_crd
from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import Options, SchemaBuilder
from kubewright.schema.shapes import shape_differences
from kubewright.schema.structural import Node, Schema

from .path_checks import column_path_errors, scale_path_errors, selectable_path_errors

Manifest = dict[str, Any]

MAX_SELECTABLE_FIELDS: Final = 8
_MAX_LISTED: Final = 10
_COLUMN_TYPES: Final = ("string", "integer", "number", "boolean", "date")
_COLUMN_FORMATS: Final = ("int32", "int64", "float", "double", "byte", "date", "date-time", "password")
_APPROVAL: Final = "api-approved.kubernetes.io"
_ROOT_KEYWORDS: Final = frozenset(
    (
        *("description", "type", "title", "externalDocs", "example", "required", "properties", "items"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf", "format", "pattern"),
        *("maxLength", "minLength", "maxItems", "minItems"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    )
)
"""Keywords that the schema of a kind with a status subresource may have at its root."""


def crd(*versions: type[Object], options: Options | None = None) -> Manifest:
    """Return the definition of a kind with these versions; raise `DeclarationError` with all problems."""
    problems: list[Problem] = []
    manifest = build_crd(versions, options or Options(), problems)
    if problems:
        raise DeclarationError(problems)
    return manifest


def build_crd(classes: Sequence[type[Object]], options: Options, problems: list[Problem]) -> Manifest:
    """Return the definition of a kind; errors are added to `problems`."""
    before = len(problems)
    places: dict[str, str] = {}
    infos = sorted(((resource_info(cls), cls) for cls in classes), key=lambda pair: pair[0].gvk.version)
    kept = [(info, cls) for info, cls in infos if not info.skip]
    first = kept[0][0] if kept else infos[0][0]
    if not kept:
        problems.append(
            _problem(first, "every version is skipped; remove skip=True from one, or the declarations")
        )
    _check_agreement([info for info, _ in kept], problems)
    _check_versions([info for info, _ in kept], problems)
    names: Manifest = {
        "kind": first.gvk.kind,
        "listKind": first.list_kind,
        "plural": first.plural,
        "singular": first.singular,
    }
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    if first.categories:
        names["categories"] = list(first.categories)
    metadata: Manifest = {"name": f"{first.plural}.{first.gvk.group}"}
    for field in ("labels", "annotations"):
        merged = {key: value for info, _ in kept for key, value in getattr(info, field).items()}
        if merged:
            metadata[field] = merged
    if _is_protected(first.gvk.group) and _APPROVAL not in metadata.get("annotations", {}):
        problems.append(
            _problem(
                first,
                f"groups below k8s.io and kubernetes.io require approval; write annotations={{{_APPROVAL!r}: "
                "...} with the URL of the approval, or choose another group",
            )
        )
    spec: Manifest = {
        "group": first.gvk.group,
        "names": names,
        "scope": first.scope,
        "versions": [_version(info, cls, len(kept), options, problems, places) for info, cls in kept],
    }
    conversion = next((info.conversion for info, _ in kept if info.conversion), None)
    if conversion is not None:
        spec["conversion"] = _conversion(conversion)
    definition: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }
    if conversion is None and (fields := version_differences(definition)):
        # An API server removes the fields that the version of a request does not have.
        versions = " and ".join(info.gvk.version for info, _ in kept if info.served)
        problems.append(
            _problem(
                first,
                f"{versions} are served without conversion, but have different fields: {fields}; declare "
                "conversion=WebhookConversion() on the hub and a converter with operator.convert(...), or "
                "declare the same fields",
            )
        )
    if len(problems) == before:
        problems.extend(_validation_errors(definition, [info for info, _ in kept], places))
    return definition


def _validation_errors(
    definition: Manifest, infos: Sequence[ResourceInfo], places: Mapping[str, str]
) -> Iterable[Problem]:
    """Return the validation errors of an API server, such as CEL rules that do not compile."""
    defaulted: Manifest = copy_value(definition)
    default_crd(defaulted)
    for error in validate_crd(defaulted):
        index = re.match(r"spec\.versions\[(\d+)\]", error.field)
        info = infos[int(index.group(1)) if index else 0]
        _, in_schema, steps = error.field.partition("openAPIV3Schema")
        if not in_schema:
            yield _problem(info, f"an API server rejects {error.field}: {error.message}")
            continue
        path, rest = _field_path(steps)
        where = places.get(f"{info.gvk.version} {info.gvk.kind}{path}", info.where)
        detail = f"{rest}: {error.message}" if rest else error.message
        yield Problem(where, info.gvk.kind + path, f"an API server rejects {detail}")


_STEP: Final = re.compile(r"\.properties\[([^\]]+)\]|\.(items)|\.(additionalProperties)")


def _field_path(steps: str) -> tuple[str, str]:
    """Split `.properties[spec].items.pattern` into a field path and the rest: `.spec[]`, `pattern`."""
    path, position = "", 0
    while step := _STEP.match(steps, position):
        path += f".{step.group(1)}" if step.group(1) else "[]" if step.group(2) else "{}"
        position = step.end()
    return path, steps[position:].lstrip(".")


def _problem(info: ResourceInfo, text: str) -> Problem:
    return Problem(info.where, f"{info.gvk.kind} {info.gvk.version}", text)


def _is_protected(group: str) -> bool:
    return group.endswith((".k8s.io", ".kubernetes.io"))


def _check_agreement(infos: Sequence[ResourceInfo], problems: list[Problem]) -> None:
    for field in ("plural", "singular", "list_kind", "scope", "short_names", "categories", "conversion"):
        declared = [info for info in infos if field != "conversion" or info.conversion is not None]
        for info in declared[1:]:
            mine, theirs = getattr(info, field), getattr(declared[0], field)
            if mine != theirs:
                other = f"{declared[0].gvk.version} ({declared[0].where})"
                problems.append(
                    _problem(info, f"{field} is {mine!r} here and {theirs!r} in {other}; use the same value")
                )


def _check_versions(infos: Sequence[ResourceInfo], problems: list[Problem]) -> None:
    seen: dict[str, ResourceInfo] = {}
    for info in infos:
        twin = seen.setdefault(info.gvk.version, info)
        if twin is not info:
            problems.append(_problem(info, f"declared twice, also at {twin.where}; remove one"))
    stored = [info for info in infos if info.storage]
    if len(infos) > 1 and not stored:
        versions = ", ".join(info.gvk.version for info in infos)
        problems.append(_problem(infos[0], f"no storage version among {versions}; write storage=True on one"))
    for info in stored[1:]:
        other = f"{stored[0].gvk.version} ({stored[0].where})"
        problems.append(
            _problem(info, f"two storage versions, the other is {other}; keep storage=True on one")
        )
    hubs = [info for info in infos if info.hub]
    for info in hubs[1:]:
        problems.append(_problem(info, f"two hubs, the other is {hubs[0].gvk.version}; keep hub=True on one"))
    if infos and not any(info.served for info in infos):
        problems.append(_problem(infos[0], "no version is served; remove served=False from one"))


def version_differences(definition: Manifest) -> str:
    """Return the fields that differ between the served versions of a definition, or an empty text."""
    served = [
        (version["name"], Node(version["schema"]["openAPIV3Schema"]))
        for version in definition["spec"]["versions"]
        if version.get("served")
    ]
    found: dict[str, None] = {}
    for (name, node), (other, other_node) in combinations(served, 2):
        found.update(dict.fromkeys(shape_differences(node, other_node, (name, other))))
    more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
    return ", ".join([*found][:_MAX_LISTED]) + more


def _version(
    info: ResourceInfo,
    cls: type[Object],
    count: int,
    options: Options,
    problems: list[Problem],
    places: dict[str, str],
) -> Manifest:
    builder = SchemaBuilder(options)
    schema = builder.schema(cls)
    problems.extend(builder.problems)
    start = len(cls.__name__)
    for path, where in builder.places.items():
        places[f"{info.gvk.version} {info.gvk.kind}{path[start:]}"] = where
    for keyword in sorted(schema.keys() - _ROOT_KEYWORDS):
        problems.append(
            _problem(info, f"{keyword} is not supported for the whole object; move it into the spec")
        )
    version: Manifest = {
        "name": info.gvk.version,
        "schema": {"openAPIV3Schema": schema},
        "served": info.served,
        "storage": info.storage or count == 1,
    }
    has_status = info.status if info.status is not None else "status" in schema.get("properties", {})
    preserves = schema.get("x-kubernetes-preserve-unknown-fields", False)
    if has_status and not preserves and "status" not in schema.get("properties", {}):
        problems.append(_problem(info, "status=True but the class has no status; declare one or remove it"))
    if info.deprecated:
        version["deprecated"] = True
        if info.deprecation_warning is not None:
            version["deprecationWarning"] = info.deprecation_warning
    errors = list(_columns(info, schema, version))
    subresources: Manifest = {}
    if has_status:
        subresources["status"] = {}
    if info.scale is not None:
        scale = info.scale
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
        }
        errors += scale_path_errors(schema, scale.spec_replicas, "spec")
        errors += scale_path_errors(schema, scale.status_replicas, "status")
        if scale.selector is not None:
            subresources["scale"]["labelSelectorPath"] = scale.selector
            root = "spec" if scale.selector.startswith(".spec.") else "status"
            errors += scale_path_errors(schema, scale.selector, root)
    if subresources or info.columns:
        version["subresources"] = subresources
    if info.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in info.selectable_fields]
        for path in info.selectable_fields:
            errors += selectable_path_errors(schema, path)
        if len(set(info.selectable_fields)) != len(info.selectable_fields):
            errors.append("a selectable field is named twice; remove one")
        if len(info.selectable_fields) > MAX_SELECTABLE_FIELDS:
            errors.append(f"at most {MAX_SELECTABLE_FIELDS} selectable fields are allowed")
    problems.extend(_problem(info, error) for error in errors)
    return version


def _columns(info: ResourceInfo, schema: Schema, version: Manifest) -> Iterable[str]:
    if not info.columns:
        return
    version["additionalPrinterColumns"] = []
    for column in info.columns:
        printed: Manifest = {"jsonPath": column.json_path, "name": column.name, "type": column.type}
        if column.description:
            printed["description"] = column.description
        if column.format:
            printed["format"] = column.format
        if column.priority:
            printed["priority"] = column.priority
        version["additionalPrinterColumns"].append(printed)
        subject = f"column {column.name!r}"
        if not column.name:
            yield "a column has no name"
        if column.type not in _COLUMN_TYPES:
            yield f"{subject}: type {column.type!r} must be one of {', '.join(_COLUMN_TYPES)}"
        if column.format and column.format not in _COLUMN_FORMATS:
            yield f"{subject}: format {column.format!r} must be one of {', '.join(_COLUMN_FORMATS)}"
        for error in column_path_errors(schema, column.json_path):
            yield f"{subject}: {error}"


def _conversion(conversion: WebhookConversion) -> Manifest:
    client: Manifest
    if conversion.url is not None:
        client = {"url": conversion.url}
    else:
        service: Manifest = {
            "name": conversion.service_name,
            "namespace": conversion.service_namespace,
            "path": conversion.path,
        }
        if conversion.service_port is not None:
            service["port"] = conversion.service_port
        client = {"service": service}
    if conversion.ca_bundle is not None:
        client["caBundle"] = conversion.ca_bundle
    webhook = {"clientConfig": client, "conversionReviewVersions": list(conversion.review_versions)}
    return {"strategy": "Webhook", "webhook": webhook}
