"""Metadata of objects that are updated: what clients cannot change, and what they must not."""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
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


def restore_metadata(metadata: Object, old: Object, *, namespaced: bool) -> None:
    """What clients cannot change is put back, as if they had not tried."""
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


def metadata_update_errors(metadata: Object, old: Object, times: int) -> list[FieldError]:
    """The rules for every object, those for updates, and the latter as often as the kind has them run."""
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        known = set(old.get("finalizers") or ())
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            listed = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            errors.append(
                fe.forbidden(
                    "metadata.finalizers",
                    f"no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"{listed}",
                )
            )
    for field in _IMMUTABLE:
        if metadata.get(field) != old.get(field):
            errors.append(fe.invalid(f"metadata.{field}", metadata.get(field), "field is immutable"))
    errors += validate_notes(metadata, "metadata")
    errors += manager_errors(metadata.get("managedFields") or [], "metadata.managedFields")
    return validate_common_metadata(metadata, "metadata") + errors * times
