"""Audit webhook: an API server with `--audit-webhook-config-file` sends audit events in batches.

    server.add_endpoint("/audit", AuditSink(lambda events: archive.write(events)))

Events are plain data, in the order of arrival. If the function fails, the response is 500 and the API server
sends the batch again, so the function must tolerate duplicates.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.encoding import codec
from kubewright.callables import call_with_accepted

from .review import InvalidReviewError

VERSIONS = ("audit.k8s.io/v1", "audit.k8s.io/v1beta1")


class AuditSink:
    """Endpoint that calls `function(events)` with a list of audit events."""

    def __init__(self, function: Callable[[list[dict[str, Any]]], Awaitable[None] | None]) -> None:
        self._function = function

    async def __call__(self, body: bytes) -> bytes:
        """Process a batch."""
        try:
            batch = codec.loads(body)
        except codec.DecodeError as error:
            raise InvalidReviewError(f"the body is not an EventList: {error}") from None
        if (
            not isinstance(batch, dict)
            or batch.get("kind") != "EventList"
            or batch.get("apiVersion") not in VERSIONS
        ):
            raise InvalidReviewError(f"expected an EventList of {' or '.join(VERSIONS)}")
        await call_with_accepted(self._function, batch.get("items") or [])
        return b"{}"
