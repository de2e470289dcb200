"""Calls the webhooks of an operator in process, instead of over TLS.

The control plane sends its admission and conversion reviews to `LocalWebhooks`. The endpoints are those of a
separate instance of the operator: in a cluster, other replicas serve webhooks while one is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from kubewright.controlplane.webhooks.client import CallError, ServiceNotResolved, Target, WebhookClient
from kubewright.webhook.review import InvalidReviewError

if TYPE_CHECKING:
    from kubewright.tracing.admission_spans import WebhookType
    from kubewright.webhook.server import WebhookServer

URL = "https://webhooks.explore.local"
"""URL in the webhook configurations and CRDs of a run."""


async def _no_services(namespace: str, name: str, port: int) -> tuple[str, int]:
    raise ServiceNotResolved(f"service {namespace}/{name} is not served during exploration")


class LocalWebhooks(WebhookClient):
    """Client of the endpoints of webhook servers that do not listen."""

    def __init__(self) -> None:
        super().__init__(_no_services)
        self.server: WebhookServer | None = None

    async def post(
        self,
        target: Target,
        body: bytes,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        review_type: WebhookType = "other",
    ) -> Any:
        """Send a review to the endpoint of its path and return the decoded response."""
        shown = f'Post "{target.url}": '
        endpoint = None
        if self.server is not None and target.url.startswith(URL):
            endpoint = self.server.endpoint(urlsplit(target.url).path)
        if endpoint is None:
            raise CallError(f"{shown}dial tcp: connect: connection refused")
        try:
            response = await endpoint(body)
        except InvalidReviewError as error:
            raise CallError(str(error)) from None
        except Exception as error:
            raise CallError(f"webhook failed: {type(error).__name__}: {error}") from error
        return msgspec.json.decode(response)
