"""What a reconciler is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from kubewright.api.meta import MetaObject
    from kubewright.api.unstructured import Unstructured


class Request(NamedTuple):
    """The object to bring into its desired state. It may be gone by now."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: MetaObject | Unstructured) -> Self:
        """The request for an object."""
        return cls(obj.namespace, obj.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Done for now. `None` says the same as `Result()`."""

    requeue_after: float | timedelta = 0.0
    """Look again after so many seconds, whatever happens; 0 means only when something changes."""
    priority: int | None = None
    """The priority of that second look; by default the one this request had."""

    def __post_init__(self) -> None:
        after: object = self.requeue_after
        if not isinstance(after, int | float | timedelta) or isinstance(after, bool):
            raise TypeError(f"Result(requeue_after={after!r}): write seconds, or a timedelta")
        if self.delay < 0:
            raise ValueError(f"Result(requeue_after={after!r}): that is over already; do now what is due")

    @property
    def delay(self) -> float:
        """`requeue_after` in seconds."""
        after = self.requeue_after
        return after.total_seconds() if isinstance(after, timedelta) else after


class TerminalError(Exception):
    """Trying again will not help: the request is dropped until something changes. Raise it from a cause."""


Reconcile = Callable[[Request], Awaitable[Result | None]]
"""Brings one object into its desired state; must be safe to call at any time, any number of times."""
