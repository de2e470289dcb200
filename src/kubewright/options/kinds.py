"""Kinds of values: how the texts of a flag, or of a key in the config file, become the value of an option.

Functions raise `ValueError` with a text for the user: what is wrong, and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

_BOOLEANS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """How texts become a value."""

    type: str
    """Type of a flag of kube-apiserver: `string`, `int`, `float`, `bool`, `duration`, `list` (commas separate
    values), `array` (they do not) or `map`."""
    metavar: str
    example: str
    """A text that is valid."""
    parse: Callable[[str], Any] = str
    """Returns the value of one text."""
    combine: Callable[[list[Any]], Any] = tuple
    """Returns the value of an option that can be repeated."""

    @property
    def is_repeated(self) -> bool:
        """Whether the option can be given several times; else the last one counts."""
        return self.type in ("list", "array", "map")

    def read(self, texts: Sequence[str]) -> Any:
        """Return the value of an option; raises `ValueError`."""
        if not self.is_repeated:
            return self.parse(texts[-1])
        if self.type != "array":
            texts = [word.strip() for text in texts for word in text.split(",") if word.strip()]
        return self.combine([self.parse(text) for text in texts])

    def text(self, value: Any) -> str:
        """Return a value as in a flag; empty if it is not set."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, Mapping):
            value = [f"{key}={self.text(each)}" for key, each in value.items()]
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        if value in (None, b""):
            return ""
        return f"{value:g}s" if self.type == "duration" else str(value)


def parse_boolean(text: str) -> bool:
    """Return the boolean of a text, as Go parses it."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise ValueError(f"{text!r}: expected true or false")
    return value


def _number(convert: Callable[[str], Any], name: str, text: str) -> Any:
    try:
        return convert(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid {name}") from None


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration in Go's notation."""
    from kubewright.api.values.times import Duration

    try:
        return Duration(text).total_seconds()
    except ValueError:
        raise ValueError(f"{text!r}: expected a duration such as 30s") from None


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _new_file(text: str) -> Path:
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the directory {path.parent} of {path.name} does not exist")
    return path


def integer(low: int | None = None, high: int | None = None) -> Kind:
    """Return the kind of whole numbers in a range."""

    def parse(text: str) -> int:
        value: int = _number(int, "integer", text)
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"{'' if low is None else f'{low}<='}x{'' if high is None else f'<={high}'}"
            raise ValueError(f"{value} is not in the range {limits}")
        return value

    return Kind("int", "INTEGER", str(max(low or 0, 7)), parse)


def choice(what: str, values: Mapping[str, Any], use: str, *, type: str = "string") -> Kind:
    """Return the kind of a few texts and the values they stand for; `use` is the remedy."""

    def parse(text: str) -> Any:
        if text not in values:
            raise ValueError(f"unknown {what} {text!r}; use {use}")
        return values[text]

    return Kind(type, "A,B" if type == "list" else use.replace(" or ", "|"), list(values)[-1], parse)


TEXT: Final = Kind("string", "TEXT", "text")
INTEGER: Final = integer()
PORT: Final = integer(0, 65535)
NUMBER: Final = Kind("float", "FLOAT", "0.5", partial(_number, float, "float"))
BOOLEAN: Final = Kind("bool", "", "true", parse_boolean)
SECONDS: Final = Kind("duration", "DURATION", "1h0m0s", parse_seconds)
WHOLE_SECONDS: Final = Kind("duration", "DURATION", "2h", lambda text: int(parse_seconds(text)))
LIST: Final = Kind("list", "A,B", "a,b")
ARRAY: Final = Kind("array", "TEXT", "a")
MAP: Final = Kind("map", "KEY=VALUE,...", "a=b")
FILE: Final = Kind("string", "FILE", "file", _path)
FILES: Final = Kind("array", "FILE", "file", Path)
DIRECTORY: Final = Kind("string", "DIRECTORY", "directory", _path)
NEW_FILE: Final = Kind("string", "FILE", "file", _new_file)
BY_TYPE: Final = {each.type: each for each in (TEXT, INTEGER, NUMBER, BOOLEAN, SECONDS, LIST, ARRAY, MAP)}
