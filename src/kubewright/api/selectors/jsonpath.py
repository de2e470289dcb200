r"""JSONPath in the dialect of kubectl, for plain data, structs and unstructured objects.

A template is text with actions in braces; `JSONPath.relaxed` also accepts a bare path:

    {.items[0].metadata.name}            fields and indices; negative indices count from the end
    {.items[*].spec}  {.spec.*}          every item, every value
    {.items[0:6:2]}   {.items[0,3]}      slices with a step, unions
    {.items[?(@.kind=="Pod")]}           filters: == != < <= > >=, or a path alone to test for existence
    {..image}                            recursive descent
    {.metadata.annotations.a\.b/c}       a backslash escapes a dot, also in ['a\.b']
    {range .items[*]}{.kind}{"\n"}{end}  loops, with text in and between actions

`$` and `@` both mean the current value. A filter is one comparison: kubectl has no `&&` and `||`, chain
filters instead. A missing key is an error unless `allow_missing_keys` is set; comparing different types is an
error. A range without an end extends to the end of the text. The length of the expression and the number of
results are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.api.encoding.codec import to_plain

from .jsonpath_steps import (
    JSONPathError,
    Step,
    Values,
    constant,
    descend,
    field,
    identifier,
    item_filter,
    item_slice,
    literal,
    text_of,
    union,
    walk,
    wildcard,
)

MAX_LENGTH: Final = 16_384
MAX_NESTING: Final = 64


class JSONPath:
    """A compiled template."""

    __slots__ = ("_segments", "allow_missing_keys", "text")

    def __init__(self, text: str, *, allow_missing_keys: bool = False) -> None:
        self.text = text
        self.allow_missing_keys = allow_missing_keys
        self._segments = _compile_template(text)

    @classmethod
    def relaxed(cls, path: str, *, allow_missing_keys: bool = False) -> JSONPath:
        """Compile `a.b`, `.a.b`, `{a.b}` or `{.a.b}`, the forms of columns and sort keys."""
        if not path:
            return cls("", allow_missing_keys=allow_missing_keys)
        inner = path[1:-1] if path[:1] == "{" and path[-1:] == "}" else path
        inner = inner.removeprefix(".")
        if not inner or "{" in inner or "}" in inner:
            raise JSONPathError(
                "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' "
                "or '{.name1.name2}'"
            )
        return cls(f"{{.{inner}}}", allow_missing_keys=allow_missing_keys)

    def find(self, data: Any) -> list[Values]:
        """Return the values of each action and text in order, with loops unrolled."""
        return list(_run(self._segments, [_plain(data)], self.allow_missing_keys))

    def values(self, data: Any) -> Values:
        """Return all values in one list."""
        return [value for group in self.find(data) for value in group]

    def first(self, data: Any, default: Any = None) -> Any:
        """Return the first value, or `default`."""
        return next((value for group in self.find(data) for value in group), default)

    def render(self, data: Any) -> str:
        """Return the text that kubectl prints; values of one action are separated by spaces."""
        return "".join(" ".join(map(text_of, group)) for group in self.find(data))

    def __repr__(self) -> str:
        return f"JSONPath({self.text!r})"


class _Loop:
    """`{range steps}body{end}`."""

    __slots__ = ("body", "steps")

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.body: list[_Segment] = []


_Segment: TypeAlias = "list[Step] | _Loop"


def _run(segments: Sequence[_Segment], current: Values, lenient: bool) -> Iterable[Values]:
    for segment in segments:
        if isinstance(segment, _Loop):
            for value in walk(segment.steps, current, lenient):
                yield from _run(segment.body, [value], lenient)
        else:
            yield walk(segment, current, lenient)


def _plain(data: Any) -> Any:
    if isinstance(data, msgspec.Struct):
        return to_plain(data)
    to_wire = getattr(data, "__to_wire__", None)
    return to_wire() if to_wire is not None else data


_SPACES: Final = " \t"
_LINE_ENDS: Final = "\r\n"
_TERMINATORS: Final = frozenset(_SPACES + _LINE_ENDS + ".,[]$@{}")
_DICT_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?", re.ASCII)
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.ASCII)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))|[^\\]",
    re.DOTALL,
)
_PLAIN_ESCAPES: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


def _compile_template(text: str) -> list[_Segment]:
    if len(text) > MAX_LENGTH:
        raise JSONPathError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    root: list[_Segment] = []
    open_blocks: list[list[_Segment]] = [root]
    position = 0
    while position < len(text):
        brace = text.find("{", position)
        if brace != position:
            end = len(text) if brace < 0 else brace
            open_blocks[-1].append([literal(text[position:end])])
            position = end
            continue
        action = _Action(text, brace + 1)
        position = action.position
        if action.opens_range:
            loop = _Loop(action.steps)
            open_blocks[-1].append(loop)
            open_blocks.append(loop.body)
            if len(open_blocks) > MAX_NESTING:
                raise JSONPathError(f"ranges are nested more than {MAX_NESTING} deep")
        elif action.closes_range and len(open_blocks) > 1:
            open_blocks.pop()
        else:
            open_blocks[-1].append([identifier("end")] if action.closes_range else action.steps)
    return root


def _compile_action(text: str) -> list[Step]:
    """Compile the text between two braces."""
    action = _Action(text + "}", 0)
    if action.opens_range or action.closes_range:
        raise JSONPathError("a range is not allowed inside another expression")
    return action.steps


class _Action:
    """Parser of one action, from after its opening brace to after its closing brace."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.steps: list[Step] = []
        self.opens_range = False
        self.closes_range = False
        while not self._next_part():
            pass

    def _next_part(self) -> bool:
        """Parse one part; return true at the closing brace."""
        text, position = self.text, self.position
        char = text[position : position + 1]
        if char == "" or char in _LINE_ENDS:
            raise JSONPathError("unclosed action")
        if char == "}":
            self.position += 1
            return True
        if text.startswith("[?(", position):
            self._read_filter()
        elif text.startswith("..", position):
            self._read_descent()
        elif char in " @$":
            self.position += 1
        elif char == "[":
            self._read_brackets()
        elif char in "\"'":
            self._read_quoted(char)
        elif char == ".":
            self.position += 1
            self._read_field()
        elif char in "+-" or char.isdecimal():
            self._read_number()
        elif char == "_" or char.isalnum():
            self._read_identifier()
        else:
            raise JSONPathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")
        return False

    def _read_descent(self) -> None:
        if self.steps and self.steps[-1] is descend:
            raise JSONPathError("invalid multiple recursive descent")
        self.position += 2
        self.steps.append(descend)
        following = self.text[self.position : self.position + 1]
        if following == "_" or following.isalnum():
            self._read_field()

    def _read_field(self) -> None:
        text, start = self.text, self.position
        position = start
        while position < len(text) and text[position] not in _TERMINATORS:
            position += 2 if text[position] == "\\" else 1
        self.position = min(position, len(text))
        name = text[start : self.position]
        self.steps.append(wildcard if name == "*" else field(name.replace("\\", "")))

    def _read_identifier(self) -> None:
        text, start = self.text, self.position
        while self.position < len(text) and text[self.position] not in _TERMINATORS:
            self.position += 1
        name = text[start : self.position]
        if name in ("true", "false"):
            self.steps.append(constant(name == "true"))
        elif name == "range":
            self.opens_range = True
        elif name == "end":
            self.closes_range = True
        else:
            self.steps.append(identifier(name))

    def _read_number(self) -> None:
        text, start = self.text, self.position
        self.position += 1
        while self.position < len(text) and (text[self.position] == "." or text[self.position].isdecimal()):
            self.position += 1
        number = text[start : self.position]
        if _NUMBER.fullmatch(number) and len(number) < 20:
            self.steps.append(constant(int(number)))
        elif _DECIMAL.fullmatch(number):
            self.steps.append(constant(float(number)))
        else:
            raise JSONPathError(f"cannot parse number {number}")

    def _read_quoted(self, quote: str) -> None:
        text, start = self.text, self.position
        position = start
        while True:
            position += 1
            if position >= len(text) or text[position] == "\n":
                raise JSONPathError("unterminated quoted string")
            if text[position] == quote and text[position - 1] != "\\":
                break
        self.position = position + 1
        self.steps.append(literal(_unquote(text[start : self.position])))

    def _read_brackets(self) -> None:
        start = self.position
        end = self.text.find("]", start)
        if end < 0 or "\n" in self.text[start:end]:
            raise JSONPathError("unterminated array")
        self.position = end + 1
        inner = self.text[start + 1 : end]
        if "," in inner:
            branches = [_compile_action(f"[{part.strip(' ')}]") for part in inner.split(",")]
            self.steps.append(union(branches))
            return
        key = _DICT_KEY.fullmatch(inner)
        if key is not None:
            self.steps.extend(_compile_action(f".{key[1]}"))
        else:
            self.steps.append(_read_slice(":" if inner == "*" else inner))

    def _read_filter(self) -> None:
        text = self.text
        start = self.position + len("[?(")
        position, quote, closed = start, "", False
        while True:
            char = text[position : position + 1]
            if char in ("", "\n"):
                raise JSONPathError("unterminated filter")
            if char in "\"'":
                if not quote:
                    quote = char
                elif text[position - 1] != "\\" and char == quote:
                    closed = True
            elif char == ")" and bool(quote) == closed:
                break
            position += 1
        if text[position + 1 : position + 2] != "]":
            raise JSONPathError("unclosed array expect ]")
        inner = text[start:position]
        self.position = position + 2
        comparison = _COMPARISON.fullmatch(inner)
        if comparison is None:
            self.steps.append(item_filter(_compile_action(inner), "", []))
        else:
            left, name, right = comparison.groups()
            self.steps.append(item_filter(_compile_action(left), name, _compile_action(right)))


