"""Objects against their schemas: prune, default, validate. All changes are made in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.schema.validation.metadata import coerce_metadata, metadata_is_plain

if TYPE_CHECKING:
    from kubewright.api.field_errors import FieldError
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.resource import Resource, Version
    from kubewright.apiserver.strategy import Operation


def prune(obj: Object, version: Version) -> list[str]:
    """Drop fields that the schema does not know; returns their paths."""
    return version.checks.prune(obj) if version.checks is not None else []


def fill(obj: Object, version: Version, resource: Resource) -> None:
    """Apply defaults: the schema's, then the strategy's."""
    if version.checks is not None:
        version.checks.default(obj)
    resource.strategy.default(version, obj)


def read(obj: Object, version: Version, resource: Resource, *, keep_nulls: bool = False) -> list[str]:
    """Take in an object that somebody sent; returns the paths of unknown fields. Raises `MetadataError`."""
    if version.checks is not None:
        unknown = version.checks.decode(obj, keep_nulls=True) if keep_nulls else version.checks.decode(obj)
        if "metadata" not in obj:
            obj["metadata"] = {}
    else:
        unknown = coerce(obj)
    resource.strategy.default(version, obj)
    return unknown


def repair(obj: Object, version: Version, resource: Resource) -> None:
    """Bring an object that was stored under an older schema up to the present one."""
    if version.checks is not None:
        version.checks.decode(obj, repair=True)
    resource.strategy.default(version, obj)


def coerce(obj: Object) -> list[str]:
    """Read metadata as an ObjectMeta; returns unknown fields. Raises `MetadataError`."""
    metadata = obj.get("metadata")
    if metadata_is_plain(metadata):
        return []
    coerced, unknown = coerce_metadata(metadata)
    obj["metadata"] = coerced if coerced is not None else {}
    return ["metadata." + path for path in unknown]


def schema_errors(obj: Object, old: Object | None, version: Version, op: Operation) -> list[FieldError]:
    """Everything that the schema has against an object. Unchanged values of an update keep old mistakes."""
    if version.checks is None or not version.validates:
        return []
    if op.subresource == "status" and old is not None:
        verdict = version.checks.validate_status(obj, old)
    else:
        verdict = version.checks.validate(obj, old)
    for text in verdict.warnings:
        op.warn(text)
    return verdict.errors
