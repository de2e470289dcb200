"""JSON patch, merge patch, strategic merge patch and server-side apply, as pure functions on decoded JSON.

    patch = merge_patch.diff(before, after)
    assert merge_patch.apply(before, patch) == after

No function changes its arguments; results share unchanged parts with them.

- `json_patch`: RFC 6902, a list of operations
- `merge_patch`: RFC 7386, a partial object; `null` deletes
- `strategic_merge_patch`: merges lists by key, with directives; `strategic_merge_diff` computes the patches
  that `kubectl apply` sends
- `field_manager`: server-side apply and `metadata.managedFields`, with `managed_fields` (entries),
  `field_set` (sets of fields), `merge_schema` (how values merge), `typed`, `comparison` and `merge`
- `errors`: errors with the status codes of kube-apiserver
"""

from . import json_patch, merge_patch, strategic_merge_diff, strategic_merge_patch
from .errors import MalformedPatch, PatchConflict, PatchDoesNotApply, PatchFailed, PatchTooLarge
from .field_manager import ApplyConflict, FieldManager, VersionNotServed
from .field_set import FieldSet, FieldSetError
from .managed_fields import ManagedFieldsError, from_scale, keep_times_if_unchanged, to_scale
from .typed import TypedError, zero_value

__all__ = [
    "ApplyConflict",
    "FieldManager",
    "FieldSet",
    "FieldSetError",
    "MalformedPatch",
    "ManagedFieldsError",
    "PatchConflict",
    "PatchDoesNotApply",
    "PatchFailed",
    "PatchTooLarge",
    "TypedError",
    "VersionNotServed",
    "from_scale",
    "json_patch",
    "keep_times_if_unchanged",
    "merge_patch",
    "strategic_merge_diff",
    "strategic_merge_patch",
    "to_scale",
    "zero_value",
]
