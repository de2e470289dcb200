"""Admission webhooks of the control plane, and the HTTP client that conversion webhooks share.

resolver = ServiceResolver(server, {"my-service.default": "https://127.0.0.1:9443"})
client = WebhookClient(resolver)
plugins = [MutatingWebhooks(server, client, informers), ValidatingWebhooks(server, client, informers)]
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
