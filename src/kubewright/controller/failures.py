"""Failures of a reconcile: the exceptions of a controller, and how an error is classified and shown."""

from __future__ import annotations

from kubewright.api.constructor_errors import explain

from .controller_metrics import Outcome

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
    """Return the type and the message of an error; that of a constructor names its class."""
    explanation = explain(error)
    text = f"{type(error).__name__}: {message_of(error)}"
    return f"{text} ({explanation})" if explanation else text


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
