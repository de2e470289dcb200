"""Libraries that not all supported versions of Kubernetes have.

A version compiles stored expressions with all libraries that it knows, and new ones with those of the version
before it, so that it can be rolled back:

    with new_expressions(stored={"self.size() > 0"}):
        env.check("isSemver(self)")         # fails in 1.33: the library is of 1.33
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from kubewright.api.kubernetes_version import KubernetesVersion, serving_version, version_table

FUNCTIONS: Final = {
    "library.SemverLib 1": ("semver", "isSemver"),
    "ext.Lists 3": (
        "distinct",
        "first",
        "flatten",
        "last",
        "lists.range",
        "reverse",
        "slice",
        "sort",
        "sortBy",
    ),
}
"""Functions of libraries that some supported version lacks."""

_stored: ContextVar[Collection[str] | None] = ContextVar("stored_expressions", default=None)


@contextmanager
def new_expressions(stored: Collection[str] = ()) -> Iterator[None]:
    """Check expressions as new ones, except those that are already stored."""
    token = _stored.set(stored)
    try:
        yield
    finally:
        _stored.reset(token)


def first_version(library: str) -> KubernetesVersion:
    """Return the first version that accepts a library in new expressions."""
    introduced: str = version_table()["cel"][library]
    return KubernetesVersion(int(introduced.partition(".")[2]) + 1)


def texts_of(value: Any) -> set[str]:
    """Return all strings in an object, among them its expressions."""
    if isinstance(value, str):
        return {value}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(texts_of(part) for part in parts))


def missing_functions(text: str) -> frozenset[str]:
    """Return the functions that the served version does not accept in an expression."""
    stored = _stored.get()
    version = serving_version()
    if version.is_newest or stored is None or text in stored:
        return frozenset()
    return _missing(version)


@cache
def _missing(version: KubernetesVersion) -> frozenset[str]:
    libraries = [library for library in FUNCTIONS if version < first_version(library)]
    return frozenset(name for library in libraries for name in FUNCTIONS[library])
