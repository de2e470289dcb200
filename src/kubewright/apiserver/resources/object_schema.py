"""Objects and the schema of their version: decode, prune, default, validate. Objects are changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.schema.validation.metadata import coerce_metadata, metadata_is_plain

if TYPE_CHECKING:
    from kubewright.api.field_errors import FieldError
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version
    from kubewright.apiserver.resources.strategy import Operation


def prune(obj: Object, version: Version) -> list[str]:
    """Remove fields that the schema does not declare; returns their paths."""
    return version.checks.prune(obj) if version.checks is not None else []


def apply_defaults(obj: Object, version: Version, resource: Resource) -> None:
    """Apply the defaults of the schema, then those of the strategy."""
    if version.checks is not None:
        version.checks.default(obj)
    resource.strategy.default(version, obj)


def decode_fields(
    obj: Object, version: Version, resource: Resource, *, keep_nulls: bool = False
) -> list[str]:
    """Coerce metadata, prune and default a decoded body; returns the paths of unknown fields.

    Raises `MetadataError`.
    """
    if version.checks is not None:
        unknown = version.checks.decode(obj, keep_nulls=True) if keep_nulls else version.checks.decode(obj)
        if "metadata" not in obj:
            obj["metadata"] = {}
    else:
        unknown = _decode_metadata(obj)
    resource.strategy.default(version, obj)
    return unknown


def upgrade_stored(obj: Object, version: Version, resource: Resource) -> None:
    """Prune and default an object that was stored under an earlier schema."""
    if version.checks is not None:
        version.checks.decode(obj, repair=True)
    resource.strategy.default(version, obj)


def _decode_metadata(obj: Object) -> list[str]:
    metadata = obj.get("metadata")
    if metadata_is_plain(metadata):
        return []
    coerced, unknown = coerce_metadata(metadata)
    obj["metadata"] = coerced if coerced is not None else {}
    return ["metadata." + path for path in unknown]


def schema_errors(obj: Object, old: Object | None, version: Version, op: Operation) -> list[FieldError]:
    """Validate an object against its schema; errors in unchanged values of an update are tolerated."""
    if version.checks is None or not version.validates:
        return []
    if op.subresource == "status" and old is not None:
        verdict = version.checks.validate_status(obj, old)
    else:
        verdict = version.checks.validate(obj, old)
    for text in verdict.warnings:
        op.warn(text)
    return verdict.errors
