"""Explains errors of constructors: `ConfigMap(date=...)` names the class, and suggests `data`.

The constructors of msgspec are written in C and raise `Unexpected keyword argument 'date'`. Another check
would make every constructor slower, so the explanation is found afterwards, where an error is shown: the
position of the failed call in the traceback gives its source, and the names in it give the class.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import linecache
import re
from types import CodeType, TracebackType
from typing import Any

import msgspec

_UNEXPECTED = re.compile(r"Unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"Missing required argument '(\w+)'")


def explain(error: BaseException) -> str:
    """Return which class has no such field, and which was probably meant; empty for other errors."""
    if type(error) is not TypeError:
        return ""
    match, missing = _UNEXPECTED.fullmatch(str(error)), _MISSING.fullmatch(str(error))
    if match is None and missing is None:
        return ""
    cls = _called_class(error.__traceback__)
    if cls is None:
        return ""
    if missing is not None:
        return f"{cls.__name__} requires {missing[1]}="
    assert match is not None
    names = [field.name for field in msgspec.structs.fields(cls)]
    close = difflib.get_close_matches(match[1], names, n=1)
    expected = f"did you mean {close[0]!r}?" if close else f"its fields are {', '.join(names)}"
    return f"{cls.__name__} has no field {match[1]!r}; {expected}"


def add_explanation(error: BaseException) -> None:
    """Add the explanation of an error as a note, which tracebacks show."""
    text = explain(error)
    if text and text not in getattr(error, "__notes__", ()):
        error.add_note(text)


def _called_class(step: TracebackType | None) -> type[msgspec.Struct] | None:
    """Return the class whose constructor was called by the innermost frame."""
    if step is None:
        return None
    while step.tb_next is not None:
        step = step.tb_next
    frame = step.tb_frame
    expression = _expression_at(frame.f_code, step.tb_lasti)
    if not isinstance(expression, ast.Call):
        return None
    names = []
    function = expression.func
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return None
    found: Any = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}.get(function.id)
    for name in reversed(names):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, msgspec.Struct) else None


def _expression_at(code: CodeType, instruction: int) -> ast.expr | None:
    """Return the expression of an instruction, if its source can be read."""
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    if positions is None or None in positions:
        return None
    first, last, start, end = positions
    assert first is not None and last is not None  # noqa: PT018
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"".join(lines).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
