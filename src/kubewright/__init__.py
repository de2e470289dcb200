"""Kubernetes operators, webhooks and API servers in Python, with an embedded control plane.

    operator = Operator("shop")

    @operator.reconcile(Shop, owns=(Deployment,))
    async def reconcile(shop: Shop, ctx: Context) -> None: ...

This package exports the names that most operators need. Its packages, each of which uses only earlier ones:

- `kubewright.api`: kinds, metadata, markers, quantities, selectors, errors, and the built-in types
- `kubewright.cel`, `kubewright.schema`, `kubewright.patch`: CEL, structural schemas and patches
- `kubewright.manifests`: CRDs, RBAC roles and webhook configurations from Python types
- `kubewright.client`, `kubewright.cache`: client, informers and cached reads
- `kubewright.storage`, `kubewright.apiserver`: stores, and a library for API servers
- `kubewright.controller`, `kubewright.webhook`, `kubewright.manager`: controllers, webhooks and operators
- `kubewright.workloads`: controllers of workloads, a scheduler and simulated nodes
- `kubewright.controlplane`: an embedded Kubernetes control plane
- `kubewright.extension`: extension API servers as applications
- `kubewright.testing`: test servers, fake time, permission checks
- `kubewright.explore`: systematic exploration of faults, which finds bugs of operators
- `kubewright.scaffold`: projects, their templates, and types from existing CRDs
"""

from kubewright.lazy import attach_stub
from kubewright.parts import report_missing_parts

__version__ = "1.0.0rc1"

report_missing_parts()
__getattr__, __dir__ = attach_stub(__name__)
