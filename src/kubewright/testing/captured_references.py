"""Replaces functions in modules that refer to them directly.

    from time import monotonic                     # a name in the module
    def wait(clock=time.monotonic): ...            # a default value of a function or method

Replacing `time.monotonic` does not change either of them. `CapturedReferences` looks for both in all loaded
modules, except the standard library, test runners, and the two packages that simulate time. A module is
searched once, and its references stay replaced: the replacements call the original function outside of
simulations. References elsewhere, such as attributes of objects, are not found.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import Any, Final

RUNNERS: Final = {
    "_pytest",
    "coverage",
    "execnet",
    "hypothesis",
    "pluggy",
    "pytest",
    "pytest_asyncio",
    "xdist",
}
EXCLUDED: Final = sys.stdlib_module_names | RUNNERS
"""Packages that measure real time also during runs."""
SIMULATIONS: Final = ("kubewright.explore", "kubewright.testing")


class CapturedReferences:
    """References to some functions, and what they are replaced with."""

    def __init__(self) -> None:
        self._replacements: dict[object, Callable[..., Any]] = {}
        self._owners: set[int] = set()
        """Identities of the modules and classes that the functions belong to."""
        self._searched: dict[str, ModuleType] = {}
        """Modules by name; a module that was imported again is searched again."""

    def add(self, owner: Any, real: Callable[..., Any], function: Callable[..., Any]) -> None:
        """Replace a function of a module, or a class method of a class that is written in C."""
        self._owners.add(id(owner))
        self._replacements[_identity(real)] = function

    def replace(self) -> None:
        """Replace the functions in all modules that were loaded since the last call."""
        for name, module in list(sys.modules.items()):
            if self._searched.get(name) is module or is_excluded(name):
                continue
            self._searched[name] = module
            namespace = getattr(module, "__dict__", {})
            found = False
            for key, value in list(namespace.items()):
                function = self._replacements.get(_identity(value))
                if function is not None:
                    namespace[key] = function
                if function is not None or id(value) in self._owners:
                    found = True
            if found:  # otherwise no default value can refer to one of the functions
                for each in _functions(namespace, name):
                    self._replace_defaults(each)

    def _replace_defaults(self, function: FunctionType) -> None:
        known = self._replacements
        defaults, keywords = function.__defaults__, function.__kwdefaults__ or {}
        if defaults and any(_identity(each) in known for each in defaults):
            function.__defaults__ = tuple(known.get(_identity(each), each) for each in defaults)
        for key, value in keywords.items():
            replacement = known.get(_identity(value))
            if replacement is not None:
                keywords[key] = replacement


def _identity(value: object) -> object:
    """Return what is equal for the same function: values need not be hashable, and each access to a class
    method creates an object."""
    if type(value) is BuiltinMethodType and isinstance(value.__self__, type):
        return id(value.__self__), value.__name__
    return id(value)


@functools.cache
def is_excluded(name: str) -> bool:
    """Whether a module has the real functions also during simulations."""
    return name.partition(".")[0] in EXCLUDED or name.startswith(SIMULATIONS)


def _functions(namespace: Mapping[str, Any], module: str) -> Iterator[FunctionType]:
    """Return the functions of a module and the methods of its classes."""
    pending = list(namespace.values())
    classes: set[type] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__ == module and value not in classes:
            classes.add(value)
            pending.extend(vars(value).values())
