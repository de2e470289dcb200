"""Reading the object of a request before a reconciler is called with it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.errors import NotFound
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind

from .request import Request


def object_reader(client: Client, kind: AnyKind) -> Callable[[Request], Awaitable[Any]]:
    """Return a function from a request to its object, or `None` if it does not exist.

    Pass it to `Controller(read=...)`.
    """

    async def read(request: Request) -> Any:
        try:
            return await client.get(kind, request.name, namespace=request.namespace or None)
        except NotFound:
            return None

    return read


def takes_object(reconcile: Callable[..., Any], cls: type[Any]) -> bool:
    """Whether the first parameter of a reconciler is annotated with the class of its objects."""
    try:
        hints = typing.get_type_hints(reconcile)
        first = next(iter(inspect.signature(reconcile).parameters))
    except (NameError, StopIteration, TypeError, ValueError):
        return False
    hint = hints.get(first)
    return isinstance(hint, type) and issubclass(cls, hint) and hint is not object
