"""Arguments by type: a function declares parameters, and receives the values that match their annotations.

    async def reconcile(guestbook: Guestbook, ctx: Context, log: logging.Logger): ...

Annotations are checked when the function is registered, so an unknown one fails at import.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubewright.callables import accepts, call, is_async
from kubewright.manager.contexts.unawaited import run_checked

_SYNCHRONOUS = {"context": "sync_context", "client": "sync_client"}
"""Names of values for async functions, and of the corresponding ones for plain functions."""


class InjectionError(TypeError):
    """A function has parameters that cannot be filled; the message begins with `file:line`."""


def source_location(function: Callable[..., object]) -> str:
    """Return `file:line` of a function, or an empty string."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def describe(function: Callable[..., object]) -> str:
    """Return `file:line: name`, the beginning of an error message about a function."""
    name = getattr(function, "__qualname__", repr(function))
    location = source_location(function)
    return f"{location}: {name}" if location else name


def check_arguments(function: Callable[..., object], count: int, message: str) -> None:
    """Raise an `InjectionError` unless a function accepts `count` or `count + 1` arguments."""
    if not accepts(function, count) and not accepts(function, count + 1):
        raise InjectionError(f"{describe(function)}: {message}")


class OperatorFunction:
    """A function that an operator calls with values; `parameters` maps its parameters to names of values."""

    def __init__(
        self, function: Callable[..., Any], *, is_async: bool, parameters: Mapping[str, str] | None = None
    ) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.is_async = is_async
        self.parameters = dict(parameters or {})

    def bind(self, values: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function with its injected arguments bound."""
        arguments = {name: values[source] for name, source in self.parameters.items()}
        return functools.partial(self.function, **arguments)

    async def __call__(self, values: Mapping[str, Any]) -> Any:
        """Call the function with its injected arguments; a plain function runs in a thread.

        Raises `UnawaitedCoroutineError` if an async function did not await a call of its context or client.
        """
        if self.is_async:
            return await run_checked(self.bind(values), self.name)
        return await call(self.bind(values))


class InjectedFunction(OperatorFunction):
    """A function whose parameters are filled by type. `known` maps a type to the name of its value.

    The first `given` parameters are passed by the caller.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        known: Mapping[type, str],
        *,
        role: str,
        given: int = 0,
        in_thread: bool = True,
        names: Sequence[str] = (),
        advice: str = "declare others before the function with operator.provide(<type>, <factory>)",
    ) -> None:
        """`role`: what the function is, for error messages.

        `in_thread`: whether a plain function runs in a thread, where it can block. `names`: parameters that
        are filled by name. `advice`: end of the message about a parameter of another type.
        """
        super().__init__(function, is_async=is_async(function))
        subject = describe(function)
        target: Any = function
        if isinstance(function, type):
            target, self.is_async = target.__init__, False
        elif not inspect.isroutine(function):
            target = type(function).__call__
        try:
            hints = typing.get_type_hints(target)
        except NameError as error:
            raise InjectionError(f"{subject}: an annotation cannot be resolved: {error}") from None
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters[given:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise InjectionError(
                    f"{subject}: parameter {parameter.name!r} must be a named parameter to be filled by type"
                )
            hint = hints.get(parameter.name)
            source = parameter.name if parameter.name in names else value_name(hint, known)
            if source is None:
                if parameter.default is not parameter.empty:
                    continue
                names = ", ".join(sorted({each.__name__ for each in known}))
                article = "an" if role[0] in "aeiou" else "a"
                found = (
                    f"annotation {getattr(hint, '__name__', hint)}" if hint is not None else "no annotation"
                )
                raise InjectionError(
                    f"{subject}: parameter {parameter.name!r} has {found}; "
                    f"{article} {role} can have parameters of type {names}; {advice}"
                )
            self.parameters[parameter.name] = self._checked_source(subject, parameter.name, source, in_thread)

    def _checked_source(self, subject: str, parameter: str, source: str, in_thread: bool) -> str:
        """Return the name of the value for this function: the synchronous one for a plain function."""
        synchronous = _SYNCHRONOUS.get(source, source)
        if self.is_async and source in _SYNCHRONOUS.values():
            raise InjectionError(
                f"{subject}: parameter {parameter!r} would block the event loop; annotate it with Context or "
                "Client, or make the function plain (def)"
            )
        if not self.is_async and not in_thread and synchronous in _SYNCHRONOUS.values():
            raise InjectionError(
                f"{subject}: a plain function runs on the event loop here and cannot use {parameter!r}; make "
                "the function async"
            )
        return source if self.is_async else synchronous


def value_name(hint: Any, known: Mapping[type, str]) -> str | None:
    """Return the name of the value for an annotation: a class, a generic, a base class or a union."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        found = (value_name(option, known) for option in typing.get_args(hint) if option is not type(None))
        return next((each for each in found if each is not None), None)
    if origin is typing.Annotated:
        return value_name(typing.get_args(hint)[0], known)
    cls = origin or hint
    if not isinstance(cls, type) or cls is object:
        return None
    if cls in known:
        return known[cls]
    return next((name for each, name in known.items() if _is_subclass(each, cls)), None)


def _is_subclass(cls: type, base: type) -> bool:
    try:
        return issubclass(cls, base)
    except TypeError:  # a protocol that is not runtime_checkable
        return False
