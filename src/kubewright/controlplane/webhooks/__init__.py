"""Webhooks that the control plane calls: admission, and the client that conversion uses too.

resolver = ServiceResolver(server, {"my-service.default": "https://127.0.0.1:9443"})
client = WebhookClient(resolver)
plugins = [MutatingWebhooks(server, client, live), ValidatingWebhooks(server, client, live)]
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
