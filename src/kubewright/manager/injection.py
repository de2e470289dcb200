"""Arguments by type: a function of an operator names what it needs, and gets it.

    async def reconcile(guestbook: Guestbook, ctx: Context, log: logging.Logger): ...

Each parameter must have an annotation that can be given, checked when the function is registered, so that a
typo fails at import and not in the middle of the night.
"""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any


class InjectionError(TypeError):
    """A parameter that nothing can be given for."""


class Injected:
    """A function whose parameters are filled by type. `kinds` maps a type to the name of its value."""

    def __init__(self, function: Callable[..., Any], known: Mapping[type, str], *, what: str) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.is_async = inspect.iscoroutinefunction(function)
        self.parameters: dict[str, str] = {}
        code = getattr(function, "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
        try:
            hints = typing.get_type_hints(function)
        except NameError as error:
            raise InjectionError(f"{where}{self.name}: an annotation cannot be resolved: {error}") from None
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise InjectionError(f"{where}{self.name}: *{parameter.name} cannot be filled by type")
            wanted = hints.get(parameter.name)
            source = self._source(wanted, known)
            if source is None:
                if parameter.default is not parameter.empty:
                    continue
                possible = ", ".join(sorted(each.__name__ for each in known))
                given = getattr(wanted, "__name__", wanted) if wanted is not None else "nothing"
                raise InjectionError(
                    f"{where}{self.name}: parameter {parameter.name!r} is annotated with {given}; "
                    f"a {what} can have: {possible}"
                )
            self.parameters[parameter.name] = source

    @staticmethod
    def _source(wanted: Any, known: Mapping[type, str]) -> str | None:
        origin = typing.get_origin(wanted)
        if origin in (typing.Union, types.UnionType):
            options = [Injected._source(option, known) for option in typing.get_args(wanted)]
            return next((name for name in options if name is not None), None)
        if origin is not None:
            wanted = origin
        if wanted in known:
            return known[wanted]
        if isinstance(wanted, type):
            for each, name in known.items():
                if issubclass(each, wanted) and wanted is not object:
                    return name
        return None

    async def __call__(self, values: Mapping[str, Any]) -> Any:
        """Call the function with the values it asks for; a plain function runs in a thread."""
        arguments = {name: values[source] for name, source in self.parameters.items()}
        if self.is_async:
            return await self.function(**arguments)
        return await asyncio.to_thread(self.function, **arguments)
