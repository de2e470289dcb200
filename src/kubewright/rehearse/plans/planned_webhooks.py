"""`PlannedWebhooks`: the webhooks of a cluster during a plan.

Those of the operator are called in process, also where the configuration of the cluster names its Service.
Other webhooks would have to be called in the cluster, which a plan does not do: they are assumed to allow the
request without changing it, and reported.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.controlplane.webhooks.client import CallError, Target
from kubewright.explore.simulation.local_webhooks import URL, LocalWebhooks
from kubewright.tracing.admission_spans import WebhookType


class _Request(msgspec.Struct):
    uid: str = ""


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    request: _Request = msgspec.field(default_factory=_Request)


_decode = msgspec.json.Decoder(_Review).decode


class PlannedWebhooks(LocalWebhooks):
    """Calls the webhooks of the operator; others allow everything."""

    def __init__(self) -> None:
        super().__init__()
        self.uncalled: dict[str, int] = {}
        """Number of requests to webhooks that were assumed to allow them, by URL."""

    async def post(
        self,
        target: Target,
        body: bytes,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        review_type: WebhookType = "other",
    ) -> Any:
        """Send a review to the operator, or return that it is allowed."""
        if self.server is not None and target.service is not None:
            path = target.url.partition("://")[2].partition("/")[2]
            if self.server.endpoint(f"/{path}") is not None:
                target = Target(f"{URL}/{path}", target.bundle)
        try:
            return await super().post(
                target, body, timeout=timeout, deadline=deadline, review_type=review_type
            )
        except CallError:
            if target.url.startswith(URL):
                raise
            review = _decode(body)
            if review.kind != "AdmissionReview":
                raise  # an object cannot be converted without its webhook
            self.uncalled[target.url] = self.uncalled.get(target.url, 0) + 1
            response = {"uid": review.request.uid, "allowed": True}
            return {"apiVersion": review.api_version, "kind": review.kind, "response": response}
