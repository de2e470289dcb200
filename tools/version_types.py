"""What differs between the types of the supported versions: fields, schemas, messages, enumerations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import generate_builtins
import wire_tables
from kubernetes_sources import NEWEST, RELEASES, Release
from kubewright.api.kubernetes_version import KubernetesVersion

Section = dict[str, Any]

KINDS_OF_ALL_GROUPS = frozenset(generate_builtins.META + kind for kind in ("DeleteOptions", "WatchEvent"))
"""Definitions that differ in the groups alone."""


def version_range(versions: list[str]) -> str:
    """Return the range of versions that have something; empty if all have it."""
    known = list(RELEASES)
    first, last = known.index(versions[0]), known.index(versions[-1])
    if known[first : last + 1] != versions:
        raise SystemExit(f"versions with a gap: {versions}")
    if versions == known:
        return ""
    if last == len(known) - 1:
        return f"{versions[0]}-"
    if first == 0:
        return f"-{versions[-1]}"
    return versions[0] if first == last else f"{versions[0]}-{versions[-1]}"


def fields_section(every: Mapping[str, dict[str, Section]]) -> Section:
    """Return the fields of the newest version that others lack, by the name of their type."""
    section: Section = {}
    for name, schema in sorted(every[NEWEST].items()):
        having = {
            version: names[name].get("properties", {}) for version, names in every.items() if name in names
        }
        for field in schema.get("properties", {}):
            versions = [version for version, fields in having.items() if field in fields]
            if len(versions) < len(having):
                section.setdefault(name, {})[field] = version_range(versions)
    return section


def _without(schema: Section, absent: set[str]) -> Section:
    """Return a schema without some of its fields, as `builtin_schemas` does."""
    copy = dict(schema)
    copy["properties"] = {name: part for name, part in schema["properties"].items() if name not in absent}
    copy["required"] = [name for name in schema.get("required", ()) if name not in absent]
    return copy if copy["required"] else {key: copy[key] for key in copy if key != "required"}


def _line_without(line: str, absent: set[str]) -> str:
    """Return a protobuf message without some of its fields, as `builtin_schemas` does."""
    return ";".join(part for part in line.split(";") if part.split(" ")[1] not in absent)


def former_section(
    every: Mapping[str, Mapping[str, Any]], fields: Section, derive: Callable[[Any, set[str]], Any]
) -> Section:
    """Return the forms of types that are not those of the newest version without some fields, by range."""
    section: Section = {}
    for name in sorted(set().union(*every.values())):
        if name in KINDS_OF_ALL_GROUPS:
            continue
        newest = every[NEWEST].get(name)
        forms: list[tuple[Any, list[str]]] = []
        for version, types in every.items():
            if name not in types or version == NEWEST:
                continue
            minor = KubernetesVersion(int(version.partition(".")[2]))
            absent = {field for field, text in fields.get(name, {}).items() if not minor.includes(text)}
            if newest is None or (derive(newest, absent) if absent else newest) != types[name]:
                _add(forms, types[name], version)
        if forms:
            section[name] = {version_range(versions): form for form, versions in forms}
    return section


def _add(forms: list[tuple[Any, list[str]]], form: Any, version: str) -> None:
    if forms and forms[-1][0] == form:
        forms[-1][1].append(version)
    else:
        forms.append((form, [version]))


def schemas_of(one: Release) -> dict[str, Section]:
    """Return the structural schemas of a release."""
    definitions = generate_builtins.definitions_of(one)
    keys = generate_builtins.list_keys(definitions)
    return {name: generate_builtins.structural(name, definitions, keys) for name in definitions}


def messages_of(one: Release) -> dict[str, str]:
    """Return the protobuf messages of a release."""
    return {
        name: line for text in wire_tables.tables(one).values() for name, line in json.loads(text).items()
    }


def enumerations_section(releases: list[Release]) -> Section:
    """Return the values of fields in older versions, if they differ from those of the newest."""
    section: Section = {}
    newest = releases[-1].enumerations
    for name in sorted(set().union(*(one.enumerations for one in releases))):
        having = [one for one in releases[:-1] if any(each.endswith(f".{name}") for each in one.definitions)]
        for field in sorted(
            set().union(*(one.enumerations.get(name, {}) for one in having), newest.get(name, {}))
        ):
            forms: list[tuple[Any, list[str]]] = []
            for one in having:
                values = one.enumerations.get(name, {}).get(field, [])
                if values != newest.get(name, {}).get(field, []):
                    _add(forms, values, one.version)
            if forms:
                section.setdefault(name, {})[field] = {version_range(seen): form for form, seen in forms}
    return section


UNMARKED_GATES = {
    "io.k8s.api.core.v1.Volume": {"image": "ImageVolume"},
    "io.k8s.api.core.v1.VolumeProjection": {"podCertificate": "PodCertificateRequest"},
    "io.k8s.api.discovery.v1.EndpointHints": {"forNodes": "PreferSameTrafficDistribution"},
}
"""Fields of a feature gate that the comments of the Go structs do not name."""


NOT_DROPPED = frozenset((("io.k8s.api.core.v1.TypedObjectReference", "namespace"),))
"""Fields whose removal has other effects: kube-apiserver drops the whole reference."""


def gated_fields(releases: list[Release], gates: Mapping[str, Mapping[str, str]]) -> Section:
    """Return the fields that are dropped while a gate is disabled, if that is so in some version.

    `gates` has the states of gates by version; a field belongs to the gate of its newest marker.
    """
    section: Section = {}
    for one in releases:
        for name in one.definitions:
            path, short = wire_tables.package_of(name)
            found = wire_tables.fields_of(one, wire_tables.package(one, path), short)
            for field in found[1] if found is not None else ():
                for gate in re.findall(r"\+featureGate=(\w+)", field.comment):
                    section.setdefault(name, {})[field.name or field.wire_name] = gate
    for name, fields in UNMARKED_GATES.items():
        section.setdefault(name, {}).update(fields)
    for name, field in NOT_DROPPED:
        section.get(name, {}).pop(field, None)
    disabled = {gate for states in gates.values() for gate, state in states.items() if "+" not in state}
    kept = {
        name: {field: gate for field, gate in sorted(fields.items()) if gate in disabled}
        for name, fields in sorted(section.items())
    }
    return {name: fields for name, fields in kept.items() if fields}


def types_sections(releases: list[Release]) -> Section:
    """Return what differs in the types of objects."""
    schemas = {one.version: schemas_of(one) for one in releases}
    fields = fields_section(schemas)
    messages = {one.version: messages_of(one) for one in releases}
    return {
        "fields": fields,
        "enumerations": enumerations_section(releases),
        "schemas": former_section(schemas, fields, _without),
        "messages": former_section(messages, fields, _line_without),
    }
