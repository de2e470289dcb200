"""Checks before development changes a CustomResourceDefinition.

An operator changes only CRDs that it installed: they have its name in the annotation
`kubewright.dev/installed-by`, and its field manager owns their versions. A change that removes versions or
fields is rejected while objects are stored, because the API server would drop these fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Manifest = Mapping[str, Any]

OWNER_ANNOTATION: Final = "kubewright.dev/installed-by"
"""Annotation of CRDs with the name of the operator that installed them in development."""


def is_installed_by(definition: Manifest, owner: str) -> bool:
    """Whether a stored CRD was installed by `owner`, and no other manager has changed its versions since."""
    metadata = definition["metadata"]
    if (metadata.get("annotations") or {}).get(OWNER_ANNOTATION) != owner:
        return False
    return any(
        each.get("manager") == owner
        and each.get("operation") == "Apply"
        and "f:versions" in ((each.get("fieldsV1") or {}).get("f:spec") or {})
        for each in metadata.get("managedFields") or ()
    )


def installer_of(definition: Manifest) -> str:
    """Describe who installed a stored CRD: an operator, or the managers of its versions."""
    metadata = definition["metadata"]
    name = (metadata.get("annotations") or {}).get(OWNER_ANNOTATION)
    if name:
        return f"operator {name}"
    managers = dict.fromkeys(
        each.get("manager") or "unknown"
        for each in metadata.get("managedFields") or ()
        if "f:versions" in ((each.get("fieldsV1") or {}).get("f:spec") or {})
    )
    return " and ".join(managers) or "another program"


def removed_by(stored: Manifest, wanted: Manifest) -> list[str]:
    """Return what stored objects would lose: versions, fields, or values of a changed type."""
    removed: list[str] = []
    versions = {each["name"]: each for each in wanted["spec"]["versions"]}
    for version in stored["spec"]["versions"]:
        name = version["name"]
        after = versions.get(name)
        if after is None or (version.get("served") and not after.get("served")):
            removed.append(f"version {name}")
            continue
        removed += [f"{what} ({name})" for what in _removed_fields(_schema(version), _schema(after), "")]
    return removed


def _schema(version: Manifest) -> Manifest:
    schema: Manifest = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _removed_fields(stored: Manifest, wanted: Manifest, path: str) -> Iterator[str]:
    """Return the fields of a schema that another one prunes or rejects."""
    if stored.get("type") != wanted.get("type") and wanted.get("type"):
        before = stored.get("type") or "any value"
        yield f"{path or '.'} of type {before}"
        return
    if wanted.get("x-kubernetes-preserve-unknown-fields"):
        return
    if stored.get("x-kubernetes-preserve-unknown-fields"):
        yield f"unknown fields of {path or '.'}"
    before, after = stored.get("properties") or {}, wanted.get("properties") or {}
    additional = wanted.get("additionalProperties")
    for name, schema in before.items():
        if name in after:
            yield from _removed_fields(schema, after[name], f"{path}.{name}")
        elif isinstance(additional, Mapping):
            yield from _removed_fields(schema, additional, f"{path}.{name}")
        elif not additional and path + name not in ("apiVersion", "kind", "metadata"):
            yield f"field {path}.{name}"
    if isinstance(stored.get("additionalProperties"), Mapping):
        if isinstance(additional, Mapping):
            yield from _removed_fields(stored["additionalProperties"], additional, f"{path}.*")
        elif not additional:
            yield f"keys of {path}"
    if isinstance(stored.get("items"), Mapping) and isinstance(wanted.get("items"), Mapping):
        yield from _removed_fields(stored["items"], wanted["items"], f"{path}[*]")
