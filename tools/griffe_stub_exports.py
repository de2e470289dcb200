"""Griffe extension: the exports of packages that declare them in `__init__.pyi` (see `kubewright.lazy`).

Griffe treats imported names as private unless `__all__` lists them. Packages with lazy exports have no static
`__all__`, so the API reference would be empty without this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import griffe


class StubExports(griffe.Extension):
    """Adds the names in `__init__.pyi` to the members and exports of a package."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Visit a loaded package and its sub-packages."""
        self._add_exports(pkg)

    def _add_exports(self, module: griffe.Module) -> None:
        if isinstance(module.filepath, Path) and module.filepath.name.startswith("__init__"):
            stub = module.filepath.with_suffix(".pyi")
            if stub.exists():
                module.exports = list(self._exports(module, stub.read_text()))
        for member in list(module.members.values()):
            if isinstance(member, griffe.Module):
                self._add_exports(member)

    @staticmethod
    def _exports(module: griffe.Module, stub: str) -> list[str]:
        names = []
        for line in stub.splitlines():
            if line.startswith("from ."):
                home, _, alias = line.removeprefix("from ").partition(" import ")
                name = alias.partition(" as ")[0]
                if home == ".":
                    continue
                target = f"{module.path}{home}.{name}"
                module.set_member(name, griffe.Alias(name, target, parent=module))
                module.imports[name] = target
                names.append(name)
        return names
