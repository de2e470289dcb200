"""The policy that both versions share."""

from __future__ import annotations

from enum import StrEnum


class ConcurrencyPolicy(StrEnum):
    """How to treat concurrent runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"
