"""Server-side apply, and ownership of fields on other writes.

A `FieldManager` belongs to one endpoint: a version of a resource, or a subresource of it. Its methods do not
change their arguments:

- `update(live, new, manager, now)` returns `new` with updated managed fields. The manager owns the fields
  that it added or changed, and other managers lose them; removed fields have no owner.
- `apply(live, config, manager, now, force)` returns the object after `manager` applied `config`. The fields
  of `config` are merged; fields that the manager applied before, no longer applies and does not share are
  removed; fields of other managers with another value are a conflict, unless `force` is set.

Managers write in different versions. Their field sets are compared in their own version, through `convert`
and `node_for`; a manager whose version is no longer served is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from kubewright.api.errors import APIError, BadRequest, Conflict
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.times import format_time
from kubewright.schema.structural import Node

from . import field_set, path_elements, typed
from .comparison import Comparison, compare, same_value
from .errors import bounded_depth
from .field_set import FieldSet, Tree
from .managed_fields import (
    APPLY,
    UPDATE,
    Identity,
    Managed,
    ManagedFieldsError,
    Owner,
    cap_updaters,
    decode,
    encode,
    identity,
    is_reset,
)
from .merge import merge
from .merge_schema import MergeSchema, object_merge_schema
from .path_elements import Path
from .typed import TypedError

Object = dict[str, Any]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_CACHED_SETS: Final = 1024
_encode = msgspec.json.Encoder().encode
_META = path_elements.fields_path("metadata")
_STRIPPED: Final = field_set.of(
    path_elements.fields_path("apiVersion"),
    path_elements.fields_path("kind"),
    _META,
    *(
        (*_META, path_elements.field(name))
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


class VersionNotServed(LookupError):
    """Raised by a converter for a version that is no longer served."""


class ApplyConflict(Conflict):
    """Other managers own fields that the configuration would change; `conflicts` has (owner, path) pairs."""

    def __init__(self, conflicts: list[tuple[Identity, Path]]) -> None:
        self.conflicts = conflicts
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {owner.text()}",
                "field": path_elements.path_text(path),
            }
            for owner, path in conflicts
        ]
        super().__init__(_conflict_message(conflicts), details={"causes": causes})


def _conflict_message(conflicts: list[tuple[Identity, Path]]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {owner.text()}: {path_elements.path_text(path)}"
    paths: dict[Identity, list[Path]] = {}
    for owner, path in conflicts:
        paths.setdefault(owner, []).append(path)
    lines: list[str] = []
    for owner, owned in paths.items():
        lines.append(f"conflicts with {owner.text()}:")
        lines.extend(f"- {path_elements.path_text(path)}" for path in owned)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


class FieldManager:
    """Owners of fields at one endpoint.

    `node` is the schema of `kind` in `api_version` (`None`: deduce everything). `subresource` is "" for the
    resource itself. `ignored` gives, per version, the fields that this endpoint never writes (status on the
    main endpoint, everything else on status). `node_for` and `convert` reach the other versions; both raise
    `VersionNotServed` for one that is not served. `empty` is what a new object is compared with; built-in
    types pass `typed.zero_value(node)`.
    """

    def __init__(
        self,
        api_version: str,
        kind: str,
        node: Node | None,
        *,
        subresource: str = "",
        ignored: Mapping[str, FieldSet] | None = None,
        node_for: Callable[[str], Node | None] | None = None,
        convert: Callable[[Object, str], Object] | None = None,
        empty: Object | None = None,
    ) -> None:
        self.api_version = api_version
        self.kind = kind
        self.subresource = subresource
        self._schema = object_merge_schema(node)
        self._ignored: dict[str, Tree] = {version: fields.tree for version, fields in (ignored or {}).items()}
        self._node_for = node_for
        self._convert_object = convert
        self._blank: Object = {"apiVersion": api_version, "kind": kind}
        self._empty: Object = {**self._blank, **(empty or {})}
        self._reconciled: set[int] = set()
        self._unowned = field_set.union(_STRIPPED, typed.structs(empty or {}, self._schema))

    def update(self, live: Object | None, new: Object, manager: str, now: datetime) -> Object:
        """Return `new` with the managed fields after `manager` replaced `live` (`None` for a create)."""
        after = _without_managed_fields(new)
        try:
            managed = self._decode_live_or_new(live, new)
            if not managed and live is not None:
                return after
            before = self._empty if live is None else _without_managed_fields(live)
            self._update(managed, before, after, manager or "unknown", now)
        except (APIError, TypedError, ManagedFieldsError):
            # Managed fields must not fail a write. Until 1.36 they were removed then.
            if serving_version().includes("-1.36"):
                return after
            return _with_entries(after, _entries(live))
        except RecursionError:
            return _with_entries(after, _entries(live))
        return _with_entries(after, encode(managed))

    def _decode_live_or_new(self, live: Object | None, new: Object) -> Managed:
        """Return the managed fields of the request (not for subresources), else the stored ones."""
        stored = _entries(live)
        if not self.subresource:
            sent = (new.get("metadata") or {}).get("managedFields")
            if is_reset(sent):
                return {}
            if sent and sent != stored:
                try:
                    managed = decode(sent, trusted=False)
                except ManagedFieldsError:
                    managed = {}
                if managed:
                    return managed
        try:
            return decode(stored, trusted=True)
        except ManagedFieldsError:
            return {}

    def _update(self, managed: Managed, before: Object, after: Object, manager: str, now: datetime) -> None:
        self._reconcile(managed)
        comparison = compare(before, after, self._schema)
        if not comparison.same:
            # Managers of other versions are updated even if this version ignores all changes.
            comparison = comparison.without(self._ignored.get(self.api_version))
            self._remove_changed(managed, before, after, comparison)
            gained = field_set.difference(
                field_set.union(comparison.modified, comparison.added), self._unowned
            )
            if gained:
                own = identity(manager, UPDATE, self.api_version, self.subresource)
                previous = managed.get(own)
                tree = field_set.union(gained, previous.tree) if previous is not None else gained
                managed[own] = Owner(tree, self.api_version, format_time(now))
        cap_updaters(managed)

    def _reconcile(self, managed: Managed) -> None:
        """Adapt field sets to schema changes, and drop managers of versions that are no longer served."""
        for key, owner in list(managed.items()):
            # Most writes see the same sets as the one before: cache the sets that need no change.
            fingerprint = hash((owner.api_version, _encode(owner.tree)))
            if fingerprint in self._reconciled:
                continue
            try:
                tree = typed.reconcile(owner.tree, self._schema_in(owner.api_version))
            except VersionNotServed:
                del managed[key]
                continue
            if tree is not owner.tree:
                managed[key] = owner._replace(tree=tree, entry=None)
            elif owner.api_version == self.api_version:
                if len(self._reconciled) >= _MAX_CACHED_SETS:
                    self._reconciled.clear()
                self._reconciled.add(fingerprint)

    def _remove_changed(
        self,
        managed: Managed,
        before: Object,
        after: Object,
        comparison: Comparison,
        *,
        except_for: Identity | None = None,
    ) -> None:
        """Remove the changed fields from all owners but `except_for`; drop owners without fields."""
        changed: dict[str, Tree] = {self.api_version: comparison.changed()}
        for key, owner in list(managed.items()):
            tree = owner.tree
            if key != except_for:
                version = owner.api_version
                if version not in changed:
                    try:
                        changed[version] = self._compare_in(version, before, after).changed()
                    except VersionNotServed:
                        del managed[key]
                        continue
                tree = field_set.difference(tree, changed[version])
            if not tree:
                del managed[key]
            elif tree is not owner.tree:
                managed[key] = owner._replace(tree=tree, entry=None)

    def _compare_in(self, version: str, before: Object, after: Object) -> Comparison:
        """Compare two objects in another version; raise `APIError` if they cannot be converted."""
        schema = self._schema_in(version)
        seen = []
        for role, obj in (("old", before), ("new", after)):
            converted = self._converted(obj, version)
            try:
                typed.validate(converted, schema, allow_duplicates=True)
            except TypedError as error:
                raise APIError(f"failed to convert {role} object: {error}") from None
            seen.append(converted)
        return compare(seen[0], seen[1], schema).without(self._ignored.get(version))

    def _schema_in(self, version: str) -> MergeSchema:
        if version == self.api_version:
            return self._schema
        if self._node_for is None:
            raise VersionNotServed(version)
        return object_merge_schema(self._node_for(version))

    def _converted(self, obj: Object, version: str) -> Object:
        if obj.get("apiVersion") == version:
            return obj
        if self._convert_object is None:
            raise VersionNotServed(version)
        return self._convert_object(obj, version)

    @bounded_depth
    def apply(
        self, live: Object | None, config: Object, manager: str, now: datetime, *, force: bool = False
    ) -> Object:
        """Return the object after `manager` applied `config` to `live` (`None` for a create).

        Raise `ApplyConflict` unless `force`, `BadRequest` for a configuration of another type and a plain
        `APIError` (500) for one that does not match the schema. The result equals `live` if nothing changes.
        """
        self._check_type(config)
        try:
            managed = decode(_entries(live), trusted=True)
        except ManagedFieldsError as error:
            raise APIError(f"failed to decode managed fields: {error}") from None
        before = self._blank if live is None else _without_managed_fields(live)
        if not managed and live is not None:
            self._update(managed, self._empty, before, BEFORE_FIRST_APPLY, now)
        try:
            after = self._apply(dict(managed), before, config, manager, now, force)
        except ApplyConflict as error:
            if manager != "kubectl":
                raise
            allowed = self._last_applied_fields(before)
            remaining = [pair for pair in error.conflicts if not field_set.has(allowed, pair[1])]
            if remaining:
                raise ApplyConflict(remaining) from None
            after = self._apply(dict(managed), before, config, manager, now, True)
        return _refresh_last_applied(after, config) if manager == "kubectl" else after

    def _check_type(self, config: Object) -> None:
        names = (config.get("apiVersion"), config.get("kind"))
        api_version, kind = (name if isinstance(name, str) else "" for name in names)
        if api_version != self.api_version or kind != self.kind:
            raise BadRequest(f"invalid object type: {_gvk_text(api_version, kind)}")
        if (config.get("metadata") or {}).get("managedFields") is not None:
            raise BadRequest("metadata.managedFields must be nil")

    def _apply(
        self, managed: Managed, before: Object, config: Object, manager: str, now: datetime, force: bool
    ) -> Object:
        own = identity(manager, APPLY, self.api_version, self.subresource)
        self._validate("patch", config, allow_duplicates=False)
        self._validate("live", before, allow_duplicates=True)
        self._reconcile(managed)
        merged: Object = merge(before, config, self._schema)
        last = managed.get(own)
        applied = typed.to_fieldset(config, self._schema)
        applied = field_set.recursive_difference(applied, self._ignored.get(self.api_version, {}))
        managed[own] = Owner(applied, self.api_version, last.time if last else None)
        after = merged
        if last is not None and (
            last.api_version != self.api_version or field_set.difference(last.tree, applied)
        ):
            after = self._prune(merged, managed, last)
        comparison = compare(before, after, self._schema)
        if not comparison.same:
            comparison = comparison.without(self._ignored.get(self.api_version))
            if not force:
                conflicts = self._conflicts(managed, own, before, after, comparison)
                if conflicts:
                    raise ApplyConflict(conflicts)
            self._remove_changed(managed, before, after, comparison, except_for=own)
        self._own_applied(managed, own, last, None if same_value(before, after) else format_time(now))
        return _with_entries(after, encode(managed))

    def _own_applied(self, managed: Managed, own: Identity, last: Owner | None, time: str | None) -> None:
        """Store the applied fields; the time changes only if the object changes."""
        owner = managed.pop(own, None)
        tree = field_set.difference(owner.tree, _STRIPPED) if owner is not None else {}
        if not tree:
            return
        if time is None and last is not None:
            if last.api_version == self.api_version and field_set.printed(tree) == field_set.printed(
                last.tree
            ):
                managed[own] = last
                return
            time = last.time
        managed[own] = Owner(tree, self.api_version, time)

    def _validate(self, role: str, obj: Object, *, allow_duplicates: bool) -> None:
        try:
            typed.validate(obj, self._schema, allow_duplicates=allow_duplicates)
        except TypedError as error:
            meta = obj.get("metadata") or {}
            name = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
            subject = f"{name}; {_gvk_text(self.api_version, self.kind)}"
            raise APIError(f"failed to create typed {role} object ({subject}): {error}") from None

    def _conflicts(
        self, managed: Managed, own: Identity, before: Object, after: Object, comparison: Comparison
    ) -> list[tuple[Identity, Path]]:
        comparisons = {self.api_version: comparison}
        found: list[tuple[Identity, Path]] = []
        for key in sorted(managed, key=Identity.order):
            version = managed[key].api_version
            if key == own:
                continue
            if version not in comparisons:
                try:
                    comparisons[version] = self._compare_in(version, before, after)
                except VersionNotServed:
                    continue
            there = comparisons[version]
            claimed = field_set.union(there.modified, there.added)
            found.extend(
                (key, path) for path in field_set.iterate(field_set.intersection(managed[key].tree, claimed))
            )
        return found

    def _prune(self, merged: Object, managed: Managed, last: Owner) -> Object:
        """Remove fields that were applied before, are not applied now and have no other owner."""
        version = last.api_version
        try:
            schema = self._schema_in(version)
            there = self._converted(merged, version)
        except VersionNotServed:
            return merged
        dropped = typed.name_declared_fields(last.tree, schema)
        pruned = typed.remove_items(there, dropped, schema) or {}
        pruned = self._add_back_owned(there, pruned, version, managed.values())
        if pruned.get("apiVersion") != version:
            pruned = self._converted(pruned, version)
        gone = field_set.difference(self._named_fields(there, schema), self._named_fields(pruned, schema))
        result = typed.remove_items(there, field_set.intersection(gone, dropped), schema) or {}
        return self._converted(result, self.api_version)

    def _add_back_owned(
        self, merged: Object, pruned: Object, version: str, owners: Iterable[Owner]
    ) -> Object:
        """Restore pruned fields that another manager owns, compared in the version of each owner."""
        owned: dict[str, Tree] = {version: {}}
        for owner in owners:
            owned[owner.api_version] = field_set.union(owned.get(owner.api_version, {}), owner.tree)
        for there, tree in owned.items():
            try:
                schema = self._schema_in(there)
                merged_there = self._converted(merged, there)
                pruned_there = self._converted(pruned, there)
            except VersionNotServed:
                continue
            keep = field_set.union(
                self._named_fields(pruned_there, schema), typed.name_declared_fields(tree, schema)
            )
            removed = field_set.difference(self._named_fields(merged_there, schema), keep)
            merged = merged_there
            pruned = typed.remove_items(merged_there, removed, schema) or {}
        return pruned

    @staticmethod
    def _named_fields(obj: Object, schema: MergeSchema) -> Tree:
        return typed.name_declared_fields(typed.to_fieldset(obj, schema), schema)

    def _last_applied_fields(self, live: Object) -> Tree:
        """Return the fields that client-side apply set and that still have that value."""
        text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        if not text:
            return {}
        try:
            config = msgspec.json.decode(text, type=dict[str, Any])
            if config.get("apiVersion") != self.api_version:
                return {}
            typed.validate(config, self._schema)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return {}
        changed = compare(config, live, self._schema).changed()
        return field_set.difference(typed.to_fieldset(config, self._schema), changed)


def _gvk_text(api_version: str, kind: str) -> str:
    return f"{api_version if '/' in api_version else '/' + api_version}, Kind={kind}"


def _entries(obj: Object | None) -> Any:
    return (obj.get("metadata") or {}).get("managedFields") or [] if obj is not None else []


def _without_managed_fields(obj: Object) -> Object:
    meta = obj.get("metadata")
    if not meta or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def _with_entries(obj: Object, entries: list[Any]) -> Object:
    if not entries:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "managedFields": entries}}


def _refresh_last_applied(obj: Object, config: Object) -> Object:
    """Update the annotation of client-side apply, if it exists, with the applied configuration."""
    meta = obj.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return obj
    config_meta = config.get("metadata") or {}
    if LAST_APPLIED in (config_meta.get("annotations") or {}):
        rest = {name: text for name, text in config_meta["annotations"].items() if name != LAST_APPLIED}
        config = {**config, "metadata": {**config_meta, "annotations": rest}}
    text = msgspec.json.encode(config, order="sorted").decode().translate(path_elements.HTML_ESCAPES) + "\n"
    annotations = {**annotations, LAST_APPLIED: text}
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
        > _MAX_ANNOTATIONS
    ):
        del annotations[LAST_APPLIED]
    return {**obj, "metadata": {**meta, "annotations": annotations}}
