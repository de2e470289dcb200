"""Reconcilers of objects: the object is read first, and a request for one that is gone is dropped."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.errors import NotFound
from kubewright.client.kind_types import AnyKind

from .request import Request


def object_reader(client: Any, kind: AnyKind) -> Callable[[Request], Awaitable[Any]]:
    """From a request to its object, or `None` when it is gone; `Controller(read=...)` takes it."""

    async def read(request: Request) -> Any:
        try:
            return await client.get(kind, request.name, namespace=request.namespace or None)
        except NotFound:
            return None

    return read


def wants_object(reconcile: Callable[..., Any], cls: type[Any]) -> bool:
    """Whether the first parameter of a reconciler is annotated with the class of its objects."""
    try:
        hints = typing.get_type_hints(reconcile)
        first = next(iter(inspect.signature(reconcile).parameters))
    except (NameError, StopIteration, TypeError, ValueError):
        return False
    hint = hints.get(first)
    return isinstance(hint, type) and issubclass(cls, hint) and hint is not object
