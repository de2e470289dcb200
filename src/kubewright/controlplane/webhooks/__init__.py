"""Admission webhooks of the control plane, and the HTTP client that conversion webhooks share.

resolver = ServiceResolver(server, {"my-service.default": "https://127.0.0.1:9443"})
client = WebhookClient(resolver)
plugins = [MutatingWebhooks(server, client, informers), ValidatingWebhooks(server, client, informers)]

- `client`: HTTP client for admission and conversion webhooks
- `dispatch`: the admission plug-ins that call webhooks
- `hook`: one webhook of a configuration, parsed once: rules, selectors and address
- `resolver`: resolution of service references to addresses
- `review`: AdmissionReview requests and responses
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
