"""Checks of a project: declarations, permissions, and compatibility with a released version.

    findings = check_project(load_project(["shop"]))
    changes = compare_definitions(released_definitions("v1.2.0", Path()), definitions_of(project))

`kubewright check` runs them and fails if there is an error or a breaking change.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from kubewright.manifests import DeclarationError, Options, Project, crd, find_client_calls, generate
from kubewright.manifests.sample_checks import check_samples
from kubewright.schema.generation.errors import Problem

from .types.from_crd import CRDError, read_crds

Definition = dict[str, Any]
SUFFIXES: Final = (".yaml", ".yml", ".json")


class CheckError(Exception):
    """The released version cannot be read; the message is one line with the reason and the remedy."""


@dataclass(frozen=True)
class Finding:
    """A problem in the code of a project."""

    severity: Literal["error", "warning"]
    where: str
    """`file:line`, or empty."""
    subject: str
    """Field or declaration, such as `Shop.spec.size`."""
    message: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        subject = f"{self.subject}: " if self.subject else ""
        return f"{place}{subject}{self.message}"


def check_project(
    project: Project, options: Options | None = None, *, samples: Path | None = None
) -> list[Finding]:
    """Return the problems of declarations, permissions and the samples in a directory, errors first."""
    findings = [*_declaration_findings(project, options, samples), *_permission_findings(project)]
    return sorted(dict.fromkeys(findings), key=lambda each: each.severity == "warning")


def definitions_of(project: Project, options: Options | None = None) -> list[Definition]:
    """Return the CustomResourceDefinitions of a project; raise `DeclarationError` for invalid types."""
    return [crd(*versions, options=options) for _, versions in sorted(project.kinds.items())]


def _declaration_findings(
    project: Project, options: Options | None, samples: Path | None
) -> Iterator[Finding]:
    try:
        manifests = generate(project, options)
    except DeclarationError as error:
        for problem in error.problems:
            yield _finding("error", problem)
        return
    for warning in manifests.warnings:
        yield Finding("warning", "", "", warning)
    for severity, problem in manifests.conversion_problems:
        yield _finding(severity, problem)
    for definition in manifests.definitions:
        yield from _condition_findings(definition)
    if samples is not None:
        for problem in check_samples(samples, manifests.definitions, other_kinds=manifests.other_kinds):
            yield _finding("error", problem)


def _condition_findings(definition: Definition) -> Iterator[Finding]:
    """Find conditions that server-side apply replaces as a whole."""
    kind = definition["spec"]["names"]["kind"]
    for version in definition["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"].get("properties", {}).get("status", {})
        conditions = status.get("properties", {}).get("conditions", {})
        fields = conditions.get("items", {}).get("properties", {})
        if {"type", "status"} <= fields.keys() and conditions.get("x-kubernetes-list-type") != "map":
            yield Finding(
                "warning",
                "",
                f"{kind} {version['name']}.status.conditions",
                'conditions of several managers overwrite each other; add ListMap("type")',
            )


def _finding(severity: Literal["error", "warning"], problem: Problem) -> Finding:
    return Finding(severity, problem.where, problem.path, problem.text)


def _permission_findings(project: Project) -> Iterator[Finding]:
    """Compare the client calls of the code with the declared rules.

    A project without any rule is a client program, which runs with the permissions of its user.
    """
    if not project.permissions:
        return
    found = find_client_calls(project.modules)
    for call in found.calls:
        missing = call.missing(project.permissions)
        if missing:
            group = call.group or "core"
            rule = f'Rbac(groups=("{group}",), resources=("{call.resource}",), verbs={_tuple(missing)})'
            yield Finding(
                "error",
                call.where,
                call.text,
                f"no rule grants {', '.join(missing)} on {_qualified(call.resource, call.group)}; add {rule}",
            )
    if found.unknown or not project.operators:
        # The kinds of some calls are not known, so a rule may be used by one of them.
        return
    for declared in project.permissions:
        if not declared.where or declared.urls:
            continue
        if not any(set(call.verbs) - set(call.missing([declared])) for call in found.calls):
            resources = ", ".join(declared.resources)
            text = f"no call in the code uses this rule for {resources}; remove it, or ignore this warning"
            yield Finding("warning", declared.where, "Rbac", text)


def _tuple(words: Sequence[str]) -> str:
    quoted = ", ".join(f'"{word}"' for word in words)
    return f"({quoted},)" if len(words) == 1 else f"({quoted})"


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def released_definitions(against: str, directory: Path, *, output: str = "config") -> list[Definition]:
    """Return the CustomResourceDefinitions of a file, a directory or a git revision; raise `CheckError`.

    In a git revision they are read from `output`, the directory of the generated manifests.
    """
    path = directory / against
    try:
        if path.is_dir():
            return directory_definitions(path)
        if path.is_file():
            return read_crds(path)
    except CRDError as error:
        raise CheckError(str(error)) from None
    return _revision_definitions(against, directory, output)


def directory_definitions(directory: Path) -> list[Definition]:
    """Return the CustomResourceDefinitions of all files below a directory; raise `CheckError` if none."""
    files = sorted(path for path in directory.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    found = [crd for path in files for crd in _definitions(path.read_text(encoding="utf-8"))]
    if not found:
        raise CheckError(f"{directory} contains no CustomResourceDefinition")
    return found


def _definitions(text: str) -> list[Definition]:
    if "CustomResourceDefinition" not in text:
        return []
    try:
        return read_crds(text if "\n" in text else f"{text}\n")
    except CRDError:
        return []


def _revision_definitions(revision: str, directory: Path, output: str) -> list[Definition]:
    commit = _git(directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise CheckError(
            f"{revision} is not a file, a directory or a git revision; write --against cluster to compare "
            "with a cluster"
        )
    listed = _git(directory, "ls-tree", "-r", "--name-only", commit.strip(), "--", f"{output}/") or ""
    found: list[Definition] = []
    for name in listed.splitlines():
        if name.endswith(SUFFIXES):
            found += _definitions(_git(directory, "show", f"{commit.strip()}:./{name}") or "")
    if not found:
        raise CheckError(
            f"revision {revision} has no CustomResourceDefinition in {output}/; commit the output of "
            "kubewright manifests, or name a file with --against FILE"
        )
    return found


def _git(directory: Path, *arguments: str) -> str | None:
    """Run git and return its output, or `None` if it fails."""
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *arguments],  # noqa: S607
            cwd=directory,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
    except FileNotFoundError:
        raise CheckError("git is not installed; name a file or directory with --against") from None
    return done.stdout if done.returncode == 0 else None
