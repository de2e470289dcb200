"""Functions on strings: searching, cutting, changing case, joining, quoting, `format`.

Positions and lengths count code points. The size of results is limited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from kubewright.cel.checking.types import Kind, Type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.conversions import string_of_double
from kubewright.cel.library.regex import matches
from kubewright.cel.library.time import format_duration, format_timestamp
from kubewright.cel.values import DurationValue, TimestampValue, TypeValue, UInt, type_of_value

MAX_RESULT: Final = 10_000_000
"""Maximum length of a string that one call creates; larger than the cost limit allows to read."""
_MAX_PRECISION: Final = 1000
_PRECISION: Final = "could not parse formatting clause: error while parsing precision: "
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_SUPERSCRIPT: Final = str.maketrans(
    "0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
)
_SHOWABLE: Final = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_HEXADECIMAL: Final = "only integers, byte buffers, and strings can be formatted as hex"
_LOWER: Final = {code: code + 32 for code in range(65, 91)}
_UPPER: Final = {code: code - 32 for code in range(97, 123)}


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def bounded(size: int) -> None:
    """Raise `CelError` if the result would exceed the size limit."""
    if size > MAX_RESULT:
        raise CelError(f"string size {size} exceeds limit {MAX_RESULT}")


def char_at(text: str, index: int) -> str:
    """`text.charAt(index)`."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """`text.indexOf(part, offset)`."""
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """`text.lastIndexOf(part, offset)`: the last place that starts at or before the offset."""
    if offset is None:
        return text.rfind(part) if part else len(text)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def lower_ascii(text: str) -> str:
    """`text.lowerAscii()`."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """`text.upperAscii()`."""
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """`text.replace(old, new, limit)`."""
    found = text.count(old)
    if limit >= 0:
        found = min(found, limit)
    bounded(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, limit if limit >= 0 else -1)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """`text.split(separator, limit)`."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    """`text.substring(start, end)`."""
    if end is None:
        end = len(text)
    elif start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def trim(text: str) -> str:
    """`text.trim()`."""
    return text.strip(_SPACE)


def reverse(text: str) -> str:
    """`text.reverse()`."""
    return text[::-1]


def join(items: list[Any], separator: str = "") -> str:
    """`items.join(separator)`."""
    for item in items:
        if type(item) is not str:
            raise CelError(f"join: invalid input: {item}")
    bounded(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def quote(text: str) -> str:
    """`strings.quote(text)`."""
    return f'"{text.translate(_QUOTED)}"'


def _check_shown_size(value: Any) -> None:
    """Raise `CelError` if the text of a list or map would exceed the limit, without creating it."""
    stack, size = [value], 0
    while stack:
        item = stack.pop()
        size += len(item) if isinstance(item, str | bytes) else 16
        bounded(size)
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())


def _show(value: Any, *, nested: bool = False) -> str:
    if not nested and isinstance(value, list | dict):
        _check_shown_size(value)
    if type(value) is str:
        return quote(value) if nested else value
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if type(value) is float:
        if not nested:
            return string_of_double(value)
        return f"{value:.6f}" if math.isfinite(value) else f'"{string_of_double(value)}"'
    if type(value) is bytes:
        text = value.decode("utf-8", "replace")
        return f"b{quote(text)}" if nested else text
    if isinstance(value, TimestampValue):
        return f'timestamp("{format_timestamp(value)}")' if nested else format_timestamp(value)
    if isinstance(value, DurationValue):
        return f'duration("{format_duration(value)}")' if nested else format_duration(value)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(_show(item, nested=True) for item in value)}]"
    if isinstance(value, dict):
        return _show_map(value)
    raise CelError(
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles,"
        f" maps, lists, types, durations, and timestamps, was given {type_of_value(value).name}"
    )


def _show_map(value: dict[Any, Any]) -> str:
    pairs = []
    for key, item in value.items():
        if type(key) not in (str, bool, int, UInt):
            raise CelError(f"no formatting function for map key of type {type_of_value(key).name}")
        pairs.append((_show(key, nested=True), _show(item, nested=True)))
    return f"{{{', '.join(f'{key}:{item}' for key, item in sorted(pairs))}}}"


def _decimal(value: Any) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise _clause_error("decimal", "integers", value)


def _clause_error(clause: str, takes: str, value: Any) -> CelError:
    kind = type_of_value(value).name
    return CelError(f"error during formatting: {clause} clause can only be used on {takes}, was given {kind}")


def _number(value: Any, clause: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _clause_error(clause, "doubles", value)


def _fixed(value: Any, precision: int) -> str:
    number = _number(value, "fixed-point")
    if precision > _MAX_PRECISION:
        raise CelError(f"precision {precision} exceeds maximum allowed precision {_MAX_PRECISION}")
    return f"{number:,.{precision}f}" if math.isfinite(number) else _special(number)


def _scientific(value: Any, precision: int) -> str:
    """Always six digits: in Kubernetes the precision of this clause is a width."""
    number = _number(value, "scientific")
    if precision > _MAX_PRECISION:
        raise CelError(f"precision {precision} exceeds maximum allowed precision {_MAX_PRECISION}")
    if not math.isfinite(number):
        return _special(number)
    mantissa, _, exponent = f"{number:.6e}".partition("e")
    text = f"{mantissa}\u00d710{exponent.lstrip('+').translate(_SUPERSCRIPT)}"
    return text.rjust(precision)


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "\u221e" if number > 0 else "-\u221e"


def _binary(value: Any) -> str:
    if type(value) is bool:
        return "1" if value else "0"
    if isinstance(value, int):
        return f"{int(value):b}"
    raise CelError(
        "error during formatting: only integers and bools can be formatted as binary,"
        f" was given {type_of_value(value).name}"
    )


def _hexadecimal(value: Any) -> str:
    if type(value) is str:
        return value.encode().hex()
    if type(value) is bytes:
        return value.hex()
    if isinstance(value, int) and type(value) is not bool:
        return f"{int(value):x}"
    raise CelError(
        "error during formatting: only integers, byte buffers, and strings can be formatted as hex,"
        f" was given {type_of_value(value).name}"
    )


def _octal(value: Any) -> str:
    if isinstance(value, int) and type(value) is not bool:
        return f"{int(value):o}"
    raise _clause_error("octal", "integers", value)


def format_string(template: str, args: list[Any]) -> str:
    """`template.format(args)`."""
    parts: list[str] = []
    size = 0
    position = 0
    used = 0
    while True:
        percent = template.find("%", position)
        if percent < 0:
            parts.append(template[position:])
            return "".join(parts)
        parts.append(template[position:percent])
        position = percent + 1
        if template.startswith("%", position):
            parts.append("%")
            position += 1
            continue
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        if position >= len(template):
            raise CelError("unexpected end of string")
        precision, position = _precision(template, position)
        text = _clause(template[position : position + 1], precision, args[used])
        size += len(text)
        bounded(size)
        parts.append(text)
        used += 1
        position += 1


def format_clauses(template: str) -> Iterator[str]:
    """Return the clause letters of a template; raise `CelError` for an invalid clause."""
    position = 0
    while (position := template.find("%", position)) >= 0:
        position += 1
        if position >= len(template):
            raise CelError("unexpected end of string")
        if template[position] != "%":
            _, position = _precision(template, position)
            letter = template[position : position + 1]
            if letter not in _CLAUSES:
                raise CelError(
                    f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
                )
            yield letter
        position += 1


_INTEGERS: Final = frozenset({Kind.INT, Kind.UINT})
_CLAUSES: Final[dict[str, tuple[frozenset[Kind], str]]] = {
    "s": (frozenset(Kind) - {Kind.OPAQUE, Kind.OBJECT}, "string clause can only be used on " + _SHOWABLE),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (frozenset({Kind.DOUBLE}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({Kind.DOUBLE}), "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {Kind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": (_INTEGERS | {Kind.STRING, Kind.BYTES}, _HEXADECIMAL),
    "X": (_INTEGERS | {Kind.STRING, Kind.BYTES}, _HEXADECIMAL),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}


def clause_problem(letter: str, item: Type) -> str | None:
    """Return why a clause cannot format values of a type, or an empty string."""
    kinds, rule = _CLAUSES[letter]
    if item.kind in kinds or item.kind <= Kind.DYN:
        return None
    return f"{rule}, was given {item}"


def _precision(template: str, position: int) -> tuple[int, int]:
    if template[position] != ".":
        return 6, position
    end = position + 1
    while end < len(template) and template[end].isdigit() and template[end].isascii():
        end += 1
    if end >= len(template):
        raise CelError(f"{_PRECISION}could not find end of precision specifier")
    digits = template[position + 1 : end]
    if not digits or len(digits.lstrip("0")) > 18:
        reason = "value out of range" if digits else "invalid syntax"
        shown = f'strconv.Atoi: parsing "{digits}": {reason}'
        raise CelError(f"{_PRECISION}error while converting precision to integer: {shown}")
    return int(digits), end


def _clause(letter: str, precision: int, value: Any) -> str:
    if letter == "s":
        return _show(value)
    if letter == "d":
        return _decimal(value)
    if letter == "f":
        return _fixed(value, precision)
    if letter == "e":
        return _scientific(value, precision)
    if letter == "b":
        return _binary(value)
    if letter == "x":
        return _hexadecimal(value)
    if letter == "X":
        return _hexadecimal(value).upper()
    if letter == "o":
        return _octal(value)
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')


def contains(text: str, part: str) -> bool:
    """`text.contains(part)`."""
    return part in text


def add_bounded(left: Any, right: Any) -> Any:
    """`left + right` of strings or bytes."""
    bounded(len(left) + len(right))
    return left + right


OVERLOADS: Final[list[Overload]] = [
    overload("contains", "contains_string", "string.(string) -> bool", contains),
    overload("endsWith", "ends_with_string", "string.(string) -> bool", str.endswith),
    overload("startsWith", "starts_with_string", "string.(string) -> bool", str.startswith),
    overload("matches", "matches", "(string, string) -> bool", matches),
    overload("matches", "matches_string", "string.(string) -> bool", matches),
    overload("charAt", "string_char_at_int", "string.(int) -> string", char_at),
    overload("indexOf", "string_index_of_string", "string.(string) -> int", index_of),
    overload("indexOf", "string_index_of_string_int", "string.(string, int) -> int", index_of),
    overload("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", last_index_of),
    overload("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int", last_index_of),
    overload("lowerAscii", "string_lower_ascii", "string.() -> string", lower_ascii),
    overload("replace", "string_replace_string_string", "string.(string, string) -> string", replace),
    overload(
        "replace", "string_replace_string_string_int", "string.(string, string, int) -> string", replace
    ),
    overload("split", "string_split_string", "string.(string) -> list(string)", split),
    overload("split", "string_split_string_int", "string.(string, int) -> list(string)", split),
    overload("substring", "string_substring_int", "string.(int) -> string", substring),
    overload("substring", "string_substring_int_int", "string.(int, int) -> string", substring),
    overload("trim", "string_trim", "string.() -> string", trim),
    overload("upperAscii", "string_upper_ascii", "string.() -> string", upper_ascii),
    overload("format", "string_format", "string.(list(dyn)) -> string", format_string),
    overload("strings.quote", "strings_quote", "(string) -> string", quote),
    overload("join", "list_join", "list(string).() -> string", join),
    overload("join", "list_join_string", "list(string).(string) -> string", join),
]
