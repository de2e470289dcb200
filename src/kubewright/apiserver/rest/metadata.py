"""Metadata of created and updated objects: immutable fields, owner references, finalizers."""

from __future__ import annotations

from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.values.go_format import format_strings
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import manager_errors, validate_common_metadata, validate_notes

_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def drop_duplicate_owners(op: Operation, metadata: Object, *, after_admission: bool = False) -> None:
    """Remove owner references that equal an earlier one, with a warning; those that share only a uid stay.

    Created and replaced objects are checked as sent and again after mutating admission, patched ones only
    then.
    """
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1:
        return
    unique: dict[frozenset[tuple[str, Any]], Object] = {}
    duplicates: list[str] = []
    for owner in owners:
        if unique.setdefault(frozenset(owner.items()), owner) is not owner:
            duplicates.append(owner.get("uid", ""))
    if duplicates:
        metadata["ownerReferences"] = list(unique.values())
        when = " after mutating admission happens" if after_admission else ""
        op.warn(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references "
            "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
            f"duplicate UID(s) observed: {', '.join(duplicates)}"
        )


def restore_metadata(metadata: Object, old: Object, *, namespaced: bool) -> None:
    """Restore the fields that clients cannot change from the old object."""
    if not metadata.get("uid"):
        metadata["uid"] = old["uid"]
    if "creationTimestamp" in old:
        metadata["creationTimestamp"] = old["creationTimestamp"]
    else:
        metadata.pop("creationTimestamp", None)
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if metadata.get("deletionGracePeriodSeconds") is None and "deletionGracePeriodSeconds" in old:
        metadata["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(field, "") is None:
            del metadata[field]
    metadata.pop("selfLink", None)
    if namespaced:
        metadata.setdefault("namespace", old.get("namespace", ""))
    else:
        metadata.pop("namespace", None)


def metadata_update_errors(metadata: Object, old: Object, times: int) -> list[FieldError]:
    """Validate the metadata of an update. kube-apiserver runs the update rules once or twice (`times`)."""
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        known = set(old.get("finalizers") or ())
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            errors.append(
                fe.forbidden(
                    "metadata.finalizers",
                    f"no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"{format_strings(added)}",
                )
            )
    for field in _IMMUTABLE:
        if metadata.get(field) != old.get(field):
            errors.append(fe.invalid(f"metadata.{field}", metadata.get(field), "field is immutable"))
    errors += validate_notes(metadata, "metadata")
    errors += manager_errors(metadata.get("managedFields") or [], "metadata.managedFields")
    return validate_common_metadata(metadata, "metadata") + errors * times
