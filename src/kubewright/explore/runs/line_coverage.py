"""Lines of the operator's code that runs reach.

Only functions in the modules of the operator are traced, with `sys.settrace`. Forked runs inherit the tracer
and report what they add.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.manager import Operator

if TYPE_CHECKING:
    from kubewright.explore.simulation.programs import ExploredProgram


def operator_files(operator: Operator | ExploredProgram) -> set[str]:
    """Return the files of the functions that an operator declares."""
    if not isinstance(operator, Operator):
        return set()
    handlers = (*operator.reconcilers, *operator.finalizers.values(), *operator.timers, *operator.daemons)
    found = {_file_of(each.function) for each in handlers}
    return {each for each in found if each}


class LineTracer:
    """Records executed lines of functions in some files."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self.lines: dict[str, set[int]] = {each: set() for each in self.files}

    def start(self) -> None:
        """Start to record in this thread."""
        sys.settrace(self._call)

    def stop(self) -> None:
        """Stop recording."""
        sys.settrace(None)

    def _call(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """Reached and unreached lines of the functions of a file."""

    file: str
    reached: int
    total: int
    missing: tuple[int, ...]

    def __str__(self) -> str:
        missing = f", not reached: {_ranges(self.missing)}" if self.missing else ""
        return f"{self.file}: {self.reached} of {self.total} lines{missing}"


def measure(lines: dict[str, set[int]]) -> list[FileCoverage]:
    """Compare reached lines with the lines of all functions of the files."""
    result = []
    for file in sorted(lines):
        expected = set(_function_lines(file))
        reached = expected & lines[file]
        missing = tuple(sorted(expected - reached))
        result.append(FileCoverage(file, len(reached), len(expected), missing))
    return result


def _function_lines(file: str) -> Iterator[int]:
    """Return the executable lines of functions, without their `def` lines."""
    try:
        module = compile(Path(file).read_text(), file, "exec")
    except (OSError, SyntaxError, ValueError):
        return
    stack = [module]
    while stack:
        code = stack.pop()
        stack.extend(each for each in code.co_consts if isinstance(each, types.CodeType))
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function, not a module or class body
            yield from (line for _, _, line in code.co_lines() if line and line > code.co_firstlineno)


def _file_of(function: Any) -> str:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code.co_filename if code is not None else ""


def _ranges(lines: Iterable[int]) -> str:
    groups: list[list[int]] = []
    for line in lines:
        if groups and line == groups[-1][-1] + 1:
            groups[-1].append(line)
        else:
            groups.append([line])
    return ", ".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in groups)
