"""Webhooks that the control plane calls: admission, and the client that conversion uses too.

resolver = ServiceResolver(server, {"my-service.default": "https://127.0.0.1:9443"})
client = WebhookClient(resolver)
plugins = [MutatingWebhooks(server, client, live), ValidatingWebhooks(server, client, live)]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import CallError, ServiceNotResolved, Target, WebhookClient
    from .dispatch import MutatingWebhooks, ValidatingWebhooks
    from .resolver import ServiceResolver

_HOMES = {
    "CallError": "client",
    "MutatingWebhooks": "dispatch",
    "ServiceNotResolved": "client",
    "ServiceResolver": "resolver",
    "Target": "client",
    "ValidatingWebhooks": "dispatch",
    "WebhookClient": "client",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


__all__ = [
    "CallError",
    "MutatingWebhooks",
    "ServiceNotResolved",
    "ServiceResolver",
    "Target",
    "ValidatingWebhooks",
    "WebhookClient",
]
