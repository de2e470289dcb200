"""The error of this package."""

from __future__ import annotations


class ScaffoldError(Exception):
    """Nothing was written; the message is one line with the reason and the next step."""
