"""The policy that both versions share."""

from __future__ import annotations

from enum import StrEnum


class ConcurrencyPolicy(StrEnum):
    """What to do when a run is due while another still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"
