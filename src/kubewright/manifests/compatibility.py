"""Compatibility of CustomResourceDefinitions with earlier ones.

    for change in compare_crds(released, current):
        if change.breaking:
            print(change.version, change.path, change.reason)

Three comparisons, as in crdify: the definitions as a whole (scope, names, versions, subresources), the schema
of each version with its earlier form, and, without conversion, the schemas of served versions with each
other, because an API server then returns an object of one version unchanged as another. A difference between
versions that the earlier definition had already is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from kubewright.api.gvk import version_priority

from .schema_changes import compare_schemas

Definition = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A difference between two definitions."""

    crd: str
    """Name of the definition, such as `shops.example.com`."""
    version: str
    """Version, `v1 -> v2` for a difference between two versions, or empty for the definition as a whole."""
    path: str
    """Field, such as `.spec.hosts[].name`, or empty."""
    check: str
    """Kind of the change, such as `field-removed`."""
    breaking: bool
    reason: str

    @property
    def compatibility(self) -> Literal["breaking", "compatible"]:
        """The class of the change."""
        return "breaking" if self.breaking else "compatible"

    def __str__(self) -> str:
        where = " ".join(part for part in (self.crd, self.version, self.path) if part)
        return f"{where}: {self.reason}"


def compare_definitions(
    old: Iterable[Definition], new: Iterable[Definition], *, strict: bool = False
) -> list[Change]:
    """Compare all definitions of a project; removed definitions are breaking."""
    before = {each["metadata"]["name"]: each for each in old}
    after = {each["metadata"]["name"]: each for each in new}
    changes: list[Change] = []
    for name, definition in before.items():
        if name in after:
            changes += compare_crds(definition, after[name], strict=strict)
        else:
            text = "definition removed; deleting it deletes all objects of the kind"
            changes.append(Change(name, "", "", "crd-removed", True, text))
    changes += [
        Change(name, "", "", "crd-added", False, "definition added") for name in after if name not in before
    ]
    return changes


def compare_crds(old: Definition, new: Definition, *, strict: bool = False) -> list[Change]:
    """Return the changes between two definitions of one kind, breaking ones first.

    With `strict`, a new enum value is breaking as well.
    """
    name = old["metadata"]["name"]
    changes = [Change(name, "", "", *found) for found in _compare_specs(old, new)]
    before, after = _versions(old), _versions(new)
    stored = set((old.get("status") or {}).get("storedVersions") or ())
    for version, definition in before.items():
        if version not in after:
            changes += [Change(name, version, "", *_removed_version(version, definition, stored))]
            continue
        changes += [
            Change(name, version, "", *found) for found in _compare_version(definition, after[version])
        ]
        changes += _compare_schemas(name, version, definition, after[version], strict)
    changes += [
        Change(name, version, "", "version-added", False, f"version {version} added")
        for version in after
        if version not in before
    ]
    changes += _compare_served_versions(name, old, new, strict)
    return sorted(changes, key=lambda change: not change.breaking)


def _versions(crd: Definition) -> dict[str, Mapping[str, Any]]:
    return {version["name"]: version for version in crd["spec"].get("versions") or ()}


_Found = tuple[str, bool, str]


def _compare_specs(old: Definition, new: Definition) -> Iterator[_Found]:
    before, after = old["spec"], new["spec"]
    for key in ("group", "scope"):
        if before.get(key) != after.get(key):
            yield key, True, f"{key} changed from {before.get(key)} to {after.get(key)}"
    yield from _compare_names(before.get("names") or {}, after.get("names") or {})
    if before.get("preserveUnknownFields") and not after.get("preserveUnknownFields"):
        yield "preserve-unknown-fields", True, "unknown fields are pruned now"
    strategies = [(spec.get("conversion") or {}).get("strategy", "None") for spec in (before, after)]
    served = [version for version in _versions(new).values() if version.get("served", True)]
    if strategies == ["Webhook", "None"]:
        several = len(served) > 1
        text = "objects are no longer converted between versions"
        yield "conversion", several, f"conversion strategy changed from Webhook to None; {text}"
    elif strategies[0] != strategies[1]:
        yield "conversion", False, f"conversion strategy changed from {strategies[0]} to {strategies[1]}"


