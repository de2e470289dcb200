"""The four patches, and who owns which field.

Pure functions on decoded JSON; none changes its arguments, results share what did not change.

- `json_patch`: RFC 6902, a list of operations.
- `merge_patch`: RFC 7386, an object laid over another; `null` deletes.
- `strategic`: merge patch that knows the keys of lists, with directives; `strategic_diff` computes what
  `kubectl apply` sends.
- `field_manager`: server-side apply and `metadata.managedFields`, on top of `fieldset` (sets of fields),
  `shape` (how a schema merges), `typed`, `compare` and `merge`.
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
