"""Failures of a reconcile: the exceptions of a controller, and how an error is classified and shown."""

from __future__ import annotations

from types import TracebackType

from kubewright.api.errors import APIError
from kubewright.callables import call

from .controller_metrics import Outcome

_FRAMEWORK_MODULES = (
    "kubewright.controller.controller",
    call.__module__,
    "asyncio.futures",
    "concurrent.futures.thread",
    "kubewright.manager.operators.cluster_runtime",
    "kubewright.manager.operators.injection",
    "kubewright.manager.contexts.unawaited",
    "kubewright.manager.operators.failure_events",
    "kubewright.manager.operators.change_handlers",
)
"""Modules between a controller and the functions of users, left out of tracebacks."""
_PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RecursionError,
    SyntaxError,
    TypeError,
)


class SyncTimeout(Exception):
    """A source did not sync within the timeout; the message contains its last error."""


class InvalidResultError(TypeError):
    """A reconciler returned something other than a `Result` or `None`."""


class ReconcileTimeout(Exception):
    """A reconcile took longer than the timeout of the controller."""


class WorkerStopped(Exception):
    """A worker ended although the controller was not stopped."""


def describe(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {message_of(error)}"


def message_of(error: BaseException) -> str:
    """Return the message of an error; its `__str__` may raise."""
    try:
        return str(error)
    except Exception as failure:
        return f"<str() raised {type(failure).__name__}>"


def outcome_of(error: BaseException) -> Outcome:
    """Return the result label of a failed reconcile in metrics."""
    if isinstance(error, ReconcileTimeout):
        return "timeout"
    return "panic" if isinstance(error, _PROGRAMMING_ERRORS) else "error"


def trim_traceback(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an error with its traceback from the reconciler on, without frames of the framework.

    The traceback of an API error also ends in the reconciler: frames of the client do not help.
    """
    steps: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    while steps and _module_of(steps[0]) in _FRAMEWORK_MODULES:
        del steps[0]
    if isinstance(error, APIError) and not all(_module_of(each).startswith("kubewright.") for each in steps):
        while _module_of(steps[-1]).startswith("kubewright."):
            del steps[-1]
    trimmed: TracebackType | None = None
    for each in reversed(steps):
        trimmed = TracebackType(trimmed, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return type(error), error, trimmed or error.__traceback__


def _module_of(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))
