"""Writes a snapshot to the storage of an embedded control plane before it starts.

The control plane then starts as after a restart of its API server: objects keep their UIDs, resource
versions, statuses, owner references, finalizers and times, and nothing is validated, defaulted or admitted
again. `LoadedSnapshot` says what was left out or added:

- objects of kinds that are not served are left out, as are Events
- Namespaces of objects are added if they are missing
- an owner that is not in the snapshot is added with its metadata only, if its kind is served: the garbage
  collector would delete the objects that refer to it

Resource versions that are not numbers, or that two objects have in common, become others in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.resources.objects import new_uid
from kubewright.storage.contract import KeyValue

from .snapshot import ClusterSnapshot, ObjectName

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.storage.memory import MemoryStorage

CUSTOM_RESOURCE = ("apiextensions.k8s.io", "CustomResourceDefinition")
PLACEHOLDER = "rehearse.kubewright.dev/not-in-snapshot"
"""Annotation of objects that were added."""
LEFT_OUT = frozenset((("", "Event"), ("events.k8s.io", "Event")))


@dataclass(slots=True)
class LoadedSnapshot:
    """What was written to a storage."""

    count: int = 0
    unserved: dict[str, int] = field(default_factory=dict)
    """Number of objects that were left out, by kind."""
    placeholders: list[ObjectName] = field(default_factory=list)
    """Namespaces and owners that were added."""
    renumbered: int = 0
    """Objects whose resource version is another one."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the objects of a kind are stored."""

    prefix: str
    is_namespaced: bool
    version: str
    """A version in which they can be stored."""

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.is_namespaced else f"{self.prefix}{name}"


def load_snapshot(snapshot: ClusterSnapshot, server: APIServer, storage: MemoryStorage) -> LoadedSnapshot:
    """Write the objects to an empty storage; the control plane must not have started."""
    loaded = LoadedSnapshot()
    places = _places(server, snapshot)
    values: dict[str, tuple[int, bytes]] = {}
    uids: set[str] = set()
    owners: dict[str, tuple[str, Mapping[str, Any]]] = {}
    namespaces: set[str] = set()
    for obj in snapshot:
        name = ObjectName.of(obj)
        if (name.group, name.kind) in LEFT_OUT:
            continue
        place = places.get((name.group, name.kind))
        if place is None or not name.name:
            loaded.unserved[name.full_kind] = loaded.unserved.get(name.full_kind, 0) + 1
            continue
        metadata = obj.get("metadata") or {}
        if place.is_namespaced:
            namespaces.add(name.namespace)
        uids.add(str(metadata.get("uid")))
        for owner in metadata.get("ownerReferences") or ():
            owners.setdefault(str(owner.get("uid")), (name.namespace, owner))
        values[place.key(name.namespace, name.name)] = _revision(metadata), _pack(obj)
    _add_namespaces(namespaces, places, values, loaded)
    _add_owners(owners, uids, places, values, loaded)
    loaded.count = len(values)
    _restore(values, storage, loaded)
    return loaded


def _places(server: APIServer, snapshot: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], _Place]:
    """Return where objects are stored, by group and kind."""
    found = {
        (store.resource.group, store.resource.kind): _Place(
            store.prefix, store.resource.namespaced, store.resource.storage_version
        )
        for store in server.stores
    }
    for obj in snapshot:
        name = ObjectName.of(obj)
        if (name.group, name.kind) != CUSTOM_RESOURCE:
            continue
        spec = obj["spec"]
        version = next(each["name"] for each in spec["versions"] if each.get("storage"))
        prefix = f"{server.prefix}{spec['group']}/{spec['names']['plural']}/"
        place = _Place(prefix, spec.get("scope") == "Namespaced", version)
        found[spec["group"], spec["names"]["kind"]] = place
    return found


def _revision(metadata: Mapping[str, Any]) -> int:
    text = str(metadata.get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _pack(obj: dict[str, Any]) -> bytes:
    """Return the stored form of an object: in its version, with the resource version as its revision."""
    metadata = {
        name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"
    }
    metadata.setdefault("uid", new_uid())
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    return msgspec.json.encode({**head, **rest})


def _add_namespaces(
    names: set[str],
    places: Mapping[tuple[str, str], _Place],
    values: dict[str, tuple[int, bytes]],
    loaded: LoadedSnapshot,
) -> None:
    place = places["", "Namespace"]
    for name in sorted(names):
        if place.key("", name) not in values:
            obj = _placeholder(
                "v1", "Namespace", {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            )
            obj |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            values[place.key("", name)] = 0, _pack(obj)
            loaded.placeholders.append(ObjectName("", "Namespace", "", name))


def _add_owners(
    owners: Mapping[str, tuple[str, Mapping[str, Any]]],
    uids: set[str],
    places: Mapping[tuple[str, str], _Place],
    values: dict[str, tuple[int, bytes]],
    loaded: LoadedSnapshot,
) -> None:
    for uid, (namespace, owner) in owners.items():
        if uid in uids:
            continue
        group, _, _ = str(owner.get("apiVersion") or "").rpartition("/")
        kind, name = str(owner.get("kind") or ""), str(owner.get("name") or "")
        place = places.get((group, kind))
        if place is None:
            continue  # the garbage collector does not know the kind, and deletes nothing
        metadata = {"name": name, "uid": uid}
        if place.is_namespaced:
            metadata["namespace"] = namespace
        key = place.key(namespace, name)
        if key in values:
            continue  # an object with another UID: the owner was deleted
        version = str(GroupVersion(group, place.version))
        values[key] = 0, _pack(_placeholder(version, kind, metadata))
        loaded.placeholders.append(ObjectName(group, kind, metadata.get("namespace", ""), name))


def _placeholder(version: str, kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            **metadata,
            "creationTimestamp": "2000-01-01T00:00:00Z",
            "annotations": {PLACEHOLDER: "true"},
        },
    }


def _restore(values: dict[str, tuple[int, bytes]], storage: MemoryStorage, loaded: LoadedSnapshot) -> None:
    """Write the values in the order of their resource versions."""
    items: list[KeyValue] = []
    last = 1
    for key, (wanted, value) in sorted(values.items(), key=lambda item: item[1][0]):
        revision = wanted if wanted > last else last + 1
        loaded.renumbered += revision != wanted and wanted != 0
        items.append(KeyValue(key, value, revision, revision))
        last = revision
    storage.keyspace.restore(items, (), last, last)
