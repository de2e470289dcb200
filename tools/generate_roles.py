"""Write `controlplane/bootstrap/roles.txt`: the bootstrap roles and bindings of all supported versions.

    python tools/generate_roles.py --sources CLONE            write the file
    python tools/generate_roles.py --sources CLONE --check    fail if the committed file differs

The source is the test data of the bootstrap policy of Kubernetes. A role, rule or subject that some versions
lack ends with its range of versions (`@1.36-`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from generate_versions import VERBS
from kubernetes_sources import RELEASES, Release, release, sources_folder
from version_types import version_range

TARGET = Path(__file__).resolve().parent.parent / "src/kubewright/controlplane/bootstrap/roles.txt"
DATA = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata/"
EVENTS = "cpu core|events.k8s.io:events"
SECTIONS = {
    "cluster roles": ("cluster-roles", "controller-roles"),
    "roles": ("namespace-roles",),
    "cluster role bindings": ("cluster-role-bindings", "controller-role-bindings"),
    "role bindings": ("namespace-role-bindings",),
}
OWN_RULES = {"system:controller:node-controller": ["glw coordination.k8s.io:leases"]}
"""Rules that controllers of Kubewright need in every version: this one was added to Kubernetes in 1.37."""
WIDTH = 104

Lines = list[str]


def rule_text(rule: Mapping[str, Any]) -> str:
    """Return a rule in the notation of `kubewright.controlplane.bootstrap.roles`."""
    verbs = rule["verbs"]
    letters = "".join(VERBS.get(verb, "?") for verb in verbs)
    shown = letters if "?" not in letters else "+" + "+".join(verbs)
    if "nonResourceURLs" in rule:
        return f"{shown} {','.join(rule['nonResourceURLs'])}"
    text = f"{shown} {'|'.join(group or 'core' for group in rule['apiGroups'])}:{','.join(rule['resources'])}"
    if rule.get("resourceNames"):
        text += f"={','.join(rule['resourceNames'])}"
    return "EVENTS" if text == EVENTS else text


def subject_text(subject: Mapping[str, Any]) -> str:
    """Return a subject of a binding."""
    place = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject['kind']} {place}{subject['name']}"


def entries(one: Release, files: tuple[str, ...]) -> Iterator[tuple[str, Lines]]:
    """Return the names of roles or bindings and their lines."""
    for file in files:
        for item in yaml.safe_load(one.text(f"{DATA}{file}.yaml"))["items"]:
            metadata = item["metadata"]
            name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
            if "aggregationRule" in item:
                continue
            if "roleRef" in item:
                reference = item["roleRef"]["name"]
                lines = [subject_text(subject) for subject in item.get("subjects") or ()]
                yield name, [reference, *lines] if "namespace" in metadata or reference != name else lines
            else:
                rules = [rule_text(rule) for rule in item.get("rules") or ()]
                own = [rule for rule in OWN_RULES.get(name, ()) if rule not in rules]
                yield name, rules[:-1] + own + rules[-1:] if own else rules


def merged(every: Mapping[str, Lines]) -> list[tuple[str, str]]:
    """Return the lines of all versions in one sequence, each with its range of versions."""
    sequence: list[tuple[str, list[str]]] = []
    for version, lines in reversed(every.items()):
        position = 0
        for line in lines:
            found = next(
                (
                    place
                    for place in range(position, len(sequence))
                    if sequence[place][0] == line and version not in sequence[place][1]
                ),
                None,
            )
            if found is None:
                sequence.insert(position, (line, [version]))
                position += 1
            else:
                sequence[found][1].insert(0, version)
                position = found + 1
    known = list(every)
    for version, lines in every.items():
        if [line for line, versions in sequence if version in versions] != lines:
            raise SystemExit(f"cannot merge the lines of {version}: {lines}")
    return [(line, "" if versions == known else version_range(versions)) for line, versions in sequence]


def section_text(releases: list[Release], files: tuple[str, ...]) -> Iterator[str]:
    """Return the lines of a section."""
    every = {one.version: dict(entries(one, files)) for one in releases}
    for name in sorted(set().union(*every.values())):
        having = {version: items[name] for version, items in every.items() if name in items}
        yield name + _suffix(version_range(list(having)))
        for line, versions in merged(having):
            yield from wrapped("  " + line + _suffix(versions))


def _suffix(versions: str) -> str:
    return f" @{versions}" if versions else ""


def wrapped(line: str) -> Iterator[str]:
    """Break a long line after a comma; continuations are indented."""
    while len(line) > WIDTH:
        cut = line.rindex(",", 0, WIDTH) + 1
        yield line[:cut]
        line = "    " + line[cut:]
    yield line


def derive(sources: Path) -> dict[Path, str]:
    """Return the content of the file, from a clone."""
    releases = [release(sources, version) for version in RELEASES]
    parts = []
    for section, files in SECTIONS.items():
        parts.append("\n".join((f"[{section}]", *section_text(releases, files))))
    return {TARGET: "\n\n".join(parts) + "\n"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", help="clone of the repository of Kubernetes")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is stale")
    arguments = parser.parse_args()
    sources = sources_folder(arguments.sources)
    if sources is None:
        raise SystemExit("no sources; use --sources CLONE, or set KUBERNETES_SOURCES")
    for path, text in derive(sources).items():
        if not arguments.check:
            path.write_text(text)
        elif path.read_text() != text:
            raise SystemExit(f"{path.name} is stale; run: python tools/generate_roles.py")


if __name__ == "__main__":
    main()
