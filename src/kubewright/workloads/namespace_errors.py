"""Errors of writes in namespaces that are being deleted."""

from __future__ import annotations

from kubewright.api.errors import APIError, NotFound


def is_namespace_terminating(error: APIError) -> bool:
    """Whether an object was rejected because its namespace is being deleted, or no longer exists."""
    details = error.details or {}
    return any(cause.get("reason") == "NamespaceTerminating" for cause in details.get("causes") or ()) or (
        isinstance(error, NotFound) and details.get("kind") == "namespaces"
    )
