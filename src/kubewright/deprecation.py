"""Warnings about names and options that are replaced."""

from __future__ import annotations

import warnings


def warn_deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that the caller of the calling function uses something deprecated, and name the replacement."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=stacklevel)


__all__ = ["warn_deprecated"]
