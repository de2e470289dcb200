"""Kubernetes itself, in one process: built-in resources, CRDs, RBAC, admission, aggregation, controllers.

    async with ControlPlane() as plane:
        print(plane.kubeconfig)

`ControlPlane` assembles the parts on `kubewright.apiserver`; `kubewright up` runs it in the foreground.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
