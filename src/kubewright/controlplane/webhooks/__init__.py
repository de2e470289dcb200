"""Webhooks that the control plane calls: admission, and the client that conversion uses too.

resolver = ServiceResolver(server, {"my-service.default": "https://127.0.0.1:9443"})
client = WebhookClient(resolver)
plugins = [MutatingWebhooks(server, client, live), ValidatingWebhooks(server, client, live)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .client import CallError, ServiceNotResolved, Target, WebhookClient
    from .dispatch import MutatingWebhooks, ValidatingWebhooks
    from .resolver import ServiceResolver

__getattr__, __dir__ = lazy(
    __name__,
    {
        "client": "CallError ServiceNotResolved Target WebhookClient",
        "dispatch": "MutatingWebhooks ValidatingWebhooks",
        "resolver": "ServiceResolver",
    },
)

__all__ = [
    "CallError",
    "MutatingWebhooks",
    "ServiceNotResolved",
    "ServiceResolver",
    "Target",
    "ValidatingWebhooks",
    "WebhookClient",
]
