"""Audit: an API server that is started with `--audit-webhook-config-file` sends what happened, in batches.

    server.add_endpoint("/audit", AuditSink(lambda events: archive.write(events)))

Events are plain data, in the order in which they came. If the function fails the server is told so with 500
and sends the batch again, so a function that stores them must bear to see one twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.api import codec
from kubewright.callables import call_with_accepted

from .review import InvalidReviewError

VERSIONS = ("audit.k8s.io/v1", "audit.k8s.io/v1beta1")


class AuditSink:
    """An endpoint: `function(events)` takes a list of audit events."""

    def __init__(self, function: Callable[[list[dict[str, Any]]], Any]) -> None:
        self._function = function

    async def __call__(self, body: bytes) -> bytes:
        """Take a batch."""
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
