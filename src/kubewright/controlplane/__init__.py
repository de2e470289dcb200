"""Kubernetes itself, in one process: built-in resources, CRDs, RBAC, admission, aggregation, controllers.

    async with ControlPlane() as plane:
        print(plane.kubeconfig)

`ControlPlane` assembles the parts on `kubewright.apiserver`; `kubewright up` runs it in the foreground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plane import ControlPlane

__all__ = ["ControlPlane"]


def __getattr__(name: str) -> Any:
    if name == "ControlPlane":
        from .plane import ControlPlane

        return ControlPlane
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
