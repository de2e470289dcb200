"""Problems in type declarations, collected and raised together.

A problem has a location (file and line, and the path of the field on the wire), what is wrong and what to
write instead. Checks append to a list; `DeclarationError` reports all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One problem in a declaration."""

    where: str
    """`file:line`"""
    path: str
    """The field, such as `Guestbook.spec.size`."""
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.path}: {self.text}" if self.where else f"{self.path}: {self.text}"


class DeclarationError(ValueError):
    """Invalid types or declarations; prints one line per problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))
