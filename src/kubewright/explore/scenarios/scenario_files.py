"""Scenarios from files: Python files with functions marked by `@scenario`, and YAML.

    name: resize
    invariants:
      - no_orphans
      - at_most_writes: 20
    steps:
      - apply: {apiVersion: example.com/v1, kind: Shop, metadata: {name: a}, spec: {size: 2}}
      - wait: {kind: Shop, name: a, condition: Ready, timeout: 5m}
      - patch: {kind: Shop, name: a, patch: {spec: {size: 3}}}
      - advance: 1h
      - delete: {kind: Shop, name: a}
      - wait: {kind: Shop, name: a, absent: true}

A YAML file has one scenario in each document. Optional fields are those of `Scenario`, in camelCase: `setup`,
`tolerate`, `quietSeconds`, `timeout`, `extraWrites`, `controllers`, `nodes`. The name is by default that of
the file. Everything else is an error that names the file and the step.
"""

from __future__ import annotations

import glob
import importlib.util
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kubewright.client.errors import ManifestError
from kubewright.client.manifest_files import parse_documents
from kubewright.explore.invariants import READY_MADE, Invariant
from kubewright.explore.runs.reference_checks import CHECKS, unknown_checks

from .scenarios import QUIET_SECONDS, TIMEOUT, Scenario
from .steps import DEFAULT_TIMEOUT, Steps, seconds, wait_predicate

SUFFIXES: Final = (".py", ".yaml", ".yml")


class ScenarioError(ValueError):
    """A scenario file is not valid; the message names the file and the step."""


