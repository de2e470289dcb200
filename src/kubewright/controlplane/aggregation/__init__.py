"""Other API servers behind this one: APIServices, their availability, and the way to them."""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
