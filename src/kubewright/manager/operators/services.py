"""Services of an operator: objects of the program that functions receive by their type.

    operator.provide(BackupClient, connect)       # a function, plain or async, or a context manager

    @operator.reconcile(Shop)
    async def reconcile(shop: Shop, backups: BackupClient) -> None: ...

Each service is created once, before the startup functions, in the order of declaration; a factory receives
earlier services by type. They are closed in the reverse order after the cleanup functions. A test replaces
one with `operator.override`, and its factory is not called.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from kubewright.callables import is_async

from .injection import InjectedFunction, value_name

ServiceT = TypeVar("ServiceT")
Factory = Callable[
    ...,
    ServiceT
    | Awaitable[ServiceT]
    | contextlib.AbstractAsyncContextManager[ServiceT]
    | contextlib.AbstractContextManager[ServiceT]
    | AsyncIterator[ServiceT]
    | Iterator[ServiceT],
]
"""Creates a service: a function, plain or async, a class, a generator function, plain or async, that
yields it once, or a function that returns a context manager."""


class Services:
    """The declared services of an operator and, while it runs, their instances."""

    def __init__(self) -> None:
        self.names: dict[type, str] = {}
        """The declared types and the names of their values."""
        self._factories: dict[type, InjectedFunction] = {}
        self._instances: dict[str, Any] = {}
        self._overrides: dict[str, Any] = {}

    def declare(self, cls: type, factory: Callable[..., Any], known: Mapping[type, str]) -> None:
        """Declare a service. `known`: the types that the factory can have as parameters."""
        if not isinstance(cls, type):
            raise TypeError(f"provide({cls!r}, ...): expected a class, which functions use as annotation")
        if cls in self.names or cls in known:
            raise ValueError(f"provide({cls.__name__}, ...): the type is provided already")
        if inspect.isasyncgenfunction(factory):
            factory = contextlib.asynccontextmanager(factory)
        elif inspect.isgeneratorfunction(factory):
            factory = contextlib.contextmanager(factory)
        self._factories[cls] = InjectedFunction(factory, known, role="factory")
        self.names[cls] = f"service {cls.__module__}.{cls.__qualname__}"

    def values(self) -> dict[str, Any]:
        """Return the instances by name, with the overrides."""
        return {**self._instances, **self._overrides}

    @contextlib.contextmanager
    def override(self, cls: type, value: Any) -> Iterator[None]:
        """Replace the instance of a service within a block."""
        name = self.names.get(cls)
        if name is None:
            declared = ", ".join(each.__name__ for each in self.names) or "none"
            raise ValueError(
                f"override({cls.__name__}, ...): the type is not provided; provided types: {declared}"
            )
        before = dict(self._overrides)
        self._overrides[name] = value
        try:
            yield
        finally:
            self._overrides = before

    async def start(self, values: Mapping[str, Any]) -> contextlib.AsyncExitStack:
        """Create all services; closing the returned stack closes them in reverse order."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._instances.clear)
            for cls, factory in self._factories.items():
                name = self.names[cls]
                if name in self._overrides:
                    continue
                try:
                    created = await factory({**values, **self.values()})
                    self._instances[name] = await _enter(stack, created)
                except Exception as error:
                    error.add_note(f"while creating the service {cls.__name__}")
                    raise
            return stack.pop_all()

    def inject(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function without its parameters of service types, which are filled at each call."""
        if not self.names or not inspect.isroutine(function):
            return function
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function)
        injected = {
            each: name for each in signature.parameters if (name := value_name(hints.get(each), self.names))
        }
        if not injected:
            return function

        def arguments() -> dict[str, Any]:
            values = self.values()
            return {parameter: values[name] for parameter, name in injected.items()}

        wrapper: Any
        if is_async(function):

            async def call_async(*given: Any) -> Any:
                return await function(*given, **arguments())

            wrapper = call_async
        else:

            def call_plain(*given: Any) -> Any:
                return function(*given, **arguments())

            wrapper = call_plain
        left = [each for each in signature.parameters.values() if each.name not in injected]
        wrapper.__signature__ = signature.replace(parameters=left)
        wrapper.__qualname__ = function.__qualname__
        wrapper.__wrapped__ = function
        result: Callable[..., Any] = wrapper
        return result


async def _enter(stack: contextlib.AsyncExitStack, created: Any) -> Any:
    """Enter a context manager, or register the `aclose` or `close` method of an object."""
    if hasattr(created, "__aenter__"):
        return await stack.enter_async_context(created)
    if hasattr(created, "__enter__"):
        return stack.enter_context(created)
    close = getattr(created, "aclose", None) or getattr(created, "close", None)
    if callable(close):
        stack.push_async_callback(_close, close)
    return created


async def _close(close: Callable[[], Any]) -> None:
    result = close()
    if inspect.isawaitable(result):
        await result
