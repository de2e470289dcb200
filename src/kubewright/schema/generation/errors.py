"""Mistakes in declarations, collected rather than raised one by one.

A problem says where it is (file and line, and the path of the field on the wire), what is wrong and what to
write instead. Whoever checks declarations adds to a list and, at the end, raises all of them as one
`DeclarationError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend."""

    where: str
    """`file:line`"""
    path: str
    """The field, such as `Guestbook.spec.size`."""
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.path}: {self.text}" if self.where else f"{self.path}: {self.text}"


class DeclarationError(ValueError):
    """Types or declarations with problems; prints one line per problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))
