"""Operator factories: a new instance of the operator for each start of a process.

A factory is any function that returns a new `Operator`. For `module:attribute`, `ModuleFactory` imports the
module, and all modules of the same package or directory, again for each instance: a restarted process must
not find values that its predecessor left in module globals.

Instances can be created in advance (`prepare`), before the process is forked for runs, so that a restart in a
run does not have to import modules.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from prometheus_client.registry import Collector

from kubewright.api.encoding.codec import decoder

if TYPE_CHECKING:
    from kubewright.manager import Operator

    from .programs import ExploredProgram

OperatorFactory = Callable[[], "Operator | ExploredProgram"]
"""Returns a new operator, or another program, for each start of a process."""


_METRICS: dict[str, set[Collector]] = {}
"""Prometheus metrics that the last import of a module has registered."""


class FactoryError(Exception):
    """The operator cannot be created; the message names the module and what to change."""


class ModuleFactory:
    """Creates operators by importing `module:attribute` again."""

    def __init__(self, reference: str) -> None:
        """`attribute` is an operator, or a function without parameters that returns one."""
        module, colon, attribute = reference.partition(":")
        if not module or (colon and not attribute):
            raise FactoryError(f"{reference!r} is not a reference; expected module:operator")
        self.module = module
        self.attribute = attribute or "operator"
        self.reference = f"{module}:{self.attribute}"
        self._owned: set[str] | None = None

    def __call__(self) -> Operator:
        """Import the modules again and return their operator."""
        from kubewright.manager import Operator

        self._forget()
        before, metrics = set(sys.modules), _collectors()
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            raise FactoryError(f"cannot import {self.module}: {error}") from error
        self._owned = self._modules_of(module, set(sys.modules) - before)
        _METRICS[self.module] = _collectors() - metrics
        found = getattr(module, self.attribute, None)
        if callable(found) and not isinstance(found, Operator):
            found = found()
        if not isinstance(found, Operator):
            raise FactoryError(
                f"{self.module} has no operator named {self.attribute!r}; write module:name with the name "
                "of an Operator, or of a function that returns one"
            )
        for kind in found.kinds:
            # Annotations are resolved when they are first needed, in the modules that are imported then: with
            # those of another instance, an enum of an object would not be that of the reconciler.
            decoder(kind)
        return found

    @property
    def modules(self) -> list[ModuleType]:
        """The modules of the project that the last instance was created from."""
        return [sys.modules[each] for each in sorted(self._owned or ()) if each in sys.modules]

    def _forget(self) -> None:
        """Remove the modules of the last instance from `sys.modules`; the instance keeps them alive."""
        if self._owned is None:
            known = sys.modules.get(self.module)
            self._owned = self._modules_of(known, set(sys.modules)) if known is not None else set()
        modules = [module for name in self._owned if (module := sys.modules.pop(name, None)) is not None]
        # A module that defines a metric would register it twice.
        defined = {id(value) for module in modules for value in vars(module).values()}
        registered = _METRICS.pop(self.module, set())
        for metric in _collectors():
            if metric in registered or id(metric) in defined:
                REGISTRY.unregister(metric)

    def _modules_of(self, module: ModuleType, names: set[str]) -> set[str]:
        """Return those of the imported modules that belong to the project of a module."""
        root = self.module.partition(".")[0]
        directory = _directory(sys.modules.get(root) or module)
        owned = {self.module}
        for name in names:
            if name == root or name.startswith(f"{root}."):
                owned.add(name)
                continue
            found = _directory(sys.modules.get(name))
            if directory is not None and found is not None and found.is_relative_to(directory):
                owned.add(name)
        return owned


class OperatorPool:
    """Operators that were created in advance, and more of them on demand."""

    def __init__(self, factory: OperatorFactory) -> None:
        self.factory = factory
        self._ready: deque[Operator | ExploredProgram] = deque()

    def prepare(self, count: int) -> None:
        """Create instances until `count` are ready."""
        while len(self._ready) < count:
            self._ready.append(self.factory())

    def __call__(self) -> Operator | ExploredProgram:
        """Return an instance that was not used before."""
        return self._ready.popleft() if self._ready else self.factory()


def _collectors() -> set[Collector]:
    """Return the metrics in the registry of the process."""
    return set(REGISTRY._collector_to_names)


def _directory(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    if not file or "site-packages" in file:
        return None
    return Path(file).resolve().parent
