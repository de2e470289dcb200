"""`Ownership`: which requests this process reconciles, when replicas share the work.

A controller asks before each reconcile, and reports its end, so that a request is handed over to another
replica only when nothing works on it any more. Requests of other replicas are dropped; a process that becomes
their owner reads them from its cache again (`Controller.replay`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Ownership(Protocol):
    """Decides which requests belong to this process."""

    def enter(self, request: Hashable) -> bool:
        """Return whether this process owns a request now; if so, `leave` follows."""

    def leave(self, request: Hashable) -> None:
        """Report that the reconcile of a request has ended."""


__all__ = ["Ownership"]
