"""What a server's own types do to objects: numbers in protobuf, and which fields JSON always shows.

A table names every message and describes it in one line of text; this module turns such a line into `Message`
at the first use. A line is fields joined by `;`, each `number name type`, and where errors call the type by
another name, that name:

    1 name s!;2 volumeSource VolumeSource~;3 ports *ContainerPort;4 labels %s;5 replicas i?;6 mode s v1.Mode

The type is a letter, or the name of a message (of the same group version when it has no dots):

    s string   i, I integer of 32, 64 bits   b boolean   y bytes   d double
    q quantity   o int-or-string   t time   T time with microseconds   D duration   r raw JSON

`*` before the type repeats it, `%` makes it the value of a map with string keys. After the type:

    (nothing)  left out of JSON when it has its zero value
    !          always in JSON: its zero value when absent (`null` for lists, maps and times)
    ?          a pointer: in JSON when present, even if zero; `?!` is `null` when absent
    ~          its fields are those of the enclosing object in JSON, a message of its own in protobuf

A line that starts with `=` is a message that is a bare list in JSON, with `|` one that is any of its fields;
those fields have no names on the line (`Field.name` is then empty, or the number).
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """What error messages call the type."""

    @property
    def zero(self) -> object:
        """The value that JSON shows when the field is absent; structs aside, which are their own zero."""
        return None if self.label or self.pointer else _ZEROS.get(self.type)


class Message(NamedTuple):
    """One message: its fields, and whether JSON shows it as an object, a bare list or one of its fields."""

    name: str
    shape: Literal["object", "list", "union"]
    fields: tuple[Field, ...]


class Messages:
    """Messages by name, parsed from their lines when they are first asked for."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines
        self._parsed: dict[str, Message] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def __getitem__(self, name: str) -> Message:
        """The message of that name; `KeyError` when the table has none."""
        message = self._parsed.get(name)
        if message is None:
            message = self._parsed[name] = parse_message(name, self._lines[name])
        return message


def parse_message(name: str, line: str) -> Message:
    """Read one line of a table."""
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
    """What error messages call a type that has no other name: `int32`, `v1.PodSpec`."""
    return _TYPE_NAMES.get(type_) or ".".join(type_.rsplit(".", 2)[-2:])


__all__ = ["SCALARS", "Field", "Message", "Messages", "parse_message", "type_name"]
