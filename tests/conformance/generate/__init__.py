"""Cases that are built from the minimal valid object of each built-in kind."""

from __future__ import annotations

from tests.conformance.cases import Case


def generate_cases() -> list[Case]:
    """Build every generated case, sorted by name."""
    return []
