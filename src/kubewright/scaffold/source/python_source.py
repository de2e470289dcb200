"""Layout of generated Python code, in the style of `ruff format`.

An expression is a string, a `Text` (a string literal that may be split over lines) or a `Group` (a call, a
subscript or a literal). `render` writes it in one line if it fits, otherwise with the items of the outermost
group on lines of their own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

WIDTH: Final = 110
"""Maximum length of a line."""
_INDENT: Final = "    "


@dataclass(frozen=True)
class Text:
    """A string literal, after a prefix such as `message=`."""

    value: str
    prefix: str = ""


@dataclass(frozen=True)
class Group:
    """Items between brackets; `open` and `close` include what precedes and follows the brackets."""

    open: str
    items: tuple[Expression, ...]
    close: str

    @property
    def is_literal(self) -> bool:
        """Whether it is a list, dict or tuple, not a call or subscript."""
        before = self.open[-2:-1]
        return not (before.isalnum() or before in ("_", "]"))


Expression = str | Text | Group


def call(name: str, *items: Expression) -> Group:
    """Return a call, or a subscript if `name` ends with a square bracket."""
    if name.endswith("["):
        return Group(name, items, "]")
    return Group(f"{name}(", items, ")")


def quote(text: str) -> str:
    """Return a Python string literal, with double quotes unless that needs more escapes."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    body = "".join(
        f"\\{char}" if char == mark else char if char in "'\"" else repr(char)[1:-1] for char in text
    )
    return f"{mark}{body}{mark}"


def value(data: Any, prefix: str = "") -> Expression:
    """Return plain JSON data as a Python literal."""
    if isinstance(data, str):
        return Text(data, prefix)
    if isinstance(data, Mapping):
        items = tuple(value(item, f"{quote(key)}: ") for key, item in data.items())
        return Group(f"{prefix}{{", items, "}")
    if isinstance(data, list):
        return Group(f"{prefix}[", tuple(value(item) for item in data), "]")
    return f"{prefix}{data!r}"


def strings(prefix: str, words: Iterable[str]) -> Expression:
    """Return a tuple of strings."""
    items = tuple(Text(word) for word in words)
    return Group(f"{prefix}(", items, ",)" if len(items) == 1 else ")")


def prefixed(expression: Expression, prefix: str) -> Expression:
    """Return an expression after a prefix such as `name=`."""
    if isinstance(expression, Text):
        return Text(expression.value, prefix + expression.prefix)
    if isinstance(expression, Group):
        return Group(prefix + expression.open, expression.items, expression.close)
    return prefix + expression


def suffixed(expression: Expression, suffix: str) -> Expression:
    """Return an expression before a suffix such as ` | None`."""
    if isinstance(expression, Group):
        return Group(expression.open, expression.items, expression.close + suffix)
    return flat(expression) + suffix


def flat(expression: Expression) -> str:
    """Return an expression in one line."""
    if isinstance(expression, str):
        return expression
    if isinstance(expression, Text):
        return expression.prefix + quote(expression.value)
    return expression.open + ", ".join(flat(item) for item in expression.items) + expression.close


def render(expression: Expression, indent: str = "", suffix: str = "") -> str:
    """Return an expression between `indent` and `suffix`, in several lines if it is too long for one."""
    line = flat(expression)
    if len(indent) + len(line) + len(suffix) <= WIDTH or isinstance(expression, str):
        return line + suffix
    if isinstance(expression, Text):
        return _split(expression, indent, WIDTH - len(suffix)) + suffix
    if not expression.items:
        return line + suffix
    deeper = indent + _INDENT
    close = expression.close.removeprefix(",")
    items = ", ".join(flat(item) for item in expression.items)
    if not expression.is_literal and len(deeper) + len(items) <= WIDTH:
        return f"{expression.open}\n{deeper}{items}\n{indent}{close}{suffix}"
    only_text = len(expression.items) == 1 and isinstance(expression.items[0], Text)
    comma = "" if only_text and not expression.is_literal else ","
    lines = "".join(f"{deeper}{render(item, deeper, comma)}\n" for item in expression.items)
    if suffix == ",":
        close = close.replace(" | None", f"\n{indent}| None")
    return f"{expression.open}\n{lines}{indent}{close}{suffix}"


def _split(text: Text, indent: str, width: int) -> str:
    """Return a long string as adjacent literals on several lines."""
    space = max(width - len(indent) - len(text.prefix) - 4, 20)
    parts: list[str] = []
    part = ""
    for word in _parts(text.value, space):
        if part and len(quote(part + word)) > space:
            parts.append(part)
            part = ""
        part += word
    parts.append(part)
    return text.prefix + f"\n{indent}".join(quote(each) for each in parts)


def _parts(text: str, space: int) -> Iterable[str]:
    """Return a text in parts that end after a space, none longer than half of `space`."""
    for word in text.replace(" ", " \0").split("\0"):
        step = space // 2
        if len(word) <= step:
            yield word
        else:
            yield from (word[start : start + step] for start in range(0, len(word), step))


def docstring(text: str, indent: str = _INDENT) -> str:
    """Return a docstring whose lines are wrapped, with its indentation and a newline."""
    escaped = "".join(_escape(char) for char in text).replace('"""', '\\"\\"\\"')
    lines: list[str] = []
    for line in escaped.strip().splitlines():
        wrapped = textwrap.wrap(
            line.rstrip(), WIDTH - len(indent) - 8, break_long_words=False, break_on_hyphens=False
        )
        lines.extend(wrapped or [""])
    if not lines:
        return ""
    if len(lines) == 1:
        start, end = lines[0][:-1], lines[0][-1]
        is_escaped = (len(start) - len(start.rstrip("\\"))) % 2 == 1
        return f'{indent}"""{start}{"" if end != chr(34) or is_escaped else chr(92)}{end}"""\n'
    body = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines[1:])
    return f'{indent}"""{lines[0]}\n{body}{indent}"""\n'


def _escape(char: str) -> str:
    """Return a character of a docstring; control characters are written as escapes."""
    return char if char in "\n\t'\"" or (char.isprintable() and char != "\\") else repr(char)[1:-1]
