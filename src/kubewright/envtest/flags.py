"""Command-line flags in the syntax of Go's pflag, which kube-apiserver uses.

A flag is `--name=value`, `--name value`, or `--name` for booleans; one letter can be an abbreviation (`-v=2`,
`-v2`). `_` in a name means `-`. Repeated flags append for lists and maps; otherwise the last one counts. The
module imports nothing that is slow to import: it runs before the server starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kubewright.api.times import Duration

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))

_PARSERS: Mapping[str, Callable[[str], object]] = {"int": int, "float": float, "duration": Duration}
_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "duration": "a duration such as 30s or 1m0s",
    "map": "key=value pairs, separated by commas",
}


class FlagError(Exception):
    """An unknown flag or a value of the wrong type; the text is for the user."""


class Flags:
    """The flags of one command line: values by name, in the order in which they were given."""

    def __init__(self, types: Mapping[str, str], values: Mapping[str, list[str]]) -> None:
        self._types = types
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def names(self) -> list[str]:
        """Return the names of the given flags, in order."""
        return list(self._values)

    def string(self, name: str, default: str = "") -> str:
        """Return the last value."""
        return self._values[name][-1] if name in self._values else default

    def strings(self, name: str) -> list[str]:
        """Return all values: separated by commas for a list, unchanged for an array."""
        values = self._values.get(name, [])
        if self._types.get(name) == "array":
            return list(values)
        return [word.strip() for text in values for word in text.split(",") if word.strip()]

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        return self._values[name][-1] in _TRUE if name in self._values else default

    def integer(self, name: str, default: int) -> int:
        """Return a whole number."""
        return int(self._values[name][-1]) if name in self._values else default

    def number(self, name: str, default: float) -> float:
        """Return a number."""
        return float(self._values[name][-1]) if name in self._values else default

    def seconds(self, name: str, default: float) -> float:
        """Return a duration in seconds."""
        return Duration(self._values[name][-1]).total_seconds() if name in self._values else default

    def mapping(self, name: str) -> dict[str, str]:
        """Return key=value pairs; a key without a value has an empty one."""
        pairs = (word.partition("=") for word in self.strings(name))
        return {key.strip(): value.strip() for key, _, value in pairs}


def parse_flags(
    arguments: Sequence[str], types: Mapping[str, str], *, abbreviations: Mapping[str, str] | None = None
) -> Flags:
    """Parse a command line; raises `FlagError`.

    `types` maps names to `bool`, `int`, `float`, `duration`, `string`, `list` (commas separate values),
    `array` (values are not separated) or `map`. `abbreviations` maps letters to names.
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
            raise FlagError(f"unknown flag: --{name}")
        if value is None:
            if kind == "bool":
                value = "true"
            elif rest:
                value = rest.pop()
            else:
                raise FlagError(f"flag needs an argument: --{name}")
        if not _is_valid(kind, value):
            raise FlagError(f'invalid argument "{value}" for "--{name}" flag: expected {_EXPECTED[kind]}')
        values.setdefault(name, []).append(value)
    if rest:
        raise FlagError(f"unexpected argument {rest[-1]!r}: only flags are accepted")
    return Flags(types, values)


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


def _is_valid(kind: str, value: str) -> bool:
    if kind == "bool":
        return value in _TRUE or value in _FALSE
    try:
        _PARSERS.get(kind, str)(value)
    except ValueError:
        return False
    return True


def mentions_flag(arguments: Sequence[str], *names: str) -> bool:
    """Whether one of these flags is on a command line, such as `--help`, before it is parsed."""
    return any(argument.partition("=")[0] in names for argument in arguments)
