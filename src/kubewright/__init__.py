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

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "api": (
            "Column Condition CustomResource FieldError ObjectMeta Quantity Spec Status Unstructured "
            "partial resource set_condition"
        ),
        "client": "Client",
        "controller": "Request Result TerminalError",
        "controlplane": "ControlPlane",
        "manager": "Context Manager Operator",
        "webhook": "Converter Denied",
    },
)
