"""Extend Kubernetes in Python: typed APIs, controllers, webhooks, API servers, a control plane in the box.

The names that a first operator needs are here; everything else is at its own path. The packages, from below:

- `kubewright.api`: kinds, metadata, markers, quantities, selectors, errors, and the built-in types
- `kubewright.cel`, `kubewright.schema`, `kubewright.patch`: rules, schemas and patches as pure functions
- `kubewright.manifests`: CRDs, roles and webhook configurations from types
- `kubewright.client`, `kubewright.cache`: talk to a cluster, and know its state without asking
- `kubewright.storage`, `kubewright.apiserver`: write an API server
- `kubewright.controller`, `kubewright.webhook`, `kubewright.manager`: write an operator
- `kubewright.controlplane`: Kubernetes in this process, for development and tests
"""

from kubewright.lazy import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__ = attach_stub(__name__)
