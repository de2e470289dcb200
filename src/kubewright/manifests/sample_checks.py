"""Check the sample objects of a project against its current types, and update them.

    problems = check_samples(Path("config/samples"), manifests.definitions)
    changed = update_samples(Path("config/samples"), manifests.definitions)

Samples are written once and then belong to the user, so a type that changes leaves them behind. A check
decodes and validates each object of a kind of the project as an API server does: unknown fields, required
fields, values, CEL rules. Objects of other groups, such as a Secret that a sample refers to, are not checked.

An update removes unknown fields, adds missing ones, and replaces invalid values with those of a new sample.
It does not change files that it could not write again without a loss, such as those with comments between
fields.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kubewright.api.field_errors import FieldError
from kubewright.schema.generation.errors import Problem
from kubewright.schema.validation.metadata import MetadataError
from kubewright.schema.version import RULES_SKIPPED, SchemaVersion, TooDeepError

from .generation import replace_file
from .yaml_output import to_compact_yaml

Definition = dict[str, Any]
SUFFIXES: Final = (".yaml", ".yml", ".json")
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_COMMENT: Final = re.compile(r"(?:^|\s)#", re.MULTILINE)


@dataclass(frozen=True)
class _Document:
    """An object of a file, with the YAML node that has its lines."""

    file: Path
    node: yaml.Node
    value: Any

    def problem(self, field: str, text: str) -> Problem:
        """Return a problem with the line of a field, or of the nearest parent that exists."""
        return Problem(f"{self.file}:{_line(self.node, field)}", field, text)


def check_samples(
    directory: Path, definitions: Sequence[Definition], *, other_kinds: Sequence[tuple[str, str]] = ()
) -> list[Problem]:
    """Return what is wrong with the samples in a directory, in the order of files and lines.

    `other_kinds` are pairs of group and kind that the project serves without a CRD; they are not checked.
    """
    schemas = _Schemas(definitions, other_kinds)
    return [problem for document in _documents(directory) for problem in schemas.problems(document)]


def update_samples(directory: Path, definitions: Sequence[Definition]) -> list[Path]:
    """Change samples so that they are valid, as far as possible, and return the changed files."""
    from .deployment.samples import sample

    schemas = _Schemas(definitions, ())
    changed = []
    for file in _files(directory):
        text = file.read_text(encoding="utf-8")
        lead, body = _leading_comments(text)
        documents = list(_read(file))
        outdated = [each for each in documents if any(schemas.problems(each))]
        if not outdated or _COMMENT.search(body) or file.suffix == ".json":
            continue
        before = to_compact_yaml((each.value for each in documents), width=0)
        updated = [
            schemas.updated(each.value, sample) if each in outdated else each.value for each in documents
        ]
        if (after := to_compact_yaml(updated, width=0)) != before:
            replace_file(file, lead + after)
            changed.append(file)
    return changed


class _Schemas:
    """The compiled schemas of the served versions of some definitions, by group, kind and version."""

    def __init__(self, definitions: Sequence[Definition], other_kinds: Sequence[tuple[str, str]]) -> None:
        self._definitions = {
            (each["spec"]["group"], each["spec"]["names"]["kind"]): each for each in definitions
        }
        self._groups = {group for group, _ in self._definitions}
        self._others = frozenset(other_kinds)
        self._compiled: dict[tuple[str, str, str], SchemaVersion] = {}

    def problems(self, document: _Document) -> Iterator[Problem]:
        """Return the problems of an object; none if its kind is not one of the project."""
        found = self._version_of(document.value)
        if found is None:
            return
        if isinstance(found, str):
            yield document.problem("apiVersion" if "version" in found else "kind", found)
            return
        unknown, errors = _errors(found, document.value)
        for path in unknown:
            yield document.problem(path, "unknown field")
        for error in errors:
            if error is not RULES_SKIPPED:
                yield document.problem(error.field, error.message)

    def updated(self, value: Any, sample: Callable[[Definition, str], Definition]) -> Any:
        """Return an object without its problems, as far as they can be removed."""
        found = self._version_of(value)
        if not isinstance(found, SchemaVersion):
            return value
        group, _, version = value["apiVersion"].rpartition("/")
        model = sample(self._definitions[group, value["kind"]], version)
        result = copy.deepcopy(value)
        found.prune(result)
        for error in _errors(found, result)[1]:
            steps = _steps(error.field)
            for depth in range(len(steps), 0, -1):
                if _take_field(model, result, steps[:depth]):
                    break
        return result

    def _version_of(self, value: Any) -> SchemaVersion | str | None:
        """Return the schema of an object, the reason why it has none, or `None` for other kinds."""
        if not isinstance(value, dict):
            return None
        group, _, version = str(value.get("apiVersion", "")).rpartition("/")
        kind = str(value.get("kind", ""))
        definition = self._definitions.get((group, kind))
        if definition is None:
            if group not in self._groups or (group, kind) in self._others:
                return None
            kinds = ", ".join(sorted(name for each, name in self._definitions if each == group))
            return f"the project has no kind {kind} in group {group}; its kinds are {kinds}"
        served = {each["name"]: each for each in definition["spec"]["versions"] if each.get("served")}
        if version not in served:
            return f"version {version} of {kind} is not served; its versions are {', '.join(served)}"
        key = group, kind, version
        if key not in self._compiled:
            self._compiled[key] = SchemaVersion(served[version]["schema"]["openAPIV3Schema"])
        return self._compiled[key]


def _errors(schema: SchemaVersion, value: dict[str, Any]) -> tuple[list[str], list[FieldError]]:
    try:
        unknown, verdict = schema.process(copy.deepcopy(value))
    except (MetadataError, TooDeepError) as error:
        return [], [FieldError.invalid("metadata", None, str(error))]
    return unknown, verdict.errors


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def _documents(directory: Path) -> Iterator[_Document]:
    for file in _files(directory):
        yield from _read(file)


def _read(file: Path) -> Iterator[_Document]:
    """Return the objects of a file; one that is not YAML has a problem that names the file."""
    from kubewright.manifests.project import ProjectError

    try:
        text = file.read_text(encoding="utf-8")
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None:
                yield _Document(file, node, yaml.safe_load(yaml.serialize(node)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ProjectError(f"cannot read the sample {file}: {reason}") from None


def _leading_comments(text: str) -> tuple[str, str]:
    """Return the comments before the first object, and the rest."""
    lines = text.splitlines(keepends=True)
    count = 0
    while count < len(lines) and (lines[count].startswith("#") or not lines[count].strip()):
        count += 1
    return "".join(lines[:count]), "".join(lines[count:])


def _steps(path: str) -> list[str | int]:
    return [int(index) if index else name for index, name in _STEP.findall(path)]


def _line(node: yaml.Node, path: str) -> int:
    here, line = node, node.start_mark.line
    for step in _steps(path):
        if isinstance(here, yaml.MappingNode):
            found = next(((key, value) for key, value in here.value if key.value == step), None)
            if found is None:
                break
            line, here = found[0].start_mark.line, found[1]
        elif isinstance(here, yaml.SequenceNode) and isinstance(step, int) and step < len(here.value):
            here = here.value[step]
            line = here.start_mark.line
        else:
            break
    return line + 1


def _take_field(source: Any, target: Any, steps: Sequence[str | int]) -> bool:
    """Give a field the value that it has in another object, or remove it; return whether it changed."""
    *parents, last = steps
    for step in parents:
        source, target = _child(source, step), _child(target, step)
    value = _child(source, last)
    if isinstance(target, dict):
        if value is None:
            return target.pop(last, None) is not None
        target[last] = copy.deepcopy(value)
        return True
    if value is None or not (isinstance(target, list) and isinstance(last, int) and last < len(target)):
        return False
    target[last] = copy.deepcopy(value)
    return True


def _child(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None