def _compare_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Found]:
    for key in ("kind", "plural", "singular", "listKind"):
        if old.get(key) and new.get(key) and old[key] != new[key]:
            yield "names", True, f"{key} changed from {old[key]} to {new[key]}"
    for key, word, breaking in (("shortNames", "short name", True), ("categories", "category", False)):
        before, after = set(old.get(key) or ()), set(new.get(key) or ())
        for name in sorted(before - after):
            yield "names", breaking, f"{word} {name} removed"
        for name in sorted(after - before):
            yield "names", False, f"{word} {name} added"


def _removed_version(version: str, definition: Mapping[str, Any], stored: set[str]) -> _Found:
    if version in stored or definition.get("storage"):
        text = "stored version removed; migrate the stored objects first and keep the version until then"
        return "stored-version-removed", True, text
    if definition.get("served", True):
        return "served-version-removed", True, "served version removed; deprecate it in a release before"
    return "version-removed", False, "version removed that was not served"


def _compare_version(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Found]:
    before, after = old.get("served", True), new.get("served", True)
    if before != after:
        yield "served", before, "version is no longer served" if before else "version is served now"
    if bool(old.get("storage")) != bool(new.get("storage")):
        text = "version is stored now" if new.get("storage") else "version is no longer stored"
        yield "storage", False, f"{text}; existing objects keep theirs until they are written"
    if new.get("deprecated") and not old.get("deprecated"):
        yield "deprecated", False, "version is deprecated now"
    yield from _compare_subresources(old.get("subresources") or {}, new.get("subresources") or {})
    paths_before, paths = (
        {each["jsonPath"] for each in version.get("selectableFields") or ()} for version in (old, new)
    )
    for path in sorted(paths_before - paths):
        yield "selectable-field", True, f"selectable field {path} removed; field selectors with it fail"
    for path in sorted(paths - paths_before):
        yield "selectable-field", False, f"selectable field {path} added"
    if (old.get("additionalPrinterColumns") or []) != (new.get("additionalPrinterColumns") or []):
        yield "columns", False, "printer columns changed"


def _compare_subresources(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Found]:
    if ("status" in old) != ("status" in new):
        if "status" in old:
            yield "subresource", True, "status subresource removed; requests to it fail"
        else:
            text = "writes of the object ignore the status from now on"
            yield "subresource", True, f"status subresource added; {text}"
    before, after = old.get("scale"), new.get("scale")
    if before != after:
        if before is None:
            yield "subresource", False, "scale subresource added"
        elif after is None:
            yield "subresource", True, "scale subresource removed; autoscalers cannot scale the kind"
        else:
            yield "subresource", True, "paths of the scale subresource changed"


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    # Metadata is the same for every object; a definition may omit it.
    common = ("apiVersion", "kind", "metadata")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return {**schema, "properties": {name: item for name, item in properties.items() if name not in common}}


def _compare_schemas(
    crd: str, label: str, old: Mapping[str, Any], new: Mapping[str, Any], strict: bool
) -> Iterator[Change]:
    for found in compare_schemas(_schema(old), _schema(new), strict=strict):
        yield Change(crd, label, found.path, found.check, found.breaking, found.reason)


def _compare_served_versions(name: str, old: Definition, new: Definition, strict: bool) -> Iterator[Change]:
    if (new["spec"].get("conversion") or {}).get("strategy", "None") != "None":
        return
    before, after = _versions(old), _versions(new)
    served = sorted(
        (version for version, each in after.items() if each.get("served", True)),
        key=version_priority,
        reverse=True,
    )
    for older, newer in combinations(served, 2):
        label = f"{older} -> {newer}"
        known = (
            {
                (change.path, change.check)
                for change in _compare_schemas(name, label, before[older], before[newer], strict)
            }
            if older in before and newer in before
            else set()
        )
        for change in _compare_schemas(name, label, after[older], after[newer], strict):
            if change.breaking and (change.path, change.check) not in known:
                yield change
