"""Reading the object of a request before a reconciler is called with it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.errors import NotFound
from kubewright.client import Client
from kubewright.client.errors import ObjectDecodeError
from kubewright.client.kind_types import AnyKind

from .request import Request, TerminalError


def object_reader(client: Client, kind: AnyKind) -> Callable[[Request], Awaitable[Any]]:
    """Return a function from a request to its object, or `None` if it does not exist.

    An object that does not match its class raises a `TerminalError`: it is skipped until it changes, and
    other objects are not affected. Pass the function to `Controller(read=...)`.
    """

    async def read(request: Request) -> Any:
        try:
            return await client.get(kind, request.name, namespace=request.namespace or None)
        except NotFound:
            return None
        except ObjectDecodeError as error:
            raise TerminalError(str(error)) from error

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
