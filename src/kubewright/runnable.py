"""What a manager runs: `Runnable`, and the optional members with their defaults in `BaseRunnable`.

A class with `run` is enough. It may define any member of `BaseRunnable` without inheriting from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from kubewright.tracing.source import SpanPublisher


class Runnable(Protocol):
    """A component that a manager starts and stops; `BaseRunnable` has the optional members."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish and return."""


class Ownership(Protocol):
    """Decides which requests belong to this process, when replicas share the work.

    A controller asks before each reconcile, and reports its end, so that a request is handed over to another
    replica only when nothing works on it any more. Requests of other replicas are dropped.
    """

    def enter(self, request: Hashable) -> bool:
        """Return whether this process owns a request now; if so, `leave` follows."""

    def leave(self, request: Hashable) -> None:
        """Report that the reconcile of a request has ended."""


class BaseRunnable:
    """The members of a runnable that a manager uses, with their defaults."""

    name: str = ""
    """Follows the class name in logs."""
    needs_leader: bool = True
    """Whether it runs only while the manager is the leader."""
    group: str = "others"
    """Start-up group of a runnable that does not need leadership."""
    needs_warm_up: bool = False
    """Whether `warm_up` is called before leadership is acquired."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish and return."""
        raise NotImplementedError

    async def wait_until_started(self) -> None:
        """Return when the next group can start: a port is open, caches have synced."""

    async def warm_up(self) -> None:
        """Prepare for `run`, before leadership is acquired."""

    async def stop_warm_up(self) -> None:
        """Stop after a warm-up that is not followed by `run`."""

    @property
    def is_idle(self) -> bool:
        """Whether no work is due now."""
        return True

    @property
    def publishers(self) -> Sequence[SpanPublisher]:
        """The parts that publish spans."""
        return ()

    def share(self, ownership: Ownership) -> Callable[[], None] | None:
        """Work only on requests of `ownership`; return the function to call when it has gained some."""
        return None


class _Completed(BaseRunnable):
    """The members that a runnable defines, and the defaults of the others."""

    def __init__(self, runnable: Runnable) -> None:
        self.runnable = runnable

    def __getattribute__(self, name: str) -> Any:
        runnable = super().__getattribute__("runnable")
        return getattr(runnable, name) if hasattr(runnable, name) else super().__getattribute__(name)


def complete(runnable: Runnable) -> BaseRunnable:
    """Return a runnable with the default of every member that it does not define."""
    return runnable if isinstance(runnable, BaseRunnable) else _Completed(runnable)
