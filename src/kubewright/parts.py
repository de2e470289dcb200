"""The parts of Kubewright that `kubewright-runtime` does not contain.

An operator needs the SDK in production; the embedded control plane, the library for API servers and the tools
for development are in the package `kubewright` only. An import of a missing part says so:

    >>> import kubewright.testing
    ModuleNotFoundError: kubewright.testing is not part of kubewright-runtime; install kubewright instead
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost more than the rest of `import kubewright`
if TYPE_CHECKING:
    from typing import Any

PARTS = frozenset(
    (
        "apiserver",
        "controlplane",
        "dashboard",
        "dns",
        "envtest",
        "explore",
        "extension",
        "node",
        "options",
        "rehearse",
        "scaffold",
        "storage",
        "testing",
        "workloads",
    )
)
"""Packages that only `kubewright` contains."""


class MissingPart(ModuleNotFoundError):
    """A part of Kubewright that is not installed."""


def missing_part(name: str) -> str:
    """Return the error message for a module or command that is not installed."""
    return f"{name} is not part of kubewright-runtime; install kubewright instead"


class _MissingParts:
    """Finder that Python calls for modules that no other finder has found."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise `MissingPart` for a part of Kubewright."""
        package, _, part = name.partition(".")
        if package == "kubewright" and part in PARTS:
            raise MissingPart(missing_part(name), name=name)


def report_missing_parts() -> None:
    """Let imports of missing parts name the package to install."""
    sys.meta_path.append(_MissingParts)
