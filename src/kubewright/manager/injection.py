"""Arguments by type: a function names what it needs, and gets it.

    async def reconcile(guestbook: Guestbook, ctx: Context, log: logging.Logger): ...

Each parameter must have an annotation that can be given, checked when the function is registered, so that a
typo fails at import and not in the middle of the night.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from kubewright.callables import call, is_async


class InjectionError(TypeError):
    """A function that cannot be called as it is written; the message begins with `file:line`."""


def where_is(function: Callable[..., Any]) -> str:
    """`file:line` of a function, or nothing."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def describe(function: Callable[..., Any]) -> str:
    """`file:line: name`, the beginning of a complaint about a function."""
    name = getattr(function, "__qualname__", repr(function))
    where = where_is(function)
    return f"{where}: {name}" if where else name


def check_takes(function: Callable[..., Any], count: int, what: str) -> None:
    """Complain unless a function can be called with so many arguments, or one more."""
    for given in (count, count + 1):
        try:
            inspect.signature(function).bind(*range(given))
            return
        except TypeError:
            continue
    raise InjectionError(f"{describe(function)}: {what}")


class InjectedFunction:
    """A function whose parameters are filled by type. `known` maps a type to the name of its value.

    The first `given` parameters are left to whoever calls it.
    """

    def __init__(
        self, function: Callable[..., Any], known: Mapping[type, str], *, what: str, given: int = 0
    ) -> None:
        self.function = function
        self.is_async = is_async(function)
        self.parameters: dict[str, str] = {}
        subject = describe(function)
        target = function if inspect.isroutine(function) else type(function).__call__
        try:
            hints = typing.get_type_hints(target)
        except NameError as error:
            raise InjectionError(f"{subject}: an annotation cannot be resolved: {error}") from None
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters[given:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise InjectionError(f"{subject}: {parameter.name!r} cannot be filled by type")
            wanted = hints.get(parameter.name)
            source = _source(wanted, known)
            if source is None:
                if parameter.default is not parameter.empty:
                    continue
                names = ", ".join(sorted({each.__name__ for each in known}))
                written = getattr(wanted, "__name__", wanted) if wanted is not None else "nothing"
                raise InjectionError(
                    f"{subject}: parameter {parameter.name!r} is annotated with {written}; "
                    f"a {what} can have: {names}"
                )
            self.parameters[parameter.name] = source

    def bound(self, values: Mapping[str, Any]) -> Callable[..., Any]:
        """The function with the values it asks for."""
        arguments = {name: values[source] for name, source in self.parameters.items()}
        return functools.partial(self.function, **arguments)

    async def __call__(self, values: Mapping[str, Any]) -> Any:
        """Call the function with the values it asks for; a plain function runs in a thread."""
        if self.is_async:
            return await self.bound(values)()
        return await call(self.bound(values))


def _source(wanted: Any, known: Mapping[type, str]) -> str | None:
    """Which value an annotation asks for: a class, one with parameters, a base of it, or one of several."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        found = (_source(option, known) for option in typing.get_args(wanted) if option is not type(None))
        return next((each for each in found if each is not None), None)
    if origin is typing.Annotated:
        return _source(typing.get_args(wanted)[0], known)
    cls = origin or wanted
    if not isinstance(cls, type) or cls is object:
        return None
    if cls in known:
        return known[cls]
    return next((name for each, name in known.items() if issubclass(each, cls)), None)
