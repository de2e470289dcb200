"""Exceptions of parsing, checking and evaluation.

    CelCompileError        the expression is rejected; `.issues` lists every problem with its position
      CelSyntaxError       it does not parse
      CelCheckError        it does not fit the declared types
    CelResultError         it is valid, but its result does not have the expected type
    CelError               evaluation failed: `str()` is the message of kube-apiserver
    CostExceeded           evaluation exceeded its budget; `&&` and `||` never absorb it

`str()` of a compile error is the text that Kubernetes prints after "compilation failed: ".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kubewright.cel.checking.types import Type

MAX_REPORTED = 100
MAX_SNIPPET = 16384


class Issue(NamedTuple):
    """One problem with its position; `line` counts from 1, `column` from 0 in code points."""

    line: int
    column: int
    message: str


class CelCompileError(ValueError):
    """The expression does not compile."""

    def __init__(self, source: str, issues: Sequence[Issue], total: int | None = None) -> None:
        self.source = source
        self.issues: tuple[Issue, ...] = tuple(sorted(issues, key=lambda issue: issue[:2]))[:MAX_REPORTED]
        self.total = len(issues) if total is None else total
        super().__init__(render(source, self.issues, self.total))


class CelSyntaxError(CelCompileError):
    """The expression does not parse."""


class CelCheckError(CelCompileError):
    """The expression does not match the declared variables, types and functions."""


class CelResultError(ValueError):
    """The result does not have the expected type."""

    def __init__(self, source: str, expected: Type, actual: Type) -> None:
        super().__init__(f"cel expression must evaluate to a {expected}")
        self.source = source
        self.expected = expected
        self.actual = actual


class CelError(Exception):
    """The evaluation failed; the message is the reason."""


class CostExceeded(Exception):
    """The evaluation was stopped because it used more than its budget."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def render(source: str, issues: Sequence[Issue], total: int) -> str:
    """Return all issues, each with its source line and a mark below its column."""
    lines = source.split("\n")
    parts = [_render_one(lines, issue) for issue in issues]
    if total > len(issues):
        parts.append(f"{total - len(issues)} more errors were truncated")
    return "\n".join(parts)


def _render_one(lines: list[str], issue: Issue) -> str:
    text = f"ERROR: <input>:{issue.line}:{issue.column + 1}: {issue.message}"
    if not 1 <= issue.line <= len(lines):
        return text
    snippet = lines[issue.line - 1].replace("\t", " ")
    if len(snippet.encode("utf-8", "surrogatepass")) > MAX_SNIPPET:
        return text
    before = "".join("." if char < "\x80" else "\uff0e" for char in snippet[: issue.column])
    mark = "\uff3e" if snippet[issue.column : issue.column + 1] >= "\x80" else "^"
    return f"{text}\n | {snippet}\n | {before}{mark}"
