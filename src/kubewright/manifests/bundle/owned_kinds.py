"""Entries of a ClusterServiceVersion for CRDs: one for each version, with descriptors of its fields.

A console shows forms for the descriptors. Their texts are the descriptions of the schema, and their controls
follow from the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kubewright.api.builtin.resources import resources
from kubewright.manifests.deployment.names import Manifest

_CONTROL: Final = "urn:alm:descriptor:com.tectonic.ui:"
_KUBERNETES: Final = "urn:alm:descriptor:io.kubernetes"
_MAX_DEPTH: Final = 2
_UNLISTED: Final = ("events", "leases", "tokenreviews", "subjectaccessreviews")
"""Resources that every operator writes and that are not part of what it creates for an object."""


def owned_kinds(definitions: Iterable[Manifest], rules: Iterable[Manifest]) -> list[Manifest]:
    """Return the entries of all served versions; `rules` are those of the manager."""
    created = created_resources(rules)
    owned = []
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            if not version["served"]:
                continue
            schema = version["schema"]["openAPIV3Schema"]
            kind = spec["names"]["kind"]
            entry: Manifest = {
                "name": definition["metadata"]["name"],
                "version": version["name"],
                "kind": kind,
                "displayName": display_name(kind),
                "description": description(schema, kind),
            }
            if created:
                entry["resources"] = created
            for part in ("spec", "status"):
                field = (schema.get("properties") or {}).get(part) or {}
                descriptors = list(_descriptors(field, "", _MAX_DEPTH, status=part == "status"))
                if descriptors:
                    entry[f"{part}Descriptors"] = descriptors
            owned.append(entry)
    return owned


def description(schema: Mapping[str, Any], kind: str) -> str:
    """Return the description of a kind."""
    return " ".join(str(schema.get("description", "")).split()) or f"{display_name(kind)}."


def display_name(name: str) -> str:
    """Return `cronJobLimit` or `cron-job-limit` as `Cron Job Limit`."""
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return " ".join(word[:1].upper() + word[1:] for word in re.split(r"[\s_-]+", words) if word)


def created_resources(rules: Iterable[Manifest]) -> list[Manifest]:
    """Return the built-in kinds that rules allow to create."""
    wanted = {
        (group, resource)
        for rule in rules
        if {"create", "*"} & set(rule.get("verbs") or ())
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        if resource not in _UNLISTED
    }
    found = {
        (each.gvk.kind, each.gvk.version)
        for each in resources()
        if each.served_by_default and (each.gvk.group, each.plural) in wanted
    }
    return [{"kind": kind, "name": "", "version": version} for kind, version in sorted(found)]


def _descriptors(schema: Manifest, path: str, depth: int, *, status: bool) -> Iterator[Manifest]:
    for name, field in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        entry: Manifest = {"path": here, "displayName": display_name(name)}
        text = " ".join(str(field.get("description", "")).split())
        if text:
            entry["description"] = text
        control = _status_control(name, field) if status else _spec_control(name, field)
        if control:
            entry["x-descriptors"] = control
        yield entry
        is_form = control == [f"{_CONTROL}resourceRequirements"]
        if field.get("properties") and depth > 1 and not is_form:
            yield from _descriptors(field, here, depth - 1, status=status)


def _spec_control(name: str, field: Manifest) -> list[str]:
    """Return the control with which a console edits a field."""
    if field.get("enum"):
        return [f"{_CONTROL}select:{value}" for value in field["enum"] if value != ""]
    properties = field.get("properties") or {}
    if {"limits", "requests"} <= properties.keys():
        return [f"{_CONTROL}resourceRequirements"]
    lowered = name.lower()
    match field.get("type"):
        case "boolean":
            return [f"{_CONTROL}booleanSwitch"]
        case "integer" if lowered in ("replicas", "size"):
            return [f"{_CONTROL}podCount"]
        case "integer" | "number":
            return [f"{_CONTROL}number"]
        case "string" if lowered.endswith("secretname") or lowered == "secret":
            return [f"{_KUBERNETES}:Secret"]
        case "string" if lowered.endswith("password"):
            return [f"{_CONTROL}password"]
        case "string":
            return [f"{_CONTROL}text"]
    return []


def _status_control(name: str, field: Manifest) -> list[str]:
    if name == "conditions" and field.get("type") == "array":
        return [f"{_KUBERNETES}.conditions"]
    if name in ("phase", "state") and field.get("type") == "string":
        return [f"{_KUBERNETES}.phase"]
    return []
