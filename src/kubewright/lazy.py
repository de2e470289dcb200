"""Lazy package exports, declared once in a stub.

A package that exports names of its modules declares them in its `__init__.pyi`, one line per name:

    from .codec import decode as decode

Type checkers and editors read the stub. At run time `attach_stub` reads the same file when a name is first
requested, and imports the module of that name only:

    __getattr__, __dir__ = attach_stub(__name__)
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # importing typing would cost more than the rest of `import kubewright`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_exports: dict[str, dict[str, str]] = {}


def attach_stub(
    package: str, *, renamed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose exports are in its `__init__.pyi`.

    `renamed` maps former names to current ones, or to `module.name` of one that is no longer exported; a
    former name is returned with a `DeprecationWarning`.
    """

    def get_attribute(name: str) -> Any:
        if renamed is not None and name in renamed:
            from .deprecation import warn_deprecated

            warn_deprecated(f"{package}.{name}", f"{package}.{renamed[name]}")
            home, _, current = renamed[name].rpartition(".")
            if home:
                return getattr(import_module(f"{package}.{home}"), current)
            return get_attribute(current)
        if name == "__all__":
            return sorted(exports(package))
        # Python and tools probe packages for dunder names; that must not read the stub.
        module = None if name.startswith("__") else exports(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module:
            value = getattr(import_module(module, package), name)
        else:
            value = import_module(f"{package}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute, lambda: sorted({*vars(sys.modules[package]), *exports(package)})


def exports(package: str) -> dict[str, str]:
    """Return the module of each exported name, such as `.codec`; empty for names that are modules.

    A module of another package has its full name.
    """
    if package in _exports:
        return _exports[package]
    module = sys.modules[package]
    # get_data also reads from zip archives; every loader of files has it.
    loader: Any = module.__spec__.loader if module.__spec__ else None
    text = loader.get_data(f"{module.__path__[0]}/__init__.pyi").decode()
    found = _exports[package] = {}
    for line in text.splitlines():
        if line.startswith(("from .", "from kubewright.")):
            home, _, alias = line.removeprefix("from ").partition(" import ")
            found[alias.partition(" as ")[0]] = "" if home == "." else home
    return found
