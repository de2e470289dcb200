"""Kubernetes itself, in one process: built-in resources, CRDs, RBAC, admission, aggregation, controllers.

    async with ControlPlane() as plane:
        print(plane.kubeconfig)

`ControlPlane` assembles the parts on `kubewright.apiserver`; `kubewright up` runs it in the foreground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .plane import ControlPlane

__all__ = ["ControlPlane"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "plane": "ControlPlane",
    },
)
