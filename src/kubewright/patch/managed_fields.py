"""Entries of `metadata.managedFields`.

An entry has a manager, an operation (Apply or Update), the version of its field paths, the subresource that
was written, and a field set. For Apply a manager has one entry for all versions, for Update one per version.

`decode` and `encode` convert between JSON and `Managed`, a dict of `Owner` by identity. Unchanged owners keep
their JSON entry. Entries are sorted by operation, time, manager, version and subresource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubewright.api.values import go_format
from kubewright.api.values.times import format_time, parse_time

from . import field_set, path_elements
from .field_set import Tree
from .path_elements import FieldSetError

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATE_OWNERS: Final = 10
ANCIENT: Final = "ancient-changes"

Entry = dict[str, Any]


class ManagedFieldsError(ValueError):
    """Managed fields are malformed."""


class Identity(NamedTuple):
    """Identity of an entry. For Apply it has no version, because there is one set for all versions."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def order(self) -> str:
        """Return the sort key of identities in messages."""
        parts = [f'"manager":{go_format.quote(self.manager)}'] if self.manager else []
        parts.append(f'"operation":{go_format.quote(self.operation)}')
        if self.api_version:
            parts.append(f'"apiVersion":{go_format.quote(self.api_version)}')
        if self.subresource:
            parts.append(f'"subresource":{go_format.quote(self.subresource)}')
        return "{" + ",".join(parts) + "}"

    def text(self) -> str:
        """Format the identity for conflict messages."""
        text = go_format.quote(self.manager)
        if self.subresource:
            text += f" with subresource {go_format.quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owner(NamedTuple):
    """The fields of an owner. `entry` is its JSON entry if the owner has not changed, else `None`."""

    tree: Tree
    api_version: str
    time: str | None
    entry: Entry | None = None


Managed = dict[Identity, Owner]


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """Return the identity of an entry."""
    return Identity(manager, operation, "" if operation == APPLY else api_version, subresource)


def decode(entries: Any, *, trusted: bool) -> Managed:
    """Decode JSON entries; `trusted` entries come from storage and are in canonical form."""
    managed: Managed = {}
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            raise ManagedFieldsError(f"managed fields entry {index} has to be an object")
        operation = entry.get("operation")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion")
        if not api_version:
            raise ManagedFieldsError("apiVersion must not be empty")
        kind = entry.get("fieldsType")
        if kind != "FieldsV1":
            raise ManagedFieldsError(
                f"invalid fieldsType {go_format.quote(str(kind))} in managed fields entry {index}"
                if kind
                else f"missing fieldsType in managed fields entry {index}"
            )
        key = identity(entry.get("manager") or "", operation, api_version, entry.get("subresource") or "")
        time = entry.get("time")
        if trusted:
            managed[key] = Owner(entry.get("fieldsV1") or {}, api_version, time, entry)
        else:
            managed[key] = _decode_untrusted(entry, api_version, time, index)
    return managed


def _decode_untrusted(entry: Entry, api_version: str, time: Any, index: int) -> Owner:
    try:
        tree = field_set.parse(entry.get("fieldsV1"))
    except FieldSetError as error:
        raise ManagedFieldsError(f"error decoding managed fields entry {index}: {error}") from None
    try:
        return Owner(tree, api_version, format_time(parse_time(time)) if time else None)
    except (TypeError, ValueError):
        raise ManagedFieldsError(f"managed fields entry {index} has an invalid time {time!r}") from None


