"""Errors in the declaration of a controller."""

from __future__ import annotations


class BuildError(ValueError):
    """The declaration of a controller is invalid; the message contains the correction."""
