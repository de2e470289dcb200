"""The argument and the return value of a reconciler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from kubewright.api.meta import MetaObject
    from kubewright.api.unstructured import Unstructured


current_cluster: ContextVar[str] = ContextVar("kubewright_current_cluster", default="")
"""The cluster of a fleet that the current task or thread works for; log lines have it as `cluster`."""


class Request(NamedTuple):
    """Namespace and name of the object to reconcile. The object may have been deleted already."""

    namespace: str
    name: str
    cluster: str = ""
    """Name of the cluster in a fleet; empty for the cluster that the operator runs in."""

    @classmethod
    def of(cls, obj: MetaObject | Unstructured) -> Self:
        """Return the request for an object; a map function of a fleet requests objects of its cluster."""
        return cls(obj.namespace, obj.name)

    def __str__(self) -> str:
        text = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}://{text}" if self.cluster else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Successful result of a reconcile. Returning `None` is the same as returning `Result()`."""

    requeue_after: float | timedelta = 0.0
    """Reconcile again after this many seconds, even without a change; 0 means only after a change."""
    priority: int | None = None
    """Priority of the requeued request; by default the priority of this one."""

    def __post_init__(self) -> None:
        after: object = self.requeue_after
        if not isinstance(after, int | float | timedelta) or isinstance(after, bool):
            raise TypeError(f"Result(requeue_after={after!r}): expected seconds or a timedelta")
        if self.delay < 0:
            raise ValueError(f"Result(requeue_after={after!r}): the delay must not be negative")

    @property
    def delay(self) -> float:
        """`requeue_after` in seconds."""
        after = self.requeue_after
        return after.total_seconds() if isinstance(after, timedelta) else after


class TerminalError(Exception):
    """An error that a retry cannot fix: the request is dropped until the object changes.

    `raise TerminalError from error` keeps the cause in the log.
    """


class TemporaryError(Exception):
    """An error that is expected to disappear: the request is retried after `delay` seconds, without backoff.

    It is logged as a warning without a traceback.
    """

    def __init__(self, message: str = "", *, delay: float = 60.0) -> None:
        super().__init__(message)
        if delay <= 0:
            raise ValueError(f"TemporaryError(delay={delay!r}): the delay must be greater than 0")
        self.delay = delay


Reconcile = Callable[[Request], Awaitable[Result | None]]
"""Brings one object into its desired state. It must be idempotent and safe to call at any time."""
