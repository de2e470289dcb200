"""CRDs of a new version against those of a cluster, and against the objects that are stored there.

An API server does not validate stored objects when a CRD changes. An object that the new schema rejects stays
readable, and its next write fails, unless the wrong field is unchanged (ratcheting, since Kubernetes 1.30); a
field that the new schema does not declare is removed by the next write. Both are found by validating every
stored object with the new schema of its version.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubewright.manifests.compatibility import compare_crds
from kubewright.rehearse.snapshot import ClusterSnapshot, ObjectName
from kubewright.schema.version import SchemaVersion

from .model import RejectedObject, SchemaChange

Definition = Mapping[str, Any]
_KIND = ("apiextensions.k8s.io", "CustomResourceDefinition")
MAX_ERRORS = 5
"""Errors of one object that are listed."""


def check_schemas(
    snapshot: ClusterSnapshot, definitions: Iterable[Definition]
) -> tuple[list[SchemaChange], list[RejectedObject]]:
    """Return the changes of CRDs that exist in the snapshot, and the stored objects that do not fit."""
    new = {each["metadata"]["name"]: each for each in definitions}
    if not new:
        return [], []
    stored: dict[str, Definition] = {}
    kinds = {(each["spec"]["group"], each["spec"]["names"]["kind"]): each for each in new.values()}
    schemas: dict[tuple[str, str, str], SchemaVersion | None] = {}
    rejected: list[RejectedObject] = []
    for obj in snapshot:
        name = ObjectName.of(obj)
        if (name.group, name.kind) == _KIND and name.name in new:
            stored[name.name] = obj
        definition = kinds.get((name.group, name.kind))
        if definition is None:
            continue
        version = str(obj["apiVersion"]).rpartition("/")[2]
        key = (name.group, name.kind, version)
        if key not in schemas:
            schemas[key] = _schema(definition, version)
        found = _check(obj, name, version, schemas[key])
        if found is not None:
            rejected.append(found)
    return list(_changes(stored, new)), rejected


def _changes(stored: Mapping[str, Definition], new: Mapping[str, Definition]) -> Iterator[SchemaChange]:
    for name, definition in new.items():
        if name not in stored:
            yield SchemaChange(
                definition=name, version="", path="", reason="the CRD is created", is_breaking=False
            )
            continue
        for each in compare_crds(stored[name], definition):
            yield SchemaChange(
                definition=each.crd,
                version=each.version,
                path=each.path,
                reason=each.reason,
                is_breaking=each.breaking,
            )


def _schema(definition: Definition, version: str) -> SchemaVersion | None:
    spec = definition["spec"]
    found = next((each for each in spec["versions"] if each["name"] == version), None)
    schema = ((found or {}).get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return None
    return SchemaVersion(schema, preserve_unknown=bool(spec.get("preserveUnknownFields")))


def _check(
    obj: dict[str, Any], name: ObjectName, version: str, schema: SchemaVersion | None
) -> RejectedObject | None:
    if schema is None:
        reason = f"the new CRD has no version {version}, in which the object is stored"
        return RejectedObject(object=str(name), version=version, errors=(reason,))
    value = copy.deepcopy(obj)
    lost = tuple(each for each in schema.decode(value, repair=True) if not each.startswith("metadata."))
    errors = schema.validate(value).errors
    if not errors and not lost:
        return None
    return RejectedObject(
        object=str(name), version=version, errors=tuple(map(str, errors[:MAX_ERRORS])), lost=lost
    )
