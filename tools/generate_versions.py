"""Write `src/kubewright/api/kubernetes_versions.json`: what differs between the supported versions.

    python tools/generate_versions.py --sources CLONE            write the table
    python tools/generate_versions.py --sources CLONE --check    fail if the committed table differs

`CLONE` is a clone of the public repository of Kubernetes (see `kubernetes_sources`). Data of the newest
version are in the modules that use them; the table lists what a version lacks or has in another form, each
with the range of versions: `1.34-` since, `-1.36` until, `1.35` or `1.35-1.36` in between. What all versions
share is not in the table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from kubernetes_sources import NEWEST, RELEASES, Release, release, sources_folder
from version_types import gated_fields, types_sections, version_range

Section = dict[str, Any]

TARGET = Path(__file__).resolve().parent.parent / "src" / "kubewright" / "api" / "kubernetes_versions.json"
FORMER_TYPES = TARGET.with_name("kubernetes_former_types.json")
"""Read only for other versions than the newest."""
VERBS = {
    "create": "c",
    "delete": "d",
    "deletecollection": "D",
    "get": "g",
    "list": "l",
    "patch": "p",
    "update": "u",
    "watch": "w",
}
STAGES = {"ALPHA": "alpha", "BETA": "beta", "GA": "stable", "DEPRECATED": "deprecated"}


def ranges(releases: list[Release], names: Callable[[Release], set[str]]) -> dict[str, str]:
    """Return the range of each name that some release lacks."""
    found: dict[str, list[str]] = {}
    for one in releases:
        for name in names(one):
            found.setdefault(name, []).append(one.version)
    shown = {name: version_range(versions) for name, versions in sorted(found.items())}
    return {name: text for name, text in shown.items() if text}


# Resources


def _verbs(names: list[str]) -> str:
    return "".join(letter for name, letter in VERBS.items() if name in names)


def _kind_text(home: tuple[str, str], parent: str, kind: Mapping[str, str]) -> str:
    group, version = (kind["group"], kind["version"]) if kind.get("version") else home
    if (group, version) == home:
        return "" if kind["kind"] == parent else kind["kind"]
    return f"{group}/{version} {kind['kind']}" if group else f"{version} {kind['kind']}"


def resource_row(home: tuple[str, str], one: Mapping[str, Any]) -> str:
    """Return a resource of a discovery document in the notation of `builtin_resources`."""
    kind = one["responseKind"]["kind"]
    words = [one["resource"], kind, one["scope"][0]]
    if one.get("shortNames"):
        words.append(f"[{','.join(one['shortNames'])}]")
    if one.get("categories"):
        words.append(f"{{{','.join(one['categories'])}}}")
    if len(one["verbs"]) < len(VERBS):
        words.append(f"<{_verbs(one['verbs'])}>")
    for part in one.get("subresources") or ():
        shown, letters = _kind_text(home, kind, part["responseKind"]), _verbs(part["verbs"])
        words.append(
            f"/{part['subresource']}" + (f"({shown}:{letters})" if shown or letters != "gpu" else "")
        )
    return " ".join(words)


def resource_rows(one: Release) -> Iterator[tuple[str, str]]:
    """Return group version and row of every resource."""
    for group in one.discovery:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            home = (name, version["version"])
            api_version = "/".join(filter(None, home))
            for each in version["resources"]:
                yield api_version, resource_row(home, each)


def resources_section(releases: list[Release]) -> Section:
    """Return the resources that some version lacks or has in another form, by group version."""
    found = ranges(releases, lambda one: {f"{version}|{row}" for version, row in resource_rows(one)})
    section: Section = {}
    for key, text in found.items():
        version, _, row = key.partition("|")
        section.setdefault(version, {})[row] = text
    return section


# Feature gates


def gate_states(one: Release) -> dict[str, str]:
    """Return stage, `+` if enabled and `!` if locked, of each gate that the release has."""
    states: dict[str, str] = {}
    for path in one.find("test/compatibility_lifecycle/reference", "versioned_feature_list.yaml"):
        for gate in yaml.safe_load(one.text(path)):
            state = ""
            for spec in gate["versionedSpecs"]:
                if int((spec["version"] or f"1.{one.minor}").partition(".")[2]) <= one.minor:
                    stage = STAGES[(spec["preRelease"] or "GA").upper()]
                    state = stage + "+" * spec["default"] + "!" * spec["lockToDefault"]
            if state:
                states[gate["name"]] = state
    return {**states, **client_gate_states(one), "AllAlpha": "alpha", "AllBeta": "beta"}


_CLIENT_GATE = re.compile(r"^\t(\w+):")
_CLIENT_SPEC = re.compile(
    r"\{?(?:Version: version.MustParse\(\"1\.(\d+)\"\), )?Default: (\w+)"
    r"(?:, LockToDefault: (\w+))?, PreRelease: (\w+)"
    r"(?:, LockToDefault: (\w+))?"
)


def client_gate_states(one: Release) -> dict[str, str]:
    """Return the gates of client-go, which kube-apiserver has too, in the form of `gate_states`."""
    text = one.text("staging/src/k8s.io/client-go/features/known_features.go")
    states: dict[str, str] = {}
    name = ""
    for line in text.partition("KubernetesFeatureGates = ")[2].splitlines():
        named = _CLIENT_GATE.match(line)
        name = named[1] if named else name
        for minor, default, locked, stage, locked_after in _CLIENT_SPEC.findall(line):
            if not minor or int(minor) <= one.minor:
                is_locked = "true" in (locked, locked_after)
                states[name] = STAGES[stage.upper()] + "+" * (default == "true") + "!" * is_locked
    if "WatchListClient" not in states:
        raise SystemExit(f"cannot read the gates of client-go {one.version}")
    return states


def gates_section(releases: list[Release]) -> Section:
    """Return the states of each gate: `1.33 alpha;1.34 beta+;1.36` (removed in 1.36)."""
    every = {one.version: gate_states(one) for one in releases}
    section: Section = {}
    for name in sorted(set().union(*every.values())):
        changes: list[str] = []
        before: str | None = None
        for version, states in every.items():
            state = states.get(name, "")
            if state != before and (state or changes):
                changes.append(f"{version} {state}".strip())
            before = state
        section[name] = ";".join(changes)
    return section


# Admission plug-ins

_PLUGIN = re.compile(r"^\s+\w+\.PluginName,\s*// (\w+)", re.MULTILINE)
_PLUGIN_NAMES = {"Mutatingadmissionpolicy": "MutatingAdmissionPolicy"}


def plugin_states(one: Release) -> tuple[set[str], set[str]]:
    """Return the admission plug-ins, and those that are enabled by default."""
    text = one.text("pkg/kubeapiserver/options/plugins.go")
    ordered, _, rest = text.partition("var AllOrderedPlugins")[2].partition("\n}")
    enabled = rest.partition("defaultOnPlugins := sets.New")[2].partition("\n\t)")[0]
    names, on = (
        {_PLUGIN_NAMES.get(name, name) for name in _PLUGIN.findall(part)} for part in (ordered, enabled)
    )
    if not on or not on <= names:
        raise SystemExit(f"cannot read the admission plug-ins of {one.version}: {sorted(on - names)}")
    return names, on


# CEL

_CEL_OPTION = re.compile(
    r"IntroducedVersion:\s*version\.MajorMinor\(1, (\d+)\),"
    r"(?:\s*RemovedVersion:\s*version\.MajorMinor\(1, (\d+)\),)?"
    r"\s*EnvOptions: \[\]cel\.EnvOption\{(.*?)\n\t\t\},",
    re.DOTALL,
)
_CEL_LIBRARY = re.compile(
    r"(?:UnversionedLib\()?((?:library|ext|cel)\.\w+)(?:\((?:\w+\.\w+Version\((\d+)\))?\))?"
)
_FIRST_COMPARED = 32
"""Functions that are older than this are in every supported version."""


def cel_section(releases: list[Release]) -> Section:
    """Return the libraries of CEL by the version that introduced them.

    A version compiles new expressions with the libraries of the version before it, and stored expressions
    with its own.
    """
    section: Section = {}
    text = releases[-1].text("staging/src/k8s.io/apiserver/pkg/cel/environment/base.go")
    for introduced, _, options in _CEL_OPTION.findall(text.partition("baseOpts = ")[2]):
        if int(introduced) >= _FIRST_COMPARED:
            for name, number in _CEL_LIBRARY.findall(options):
                section[name + (f" {number}" if number else "")] = f"1.{introduced}"
    return section


def table(releases: list[Release]) -> Section:
    """Return all sections."""
    return {
        "versions": list(RELEASES),
        "resources": resources_section(releases),
        "gates": gates_section(releases),
        "plugins": ranges(releases, lambda one: plugin_states(one)[0]),
        "default plugins": ranges(releases, lambda one: plugin_states(one)[1]),
        "cel": cel_section(releases),
        "group versions": ranges(releases, lambda one: {"/".join(each) for each in one.group_versions}),
        "gated fields": gated_fields(releases, {one.version: gate_states(one) for one in releases}),
        **types_sections(releases),
    }


def encoded(section: Section) -> str:
    """Return JSON with one entry per line, for readable diffs."""
    parts = []
    for name, entries in section.items():
        if isinstance(entries, dict):
            lines = [
                f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
                for key, value in entries.items()
            ]
            parts.append(f"{json.dumps(name)}:{{\n" + ",\n".join(lines) + "\n}")
        else:
            parts.append(f"{json.dumps(name)}:{json.dumps(entries, separators=(',', ':'))}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def derive(sources: Path) -> dict[Path, str]:
    """Return the contents of the files, from a clone."""
    sections = table([release(sources, version) for version in RELEASES])
    former = {name: sections.pop(name) for name in ("schemas", "messages")}
    return {TARGET: encoded(sections), FORMER_TYPES: encoded(former)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", help="clone of the repository of Kubernetes")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table is stale")
    arguments = parser.parse_args()
    sources = sources_folder(arguments.sources)
    if sources is None:
        raise SystemExit("no sources; use --sources CLONE, or set KUBERNETES_SOURCES")
    for path, text in derive(sources).items():
        if not arguments.check:
            path.write_text(text)
            print(f"{path.name}: {len(text)} bytes, newest {NEWEST}")
        elif path.read_text() != text:
            raise SystemExit(f"{path.name} is stale; run: python tools/generate_versions.py")


if __name__ == "__main__":
    main()