def _read_slice(text: str) -> Step:
    parts = _SLICE.fullmatch(text)
    if parts is None:
        raise JSONPathError(f"invalid array index {text}")
    bounds: list[int | None] = []
    for part in parts.groups(default=""):
        digits = part.removeprefix(":")
        if digits == "-" or len(digits) > 18:
            raise JSONPathError(f"array index {digits} is not a number")
        bounds.append(int(digits) if digits else None)
    start, stop, stride = bounds
    return item_slice(start, stop, stride, single=not parts[2])


def _unquote(quoted: str) -> str:
    quote, inner = quoted[0], quoted[1:-1]
    if "\\" not in inner:
        return inner
    result: list[str] = []
    position = 0
    while position < len(inner):
        match = _ESCAPE.match(inner, position)
        plain = match[1] if match is not None else None
        if match is None or match[0] == quote or (plain in ("'", '"') and plain != quote):
            raise JSONPathError(f"unquote string {quoted} error invalid syntax")
        position = match.end()
        if plain:
            result.append(_PLAIN_ESCAPES[plain])
            continue
        point = match[2] or match[4] or match[5]
        number = int(point, 16) if point else int(match[3], 8) if match[3] else None
        if number is None:
            result.append(match[0])
        elif number > 0x10FFFF or 0xD800 <= number < 0xE000 or (match[3] and number > 255):
            raise JSONPathError(f"unquote string {quoted} error invalid syntax")
        else:
            result.append(chr(number))
    return "".join(result)
