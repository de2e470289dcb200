"""Set and rename single keys of a TOML file; comments and formatting are kept.

The result is parsed and compared with the expected content, so that a file in an unusual form (dotted keys,
inline tables) is an error and never changed by accident.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from kubewright.scaffold.errors import ScaffoldError

Value = str | int | bool | list[str]


def set_keys(text: str, values: Mapping[tuple[str, ...], Value], *, name: str) -> str:
    """Return TOML text with keys set, each given as its path: `("tool", "kubewright", "domain")`."""
    for path, value in values.items():
        text = set_key(text, path, value, name=name)
    return text


def set_key(text: str, path: tuple[str, ...], value: Value, *, name: str) -> str:
    """Return TOML text with one key set; raise `ScaffoldError` if it must be edited by hand."""
    expected = _parse(text, name)
    _set(expected, path, value)
    result = _edit(text, path, value)
    try:
        if tomllib.loads(result) == expected:
            return result
    except tomllib.TOMLDecodeError:
        pass
    table, key = ".".join(path[:-1]), path[-1]
    raise ScaffoldError(
        f"{name} has [{table}] in a form that cannot be changed automatically; set {key} = {render(value)} "
        "there, and run the command again"
    )


def rename_key(text: str, old: tuple[str, ...], new: tuple[str, ...], *, name: str) -> str:
    """Return TOML text with a key or table renamed within its table; unchanged if it does not exist.

    Raise `ScaffoldError` if it must be edited by hand.
    """
    expected = _parse(text, name)
    parent: Any = expected
    for part in old[:-1]:
        parent = parent.get(part) if isinstance(parent, dict) else None
    if not isinstance(parent, dict) or old[-1] not in parent:
        return text
    where = f"[{'.'.join(old[:-1])}] of {name}"
    if old[:-1] != new[:-1] or new[-1] in parent:
        raise ScaffoldError(f"{where} has {old[-1]} and {new[-1]}; delete {old[-1]}, which was renamed")
    parent[new[-1]] = parent.pop(old[-1])
    result = _rename(text, old, new[-1])
    try:
        if tomllib.loads(result) == expected:
            return result
    except tomllib.TOMLDecodeError:
        pass
    raise ScaffoldError(f"{where}: rename {old[-1]} to {new[-1]}, and run the command again")


def _rename(text: str, old: tuple[str, ...], new: str) -> str:
    lines = text.splitlines(keepends=True)
    headers = _headers(lines)
    for index, table in headers.items():
        if tuple(table[: len(old)]) == old:
            header = ".".join(map(_bare, [*old[:-1], new, *table[len(old) :]]))
            lines[index] = f"[{header}]{lines[index][lines[index].index(']') + 1 :]}"
    bounds = _bounds(lines, headers, list(old[:-1]))
    if bounds is not None:
        pattern = re.compile(rf"^(\s*)(?:{re.escape(old[-1])}|\"{re.escape(old[-1])}\")(?=\s*=)")
        for index in range(*bounds):
            lines[index] = pattern.sub(rf"\g<1>{_bare(new)}", lines[index], count=1)
    return "".join(lines)


def render(value: Value) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(render(each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScaffoldError(f"{name}: {error}") from None


def _set(document: dict[str, Any], path: tuple[str, ...], value: Value) -> None:
    for part in path[:-1]:
        document = document.setdefault(part, {})
    document[path[-1]] = value


def _edit(text: str, path: tuple[str, ...], value: Value) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    headers = _headers(lines)
    *table, key = path
    bounds = _bounds(lines, headers, table)
    if bounds is None:
        return _add_table(lines, headers, table, f"{_bare(key)} = {render(value)}\n")
    first, last = bounds
    pattern = re.compile(rf"\s*(?:{re.escape(key)}|\"{re.escape(key)}\")\s*=")
    for index in range(first, last):
        if pattern.match(lines[index]):
            end = _end_of_value(lines, index, last)
            comment = _comment(lines[index]) if end == index + 1 else ""
            start = lines[index][: lines[index].index("=") + 1]
            return "".join([*lines[:index], f"{start} {render(value)}{comment}\n", *lines[end:]])
    place = last
    while place > first and not lines[place - 1].strip():
        place -= 1
    return "".join([*lines[:place], f"{_bare(key)} = {render(value)}\n", *lines[place:]])


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _headers(lines: list[str]) -> dict[int, list[str]]:
    """Return the table names of header lines by line."""
    found = {}
    for index, line in enumerate(lines):
        match = re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line)
        if match:
            found[index] = [part.strip().strip("\"'") for part in match[1].split(".")]
        elif re.match(r"\s*\[\[", line):
            found[index] = []
    return found


def _bounds(lines: list[str], headers: dict[int, list[str]], table: list[str]) -> tuple[int, int] | None:
    if not table:
        return 0, min(headers, default=len(lines))
    for index, name in headers.items():
        if name == table:
            return index + 1, min((other for other in headers if other > index), default=len(lines))
    return None


def _add_table(lines: list[str], headers: dict[int, list[str]], table: list[str], line: str) -> str:
    """Insert a table after the last one with the same parent."""
    related = [
        index for index, name in headers.items() if name[: len(table) - 1] == table[:-1] and len(table) > 1
    ]
    place = len(lines)
    if related:
        place = min((other for other in headers if other > related[-1]), default=len(lines))
    while place < len(lines) and lines[place - 1].lstrip().startswith("#"):
        place -= 1  # a comment above the next table
    while place and not lines[place - 1].strip():
        place -= 1
    header = f"[{'.'.join(map(_bare, table))}]\n"
    new = [*(["\n"] if place else []), header, line]
    return "".join([*lines[:place], *new, *lines[place:]])


def _end_of_value(lines: list[str], index: int, last: int) -> int:
    for end in range(index + 1, last + 1):
        try:
            tomllib.loads("".join(lines[index:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return index + 1


def _comment(line: str) -> str:
    """Return the comment of a line `key = value  # comment`, with the space before it."""
    for match in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: match.start()])
        except tomllib.TOMLDecodeError:
            continue
        return line[match.start() :].rstrip("\n")
    return ""
