"""Other API servers behind this one: APIServices, their availability, and the way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aggregator import Aggregator

__all__ = ["Aggregator"]


def __getattr__(name: str) -> Any:
    if name == "Aggregator":
        from .aggregator import Aggregator

        return Aggregator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
