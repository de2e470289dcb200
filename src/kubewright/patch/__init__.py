"""The four patches, and who owns which field.

Pure functions on decoded JSON; none changes its arguments, results share what did not change.

- `json_patch`: RFC 6902, a list of operations.
- `merge_patch`: RFC 7386, an object laid over another; `null` deletes.
- `strategic`: merge patch that knows the keys of lists, with directives; what `kubectl apply` computes.
- `field_manager`: server-side apply and `metadata.managedFields`, on top of `fieldset` (sets of fields),
  `shape` (how a schema merges), `typed`, `compare` and `merge`.
"""

from .field_manager import ApplyConflict, FieldManager, VersionGone
from .fieldset import FieldSet, FieldSetError
from .managed_fields import ManagedFieldsError, from_scale, keep_times_if_unchanged, to_scale
from .typed import TypedError, zero_value

__all__ = [
    "ApplyConflict",
    "FieldManager",
    "FieldSet",
    "FieldSetError",
    "ManagedFieldsError",
    "TypedError",
    "VersionGone",
    "from_scale",
    "keep_times_if_unchanged",
    "to_scale",
    "zero_value",
]
