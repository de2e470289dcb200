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

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import (
        Column,
        Condition,
        CustomResource,
        FieldError,
        ObjectMeta,
        Quantity,
        Spec,
        Status,
        Unstructured,
        partial,
        resource,
        set_condition,
    )
    from .client import Client
    from .controller import Request, Result, TerminalError
    from .controlplane import ControlPlane
    from .manager import Context, Manager, Operator
    from .webhook import Converter, Denied

_HOMES = {
    **dict.fromkeys(
        (
            "Column",
            "Condition",
            "CustomResource",
            "FieldError",
            "ObjectMeta",
            "Quantity",
            "Spec",
            "Status",
            "Unstructured",
            "partial",
            "resource",
            "set_condition",
        ),
        "api",
    ),
    "Client": "client",
    **dict.fromkeys(("Request", "Result", "TerminalError"), "controller"),
    "ControlPlane": "controlplane",
    **dict.fromkeys(("Context", "Manager", "Operator"), "manager"),
    **dict.fromkeys(("Converter", "Denied"), "webhook"),
}

__all__ = [
    "Client",
    "Column",
    "Condition",
    "Context",
    "ControlPlane",
    "Converter",
    "CustomResource",
    "Denied",
    "FieldError",
    "Manager",
    "ObjectMeta",
    "Operator",
    "Quantity",
    "Request",
    "Result",
    "Spec",
    "Status",
    "TerminalError",
    "Unstructured",
    "__version__",
    "partial",
    "resource",
    "set_condition",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