def is_reset(entries: Any) -> bool:
    """Return whether a request resets managed fields: an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and entries[0] == {}))


def encode(managed: Managed) -> list[Entry]:
    """Return the sorted JSON entries."""
    pairs = sorted(
        managed.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time or "",
            pair[0].manager,
            pair[1].api_version,
            pair[0].subresource,
        ),
    )
    return [owner.entry if owner.entry is not None else _entry(key, owner) for key, owner in pairs]


def _entry(key: Identity, owner: Owner) -> Entry:
    entry: Entry = {"manager": key.manager, "operation": key.operation, "apiVersion": owner.api_version}
    if not key.manager:
        del entry["manager"]
    if owner.time:
        entry["time"] = owner.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = field_set.printed(owner.tree)
    if key.subresource:
        entry["subresource"] = key.subresource
    return entry


def cap_updaters(managed: Managed, limit: int = MAX_UPDATE_OWNERS) -> None:
    """Merge the oldest Update entries of each version until at most `limit` remain, in place."""
    updaters = [key for key in managed if key.operation == UPDATE]
    if len(updaters) <= limit:
        return
    updaters.sort(key=lambda key: (managed[key].time or "", key.order()))
    first_of_version: dict[str, Identity] = {}
    merged: dict[Identity, list[Tree]] = {}
    count = len(updaters)
    for key in updaters:
        if count <= limit:
            break
        owner = managed[key]
        first = first_of_version.setdefault(owner.api_version, key)
        if first is key:
            continue
        bucket = Identity(ANCIENT, UPDATE, owner.api_version)
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        merged.setdefault(bucket, [managed[bucket].tree]).append(owner.tree)
        del managed[key]
        managed[bucket] = Owner({}, owner.api_version, owner.time)
        count -= 1
    for bucket, trees in merged.items():
        managed[bucket] = managed[bucket]._replace(tree=field_set.union_all(trees))


def keep_times_if_unchanged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return `new`, or `old` if they differ only in the times of managed fields entries.

    A request that changes nothing must not write the object just because an entry got a new time.
    """
    old_meta = old.get("metadata") or {}
    new_meta = new.get("metadata") or {}
    before = old_meta.get("managedFields") or []
    after = new_meta.get("managedFields") or []
    if len(before) != len(after) or not after:
        return new
    for left, right in zip(before, after, strict=True):
        if {**left, "time": None} != {**right, "time": None}:
            return new
    if {**old_meta, "managedFields": None} != {**new_meta, "managedFields": None}:
        return new
    same = {**old, "metadata": None} == {**new, "metadata": None}
    return old if same else new


SCALE_VERSION: Final = "autoscaling/v1"
_SCALE_REPLICAS: Final = field_set.of(path_elements.fields_path("spec", "replicas"))


def to_scale(parent: list[Entry], replicas: Mapping[str, path_elements.Path | None]) -> list[Entry]:
    """Return the managed fields of a Scale: owners of the replicas field of its parent own `spec.replicas`.

    `replicas` gives the path of the replicas field for each version of the parent.
    """
    managed: Managed = {}
    for key, owner in decode(parent, trusted=True).items():
        path = replicas.get(owner.api_version)
        if path and field_set.has(owner.tree, path):
            managed[key] = Owner(_SCALE_REPLICAS, SCALE_VERSION, owner.time)
    return encode(managed)


def from_scale(
    parent: list[Entry],
    scale: list[Entry],
    replicas: Mapping[str, path_elements.Path | None],
    api_version: str,
) -> list[Entry]:
    """Return the managed fields of the parent after a write of its Scale.

    Owners of replicas who lost it in the Scale lose it here; owners who are new in the Scale become owners of
    the replicas field of `api_version`.
    """
    before = decode(parent, trusted=True)
    scaled = decode(scale, trusted=True)
    managed: Managed = {}
    for key, owner in before.items():
        if owner.api_version not in replicas:
            continue
        path = replicas[owner.api_version]
        if path is None or not field_set.has(owner.tree, path) or scaled.pop(key, None) is not None:
            managed[key] = owner
            continue
        rest = field_set.difference(owner.tree, field_set.of(path))
        if rest:
            managed[key] = Owner(rest, owner.api_version, owner.time)
    path = replicas.get(api_version)
    for key, owner in scaled.items():
        if path and field_set.has(owner.tree, path_elements.fields_path("spec", "replicas")):
            time = before[key].time if key in before else None
            managed[key] = Owner(field_set.of(path), api_version, time)
    return encode(managed)
