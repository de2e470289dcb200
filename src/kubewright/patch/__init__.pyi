from . import json_patch as json_patch
from . import merge_patch as merge_patch
from . import strategic_merge_diff as strategic_merge_diff
from . import strategic_merge_patch as strategic_merge_patch
from .errors import MalformedPatch as MalformedPatch
from .errors import PatchConflict as PatchConflict
from .errors import PatchDoesNotApply as PatchDoesNotApply
from .errors import PatchFailed as PatchFailed
from .errors import PatchTooLarge as PatchTooLarge
from .field_manager import ApplyConflict as ApplyConflict
from .field_manager import FieldManager as FieldManager
from .field_manager import VersionNotServed as VersionNotServed
from .field_set import FieldSet as FieldSet
from .managed_fields import ManagedFieldsError as ManagedFieldsError
from .managed_fields import from_scale as from_scale
from .managed_fields import keep_times_if_unchanged as keep_times_if_unchanged
from .managed_fields import to_scale as to_scale
from .path_elements import FieldSetError as FieldSetError
from .typed import TypedError as TypedError
from .typed import zero_value as zero_value

PATCH_TYPES: dict[str, str]