def load_scenarios(paths: Iterable[str | Path] | str | Path) -> list[Scenario]:
    """Return the scenarios of files, directories and glob patterns, in order.

    Raises `ScenarioError` if a file is not valid, or if there are no scenarios.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found = [each for path in given for file in _files(path) for each in _load(file)]
    if not found:
        raise ScenarioError(f"no scenarios in {', '.join(map(str, given)) or 'no files'}")
    names: dict[str, Scenario] = {}
    for each in found:
        other = names.setdefault(each.name, each)
        if other is not each:
            raise ScenarioError(f"{each.source}: {other.source} has a scenario {each.name!r} as well")
    return found


def _files(path: str | Path) -> list[Path]:
    found = Path(path)
    if found.is_dir():
        return sorted(
            each for each in found.iterdir() if each.suffix in SUFFIXES and each.name[0] not in "._"
        )
    if found.exists():
        if found.suffix not in SUFFIXES:
            raise ScenarioError(f"{found} is not a scenario file; expected {', '.join(SUFFIXES)}")
        return [found]
    matches = sorted(glob.glob(str(path)))
    if not matches:
        raise ScenarioError(f"{path} does not exist")
    return [each for match in matches for each in _files(match)]


def _load(path: Path) -> Iterable[Scenario]:
    return _load_python(path) if path.suffix == ".py" else _load_yaml(path)


# Python


def _load_python(path: Path) -> list[Scenario]:
    name = f"kubewright_scenarios_{re.sub(r'[^0-9A-Za-z]', '_', str(path.resolve()))}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        folder = str(path.resolve().parent)
        sys.path.insert(0, folder)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise ScenarioError(f"cannot import {path}: {type(error).__name__}: {error}") from error
        finally:
            sys.path.remove(folder)
    found = {id(each): each for each in vars(module).values() if isinstance(each, Scenario)}
    if not found:
        raise ScenarioError(f"{path} has no scenarios; mark async functions with @scenario")
    return list(found.values())


# YAML

_FIELDS: Final = (
    "name",
    "invariants",
    "setup",
    "steps",
    "tolerate",
    "quietSeconds",
    "timeout",
    "extraWrites",
    "allow",
    "controllers",
    "nodes",
)


def _load_yaml(path: Path) -> Iterator[Scenario]:
    try:
        documents = parse_documents(str(path), path.read_bytes())
    except ManifestError as error:
        raise ScenarioError(str(error)) from None
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    given = [(number, each) for number, each in enumerate(documents, 1) if each is not None]
    for number, document in given:
        where = f"{path}: document {number}" if len(given) > 1 else str(path)
        name = path.stem if len(given) == 1 else f"{path.stem}-{number}"
        yield parse_scenario(document, source=where, name=name)


def parse_scenario(document: Any, *, source: str, name: str = "") -> Scenario:
    """Return the scenario of a YAML document; `name` is used if the document has none."""
    fields = _mapping(document, source, _FIELDS)
    steps = fields.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{source}: steps must be a list with at least one step")
    parsed = [_parse_step(step, f"{source}: step {index}") for index, step in enumerate(steps, 1)]

    async def run(target: Steps) -> None:
        for step in parsed:
            await step(target)

    setup = _list(fields, "setup", source)
    for index, obj in enumerate(setup, 1):
        _check_object(obj, f"{source}: setup {index}")
    return Scenario(
        name=_text(fields, "name", source, default=name),
        steps=run,
        invariants=tuple(
            _parse_invariant(each, f"{source}: invariant {index}")
            for index, each in enumerate(_list(fields, "invariants", source), 1)
        ),
        setup=tuple(setup),
        tolerate=tuple(map(str, _list(fields, "tolerate", source))),
        quiet_seconds=_seconds(fields, "quietSeconds", source, QUIET_SECONDS),
        timeout=_seconds(fields, "timeout", source, TIMEOUT),
        extra_writes=_count(fields, "extraWrites", source),
        allow=_checks(fields, source),
        controllers=_flag(fields, "controllers", source),
        nodes=_count(fields, "nodes", source) or 0,
        source=source,
    )


def _checks(fields: Mapping[str, Any], source: str) -> tuple[str, ...]:
    allowed = tuple(map(str, _list(fields, "allow", source)))
    if unknown := unknown_checks(allowed):
        raise ScenarioError(f"{source}: allow has {', '.join(unknown)}; expected some of {', '.join(CHECKS)}")
    return allowed


_Step = Callable[[Steps], Awaitable[object]]


def _parse_step(step: Any, where: str) -> _Step:
    names = ", ".join(_STEPS)
    if not isinstance(step, dict) or len(step) != 1:
        raise ScenarioError(f"{where}: expected a mapping with one of: {names}")
    ((verb, arguments),) = step.items()
    parse = _STEPS.get(verb)
    if parse is None:
        raise ScenarioError(f"{where}: unknown step {verb!r}; steps are: {names}")
    return parse(arguments, f"{where}: {verb}")


def _parse_apply(arguments: Any, where: str) -> _Step:
    obj = _check_object(arguments, where)
    return lambda steps: steps.apply(obj)


def _parse_patch(arguments: Any, where: str) -> _Step:
    fields = _mapping(arguments, where, ("kind", "name", "namespace", "patch"))
    kind, name, namespace = _target(fields, where)
    patch = fields.get("patch")
    if not isinstance(patch, dict) or not patch:
        raise ScenarioError(f"{where}: patch must be a mapping (a merge patch)")
    return lambda steps: steps.patch(kind, name, patch, namespace=namespace)


def _parse_delete(arguments: Any, where: str) -> _Step:
    kind, name, namespace = _target(_mapping(arguments, where, ("kind", "name", "namespace")), where)
    return lambda steps: steps.delete(kind, name, namespace=namespace)


def _parse_wait(arguments: Any, where: str) -> _Step:
    fields = _mapping(arguments, where, ("kind", "name", "namespace", "condition", "absent", "timeout"))
    kind, name, namespace = _target(fields, where)
    condition = _text(fields, "condition", where) if "condition" in fields else None
    absent = _flag(fields, "absent", where) if "absent" in fields else None
    timeout = _seconds(fields, "timeout", where, DEFAULT_TIMEOUT)
    try:
        wait_predicate(condition, absent=absent)
    except ValueError as error:
        raise ScenarioError(f"{where}: {error}") from None
    return lambda steps: steps.wait(
        kind, name, namespace=namespace, condition=condition, absent=absent, timeout=timeout
    )


def _parse_advance(arguments: Any, where: str) -> _Step:
    try:
        if not isinstance(arguments, str | int | float) or isinstance(arguments, bool):
            raise ValueError("expected seconds or a duration such as 1h30m")
        seconds(arguments)
    except ValueError as error:
        raise ScenarioError(f"{where}: {error}") from None
    return lambda steps: steps.advance(arguments)


_STEPS: Final[dict[str, Callable[[Any, str], _Step]]] = {
    "apply": _parse_apply,
    "patch": _parse_patch,
    "delete": _parse_delete,
    "wait": _parse_wait,
    "advance": _parse_advance,
}


def _parse_invariant(value: Any, where: str) -> Invariant:
    name, arguments = value, None
    if isinstance(value, dict) and len(value) == 1:
        ((name, arguments),) = value.items()
    function = READY_MADE.get(name) if isinstance(name, str) else None
    if function is None:
        raise ScenarioError(f"{where}: unknown invariant {name!r}; invariants are: {', '.join(READY_MADE)}")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    if isinstance(arguments, dict):
        named = {str(key): argument for key, argument in arguments.items()}
    elif isinstance(arguments, list):
        positional = arguments
    elif arguments is not None:
        positional = [arguments]
    try:
        inspect.signature(function).bind(*positional, **named)
        return function(*positional, **named)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{where}: {name}: {error}") from None


def _mapping(value: Any, where: str, fields: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: expected a mapping, not {type(value).__name__}")
    unknown = next((key for key in value if key not in fields), None)
    if unknown is not None:
        raise ScenarioError(f"{where}: unknown field {unknown!r}; fields are: {', '.join(fields)}")
    return value


def _target(fields: Mapping[str, Any], where: str) -> tuple[str, str, str | None]:
    for required in ("kind", "name"):
        if required not in fields:
            raise ScenarioError(f"{where}: {required} is missing")
    return (
        _text(fields, "kind", where),
        _text(fields, "name", where),
        _text(fields, "namespace", where) if "namespace" in fields else None,
    )


def _check_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: expected an object, not {type(value).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ScenarioError(f"{where}: {field} is missing")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ScenarioError(f"{where}: metadata.name is missing")
    return value


def _text(fields: Mapping[str, Any], name: str, where: str, *, default: str = "") -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or not value:
        raise ScenarioError(f"{where}: {name} must be text, not {value!r}")
    return value


def _list(fields: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise ScenarioError(f"{where}: {name} must be a list")
    return value


def _flag(fields: Mapping[str, Any], name: str, where: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise ScenarioError(f"{where}: {name} must be true or false, not {value!r}")
    return value


def _count(fields: Mapping[str, Any], name: str, where: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ScenarioError(f"{where}: {name} must be a number of 0 or more, not {value!r}")
    return value


def _seconds(fields: Mapping[str, Any], name: str, where: str, default: float) -> float:
    value = fields.get(name, default)
    try:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError("expected seconds or a duration such as 5m")
        return seconds(value)
    except ValueError as error:
        raise ScenarioError(f"{where}: {name}: {error}") from None
