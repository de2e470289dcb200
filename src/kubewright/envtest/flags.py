"""Command-line flags in the syntax of Go's pflag, which kube-apiserver uses.

A flag is `--name=value`, `--name value`, or `--name` for booleans; one letter can be an abbreviation (`-v=2`,
`-v2`). `_` in a name means `-`. Repeated flags append for lists and maps; otherwise the last one counts. The
module imports nothing that is slow to import: it runs before the server starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.options.kinds import BY_TYPE, Kind

_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "duration": "a duration such as 30s or 1m0s",
}


class FlagError(Exception):
    """An unknown flag or a value of the wrong type; the text is for the user."""


class Flags:
    """The flags of one command line: values by name, in the order in which they were given."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def names(self) -> list[str]:
        """Return the names of the given flags, in order."""
        return list(self._values)

    def read(self, name: str, kind: Kind, default: Any) -> Any:
        """Return the value of a flag; raises `ValueError`."""
        return kind.read(self._values[name]) if name in self._values else default


def parse_flags(
    arguments: Sequence[str],
    types: Mapping[str, str],
    *,
    abbreviations: Mapping[str, str] | None = None,
    other_names: Mapping[str, str] | None = None,
) -> Flags:
    """Parse a command line; raises `FlagError`.

    `types` maps names to `bool`, `int`, `float`, `duration`, `string`, `list` (commas separate values),
    `array` (values are not separated) or `map`. `abbreviations` maps letters to names,
    `other_names` unknown flags to those that the error suggests.
    """
    values: dict[str, list[str]] = {}
    rest = list(reversed(arguments))
    while rest:
        argument = rest.pop()
        if argument == "--":
            break
        name, value = _split(argument, abbreviations or {})
        kind = types.get(name)
        if kind is None:
            hint = f"; use --{other_names[name]}" if other_names and name in other_names else ""
            raise FlagError(f"unknown flag: --{name}{hint}")
        if value is None:
            if kind == "bool":
                value = "true"
            elif rest:
                value = rest.pop()
            else:
                raise FlagError(f"flag needs an argument: --{name}")
        try:
            BY_TYPE[kind].read([value])
        except ValueError:
            message = f'invalid argument "{value}" for "--{name}" flag: expected {_EXPECTED[kind]}'
            raise FlagError(message) from None
        values.setdefault(name, []).append(value)
    if rest:
        raise FlagError(f"unexpected argument {rest[-1]!r}: only flags are accepted")
    return Flags(values)


def _split(argument: str, abbreviations: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the name and the value in one argument; `None` if it has no value."""
    if argument.startswith("--"):
        name, equals, value = argument[2:].partition("=")
        return name.replace("_", "-"), value if equals else None
    if argument.startswith("-") and len(argument) > 1:
        name, value = abbreviations.get(argument[1], ""), argument[2:]
        if not name:
            raise FlagError(f"unknown shorthand flag: '{argument[1]}' in {argument}")
        return name, value.removeprefix("=") if value else None
    raise FlagError(f"unexpected argument {argument!r}: only flags are accepted")


def mentions_flag(arguments: Sequence[str], *names: str) -> bool:
    """Whether one of these flags is on a command line, such as `--help`, before it is parsed."""
    return any(argument.partition("=")[0] in names for argument in arguments)
