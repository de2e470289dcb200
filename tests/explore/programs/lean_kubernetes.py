"""Makes kubernetes_asyncio import its models when they are used: all of them take seconds at each start."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_MODULES = {
    "ApiClient": "api_client",
    "ApiException": "exceptions",
    "Configuration": "configuration",
    "CoreV1Api": "api.core_v1_api",
    "CustomObjectsApi": "api.custom_objects_api",
}


def _lazy_package(name: str, folder: Path, find: Any) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    package.__getattr__ = find  # type: ignore[method-assign]
    sys.modules[name] = package
    return package


def _client(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(name)
    module = _MODULES.get(name)
    if module is None:
        return getattr(sys.modules["kubernetes_asyncio.client.models"], name)
    return getattr(import_module(f"kubernetes_asyncio.client.{module}"), name)


def _model(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(name)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return getattr(import_module(f"kubernetes_asyncio.client.models.{snake}"), name)


_spec = find_spec("kubernetes_asyncio") if "kubernetes_asyncio" not in sys.modules else None
if _spec is not None and _spec.origin is not None:
    root = Path(_spec.origin).parent
    _top = ModuleType("kubernetes_asyncio")
    _top.__path__ = [str(root)]
    sys.modules["kubernetes_asyncio"] = _top
    _top.client = _lazy_package("kubernetes_asyncio.client", root / "client", _client)  # type: ignore[attr-defined]
    _top.client.models = _lazy_package(  # type: ignore[attr-defined]
        "kubernetes_asyncio.client.models", root / "client/models", _model
    )
    _lazy_package("kubernetes_asyncio.client.api", root / "client/api", _client)
