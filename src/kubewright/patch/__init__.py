"""JSON patch, merge patch, strategic merge patch and server-side apply, as pure functions on decoded JSON.

    patch = merge_patch.diff(before, after)
    assert merge_patch.apply(before, patch) == after

No function changes its arguments; results share unchanged parts with them. A new type of patch is a module
and a line of `PATCH_TYPES`.

- `json_patch`: RFC 6902, a list of operations
- `merge_patch`: RFC 7386, a partial object; `null` deletes
- `strategic_merge_patch`: merges lists by key, with directives; `strategic_merge_diff` computes the patches
  that `kubectl apply` sends
- `field_manager`: server-side apply and `metadata.managedFields`, with `managed_fields` (entries),
  `field_set` (sets of fields), `path_elements` (their keys), `merge_schema` (how values merge), `typed`,
  `comparison` and `merge`
- `errors`: errors with the status codes of kube-apiserver
"""

from kubewright.lazy import attach_stub

PATCH_TYPES = {
    "application/json-patch+json": "json_patch",
    "application/merge-patch+json": "merge_patch",
    "application/strategic-merge-patch+json": "strategic_merge_patch",
}
"""Media type and module of each type of patch that an API server accepts, besides apply configurations. The
module has a function `apply(document, patch)`; that of strategic merge patch also gets the schema."""

__getattr__, __dir__ = attach_stub(__name__)
