"""Custom resources: definitions, and serving what they define."""

from __future__ import annotations

from .definitions import CustomResourceDefinitions

__all__ = ["CustomResourceDefinitions"]
