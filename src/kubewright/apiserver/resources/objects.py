"""Plain JSON objects: the dicts that requests, strategies and storage exchange."""

from __future__ import annotations

import os
import time
from typing import Any

from kubewright.api.kubernetes_version import serving_version

Object = dict[str, Any]
"""A decoded API object."""

_current_second: tuple[int, str] = (0, "")


def current_timestamp() -> str:
    """Return the current time in the form of `metadata.creationTimestamp`."""
    global _current_second
    seconds = int(time.time())
    if _current_second[0] != seconds:
        _current_second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)))
    return _current_second[1]


def metadata_without_time(**fields: Any) -> Object:
    """Return metadata of an object that has no creation time, which 1.33 and earlier write as null."""
    return {**fields, "creationTimestamp": None} if serving_version().includes("-1.33") else fields


def new_uid() -> str:
    """Return a random UUID; several times faster than `str(uuid.uuid4())`."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


def deep_copy(value: Any) -> Any:
    """Copy decoded JSON; several times faster than `copy.deepcopy`."""
    if type(value) is dict:
        return {key: deep_copy(item) for key, item in value.items()}
    if type(value) is list:
        return [deep_copy(item) for item in value]
    return value
