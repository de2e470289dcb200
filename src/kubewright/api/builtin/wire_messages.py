"""Message descriptors: field numbers in protobuf, and which fields are always present in JSON.

A table has one line of text per message, which is parsed into a `Message` at first use. A line is a list of
fields joined by `;`, each `number name type`, followed by the name of the type in error messages if it
differs:

    1 name s!;2 volumeSource VolumeSource~;3 ports *ContainerPort;4 labels %s;5 replicas i?;6 mode s v1.Mode

The type is a letter, or the name of a message (of the same group version when it has no dots):

    s string   i, I integer of 32, 64 bits   b boolean   y bytes   d double
    q quantity   o int-or-string   t time   T time with microseconds   D duration   r raw JSON

`*` before the type repeats it, `%` makes it the value of a map with string keys. After the type:

    (nothing)  omitted from JSON if it has its zero value
    !          always in JSON, with its zero value if absent (`null` for lists, maps and times)
    ?          a pointer: in JSON if present, even if zero; `?!` is `null` if absent
    ~          embedded: its fields are inlined in JSON, and a separate message in protobuf

A line that starts with `=` describes a message that is a plain list in JSON, one with `|` a union that is one
of its fields; these fields have no names in the line (`Field.name` is empty, or the number).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

SCALARS: Final = frozenset("siIbydqotTDr")
_ZEROS: Final[dict[str, object]] = {"s": "", "i": 0, "I": 0, "b": False, "d": 0, "q": "0", "o": 0, "D": "0s"}
_LABELS: Final = {"": "", "*": "[]", "%": "map[string]"}
_TYPE_NAMES: Final = {
    "s": "string",
    "i": "int32",
    "I": "int64",
    "b": "bool",
    "y": "[]uint8",
    "d": "float64",
    "q": "resource.Quantity",
    "o": "intstr.IntOrString",
    "t": "v1.Time",
    "T": "v1.MicroTime",
    "D": "v1.Duration",
    "r": "runtime.RawExtension",
}


class Field(NamedTuple):
    """One field of a message."""

    number: int
    name: str
    type: str
    """A letter of `SCALARS`, or the full name of a message."""
    label: Literal["", "*", "%"]
    pointer: bool
    always: bool
    inline: bool
    type_name: str
    """Name of the type in error messages."""

    @property
    def zero(self) -> object:
        """The value in JSON of an absent field; not for structs."""
        return None if self.label or self.pointer else _ZEROS.get(self.type)


class Message(NamedTuple):
    """A message: its fields, and whether it is an object, a list or a union in JSON."""

    name: str
    shape: Literal["object", "list", "union"]
    fields: tuple[Field, ...]


class Messages:
    """Messages by name, parsed at first use."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines
        self._parsed: dict[str, Message] = {}

    def add(self, lines: Mapping[str, str]) -> None:
        """Add messages, such as those of custom kinds; raise `ValueError` if one has other fields already."""
        for name, line in lines.items():
            message = parse_message(name, line)
            if name in self and self[name] != message:
                raise ValueError(f"the protobuf message {name} exists with other fields")
            self._parsed[name] = message

    def __contains__(self, name: str) -> bool:
        return name in self._parsed or name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter({**self._lines, **self._parsed})

    def __getitem__(self, name: str) -> Message:
        """Return a message; raise `KeyError` if the table does not have it."""
        message = self._parsed.get(name)
        if message is None:
            message = self._parsed[name] = parse_message(name, self._lines[name])
        return message


def parse_message(name: str, line: str) -> Message:
    """Parse one line of a table."""
    shape: Literal["object", "list", "union"] = "object"
    if line[:1] in ("=", "|"):
        shape = "list" if line[0] == "=" else "union"
        line = line[1:]
    home = name.rpartition(".")[0]
    return Message(name, shape, tuple(_field(part, home, shape) for part in line.split(";") if part))


def _field(text: str, home: str, shape: str) -> Field:
    number, *rest = text.split(" ")
    if shape == "object":
        name, type_, *named = rest
    else:
        name, type_, named = number if shape == "union" else "", rest[0], []
    label: Literal["", "*", "%"] = ""
    if type_[0] == "*" or type_[0] == "%":
        label = "*" if type_[0] == "*" else "%"
        type_ = type_[1:]
    bare = type_.rstrip("!?~")
    flags = type_[len(bare) :]
    if bare not in SCALARS and "." not in bare:
        bare = f"{home}.{bare}"
    return Field(
        number=int(number),
        name=name,
        type=bare,
        label=label,
        pointer="?" in flags,
        always="!" in flags,
        inline="~" in flags,
        type_name=named[0] if named else _LABELS[label] + type_name(bare),
    )


def type_name(type_: str) -> str:
    """Return the default name of a type in error messages: `int32`, `v1.PodSpec`."""
    return _TYPE_NAMES.get(type_) or ".".join(type_.rsplit(".", 2)[-2:])
