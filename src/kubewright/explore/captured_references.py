"""Replaces functions in modules that refer to them directly.

    from time import monotonic                     # a name in the module
    def wait(clock=time.monotonic): ...            # a default value of a function or method

Replacing `time.monotonic` does not change either of them. `replace_references` looks for both in all loaded
modules, except the standard library, `kubewright.explore` and test runners. A module is searched once, and
its references stay replaced: the replacements call the original function outside of runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

EXCLUDED: Final = sys.stdlib_module_names | {"_pytest", "coverage", "execnet", "pluggy", "pytest", "xdist"}
"""Packages that measure real time also during runs."""
_OWN_PACKAGE: Final = __name__.rpartition(".")[0]

_searched: dict[str, ModuleType] = {}
"""Modules by name; a module that was imported again is searched again."""


def replace_references(replacements: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Replace functions in all modules that were loaded since the last call."""
    # Values of modules need not be hashable, hence the identities.
    by_identity = {id(real): function for real, function in replacements.items()}
    sources = {id(sys.modules[real.__module__]) for real in replacements if real.__module__ in sys.modules}
    for name, module in list(sys.modules.items()):
        if _searched.get(name) is module or _is_excluded(name):
            continue
        _searched[name] = module
        namespace = getattr(module, "__dict__", {})
        found = False
        for key, value in list(namespace.items()):
            if id(value) in by_identity:
                namespace[key] = by_identity[id(value)]
                found = True
            elif id(value) in sources:
                found = True
        if found:  # otherwise no default value can refer to one of the functions
            for function in _functions(namespace, name):
                _replace_defaults(function, by_identity)


def _is_excluded(name: str) -> bool:
    return name.partition(".")[0] in EXCLUDED or name == _OWN_PACKAGE or name.startswith(f"{_OWN_PACKAGE}.")


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


def _replace_defaults(function: FunctionType, by_identity: Mapping[int, Callable[..., Any]]) -> None:
    defaults, keywords = function.__defaults__, function.__kwdefaults__ or {}
    if defaults and any(id(each) in by_identity for each in defaults):
        function.__defaults__ = tuple(by_identity.get(id(each), each) for each in defaults)
    for key, value in keywords.items():
        if id(value) in by_identity:
            keywords[key] = by_identity[id(value)]


__all__ = ["replace_references"]
