"""How `kubectl get crds` prints definitions."""

from __future__ import annotations

from typing import Any, Final

from kubewright.apiserver.resource import Column

from . import conditions
from .conditions import Definition


def _versions(crd: Definition) -> str:
    served = [
        f"{version['name']}(storage)" if version.get("storage") else version["name"]
        for version in crd["spec"].get("versions") or ()
        if version.get("served")
    ]
    return ",".join(sorted(served))


def _spec(*path: str) -> Any:
    def read(crd: Definition) -> Any:
        value: Any = crd["spec"]
        for name in path:
            value = (value or {}).get(name)
        return ",".join(value) if isinstance(value, list) else value or ""

    return read


COLUMNS: Final = (
    Column("Scope", value=_spec("scope"), description="Cluster or Namespaced"),
    Column("Versions", value=_versions, description="Versions that are served"),
    Column(
        "Created At",
        "date",
        value=lambda crd: crd["metadata"].get("creationTimestamp"),
        description="When the definition was created",
    ),
    Column("Group", value=_spec("group"), description="API group", priority=1),
    Column("Kind", value=_spec("names", "kind"), description="Kind of the instances", priority=1),
    Column("ShortNames", value=_spec("names", "shortNames"), description="Short names", priority=1),
    Column(
        "Established",
        "boolean",
        value=lambda crd: conditions.is_true(crd, "Established"),
        description="Whether instances are served",
        priority=1,
    ),
)
