"""The parts of a manager that controllers use; `kubewright.manager.Manager` implements them."""

from __future__ import annotations

import weakref
from typing import Protocol

from kubewright.cache import Cache, CachedClient
from kubewright.runnable import Runnable

from .errors import BuildError


class ManagerProtocol(Protocol):
    """A manager, as builders of controllers, timers and daemons use it."""

    @property
    def client(self) -> CachedClient:
        """Client that reads from the cache and writes to the API server."""

    @property
    def cache(self) -> Cache:
        """Informers of the watched kinds."""

    def add(self, runnable: Runnable) -> None:
        """Run a component with the manager."""


def cluster_name_of(manager: ManagerProtocol) -> str:
    """Return the name of the cluster of a manager in a fleet; empty for a manager of its own process."""
    return str(getattr(manager, "cluster_name", ""))


_names: weakref.WeakKeyDictionary[ManagerProtocol, set[str]] = weakref.WeakKeyDictionary()


def register_controller_name(manager: ManagerProtocol, name: str) -> None:
    """Reserve a controller name in a manager; raises `BuildError` if it is in use."""
    names = _names.setdefault(manager, set())
    if name in names:
        raise BuildError(
            f"controller name {name!r} is already in use, and metrics and logs identify controllers by name; "
            'choose another with @operator.reconcile(Kind, name="...") or with_options(name="...")'
        )
    names.add(name)
