"""The audit log of an `APIServerApp`: events for functions, a file or a webhook.

    @app.audit
    def record(event: AuditEvent) -> None: ...

The policy is a file of `audit.k8s.io/v1`; without one, requests are recorded with their metadata when their
response is complete. Requests that the cluster forwards have the audit id of the cluster, so the events of
both servers can be joined.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from kubewright.manager.operators.settings import SettingsError

if TYPE_CHECKING:
    from kubewright.apiserver.audit import AuditBackend, AuditEvent, Auditor

    from .serving.settings import APIServerSettings

logger = logging.getLogger(__name__)

AuditFunction = Callable[["AuditEvent"], "Awaitable[object] | object"]


class FunctionBackend:
    """Calls a function with each event; an exception is logged, and the request does not fail."""

    name = "function"
    accepts_all = True

    def __init__(self, function: AuditFunction) -> None:
        self._function = function

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def process(self, events: Sequence[AuditEvent]) -> bool:
        """Call the function."""
        for event in events:
            try:
                result = self._function(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                logger.exception("audit function failed", extra={"audit_id": event.audit_id})
        return True


def auditor(settings: APIServerSettings, functions: Sequence[AuditFunction]) -> Auditor | None:
    """Return the auditor of an app; `None` if nothing is recorded."""
    if not functions and not settings.audit_log and not settings.audit_webhook:
        return None
    from kubewright.apiserver.audit import (
        Auditor,
        AuditPolicy,
        AuditRule,
        BatchBackend,
        BatchOptions,
        LogBackend,
        WebhookBackend,
    )
    from kubewright.apiserver.audit.backends import IgnoreErrors

    try:
        if settings.audit_policy:
            policy = AuditPolicy.from_file(settings.audit_policy)
        else:
            policy = AuditPolicy([AuditRule(level="Metadata")], omit_stages=["RequestReceived"])
        backends: list[AuditBackend] = [FunctionBackend(each) for each in functions]
        if settings.audit_log:
            backends.append(IgnoreErrors(LogBackend(settings.audit_log)))
        if settings.audit_webhook:
            backends.append(BatchBackend(WebhookBackend(settings.audit_webhook), BatchOptions()))
    except (OSError, ValueError) as error:
        raise SettingsError(str(error)) from None
    return Auditor(policy, backends)
