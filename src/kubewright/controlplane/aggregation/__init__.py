"""API aggregation: APIServices, their availability, and forwarding of requests to extension API servers."""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
