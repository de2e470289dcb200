"""Functions of the standard library that have another result while a source for it exists.

    functions = ReplacedFunctions(current_clock)
    functions.replace(time, "time", lambda clock: clock.wall_time())

    with functions.installed():
        ...

`installed` sets the replacements, and restores the functions when the last block has ended. A replacement
asks for the source in each call: without one it calls the original function, so that code which keeps a
reference, and code in other threads, is not affected. A function that something else has replaced, such as
`monkeypatch`, stays as it is.

Methods of classes that are written in C (`datetime.now`) are replaced in the class itself, because most
modules import the class by name; this requires CPython. References to functions, such as
`from time import monotonic` and `def f(clock=time.monotonic)`, are replaced by `captured_references`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Generic, TypeVar

from .captured_references import CapturedReferences, is_excluded

S = TypeVar("S")

_lock = threading.RLock()


class ReplacedFunctions(Generic[S]):
    """Functions that are replaced together."""

    def __init__(self, source: Callable[[], S | None]) -> None:
        """`source` returns the first argument of replacements; with `None`, the original is called."""
        self._source = source
        self._functions: list[tuple[Any, str, Any, Any]] = []
        self._methods: list[tuple[type, str, Any, Any]] = []
        self._references = CapturedReferences()
        self._blocks = 0

    def replace(
        self, owner: Any, name: str, simulated: Callable[..., Any], *, for_library: bool = True
    ) -> None:
        """Add a function of a module, or a method of a class; the source is the first argument.

        `for_library`: whether the standard library and test runners call the replacement, too.
        """
        real, source = getattr(owner, name), self._source

        @functools.wraps(real)
        def function(*args: Any, **options: Any) -> Any:
            found = source()
            if found is None or (not for_library and _is_library(sys._getframe(1))):
                return real(*args, **options)
            return simulated(found, *args, **options)

        self._functions.append((owner, name, real, function))
        self._references.add(owner, real, function)

    def replace_class_method(self, cls: type, name: str, simulated: Callable[..., Any]) -> None:
        """Add a class method of a class in C; source and class are the first arguments."""
        source, real = self._source, vars(cls)[name]

        @functools.wraps(getattr(cls, name))
        def method(owner: Any, *args: Any, **options: Any) -> Any:
            found = source()
            if found is None:
                return real.__get__(None, owner)(*args, **options)
            return simulated(found, owner, *args, **options)

        self._methods.append((cls, name, real, classmethod(method)))
        self._references.add(cls, getattr(cls, name), functools.partial(method, cls))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Use the replacements until the block, and all others in other threads, have ended."""
        if sys.implementation.name != "cpython":
            raise RuntimeError("simulated time requires CPython: it replaces the clock of datetime")
        with _lock:
            self._references.replace()
            if self._blocks == 0:
                self._install()
            self._blocks += 1
        try:
            yield
        finally:
            with _lock:
                self._blocks -= 1
                if self._blocks == 0:
                    self._uninstall()

    def _install(self) -> None:
        for owner, name, real, function in self._functions:
            if getattr(owner, name) is real:
                setattr(owner, name, function)
        for cls, name, _, method in self._methods:
            _set_class_attribute(cls, name, method)

    def _uninstall(self) -> None:
        for owner, name, real, function in self._functions:
            if getattr(owner, name) is function:
                setattr(owner, name, real)
        for cls, name, real, _ in self._methods:
            _set_class_attribute(cls, name, real)


def _is_library(caller: FrameType) -> bool:
    return is_excluded(caller.f_globals.get("__name__", ""))


def _set_class_attribute(cls: type, name: str, value: Any) -> None:
    """Set an attribute of a class that is written in C."""
    namespace: dict[str, Any] = gc.get_referents(cls.__dict__)[0]
    namespace[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
