"""Tracebacks of functions that users write, without the frames of the framework that call them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from kubewright.api.constructor_errors import add_explanation
from kubewright.api.errors import APIError

_CALLERS = (
    "asyncio.futures",
    "concurrent.futures.thread",
    "kubewright.cache.informers.informer_handlers",
    "kubewright.callables",
    "kubewright.controller.controller",
    "kubewright.controller.event_handlers",
    "kubewright.controller.finalizers",
    "kubewright.controller.predicates",
    "kubewright.controller.sources",
    "kubewright.controller.timers",
    "kubewright.manager.contexts.unawaited",
    "kubewright.manager.operators.change_handlers",
    "kubewright.manager.operators.cluster_runtime",
    "kubewright.manager.operators.failure_events",
    "kubewright.manager.operators.injection",
    "kubewright.manager.operators.operator_webhooks",
    "kubewright.webhook.admission",
    "kubewright.webhook.conversion",
    "kubewright.webhook.server",
)
"""Modules between an event or a request and the functions of users."""


def trim_traceback(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an error with its traceback from the function of the user on, as `exc_info` of a log record.

    The traceback of an API error also ends in that function: frames of the client do not help. An error of a
    constructor gets a note that names the class.
    """
    add_explanation(error)
    steps: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    while steps and _module_of(steps[0]) in _CALLERS:
        del steps[0]
    if isinstance(error, APIError) and not all(_module_of(each).startswith("kubewright.") for each in steps):
        while _module_of(steps[-1]).startswith("kubewright."):
            del steps[-1]
    trimmed: TracebackType | None = None
    for each in reversed(steps):
        trimmed = TracebackType(trimmed, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return type(error), error, trimmed or error.__traceback__


def location_of(trimmed: TracebackType | None) -> dict[str, str]:
    """Return the function and line where a trimmed traceback begins, as fields of a log record."""
    if trimmed is None:
        return {}
    code = trimmed.tb_frame.f_code
    return {"function": code.co_name, "line": f"{Path(code.co_filename).name}:{trimmed.tb_lineno}"}


def _module_of(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))
