"""Other API servers behind this one: APIServices, their availability, and the way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .aggregator import Aggregator

__all__ = ["Aggregator"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "aggregator": "Aggregator",
    },
)
