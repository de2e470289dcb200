"""Remove the values of Secrets from objects that are shown or logged."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
REDACTED: Final = "redacted"


def is_secret(obj: dict[str, Any]) -> bool:
    """Whether an object is a Secret of the core group."""
    return obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def redact_secret(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret whose values are replaced by their length, and any other object unchanged.

    The annotation of `kubectl apply`, which repeats the values, is replaced as well.
    """
    if not is_secret(obj):
        return obj
    copy = dict(obj)
    for field in ("data", "stringData"):
        values = copy.get(field)
        if isinstance(values, dict):
            encoded = field == "data"
            copy[field] = {name: _length(value, encoded) for name, value in values.items()}
        elif values is not None:
            copy[field] = REDACTED
    metadata = copy.get("metadata")
    if isinstance(metadata, dict) and _LAST_APPLIED in (metadata.get("annotations") or {}):
        annotations = {**metadata["annotations"], _LAST_APPLIED: REDACTED}
        copy["metadata"] = {**metadata, "annotations": annotations}
    return copy


def _length(value: Any, encoded: bool) -> str:
    text = value if isinstance(value, str) else ""
    length = len(text.encode())
    if encoded:
        try:
            length = len(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            pass
    return f"{REDACTED} ({length} bytes)"
