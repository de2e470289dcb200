"""Cases: what is sent to a server, as YAML files under `cases/` or built by `generate`."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "cases"
UNRECORDED = frozenset({"sleep", "crd", "watch"})
"""Step types that have no response."""


class CaseLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader that reads timestamps and yes/no/on/off as strings."""


CaseLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
CaseLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def load_yaml(text: str) -> Any:
    """Parse YAML the way cases and YAML responses are read."""
    return yaml.load(text, CaseLoader)


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario, independent of every other."""

    name: str
    """`category/name`."""
    document: dict[str, Any]

    @property
    def category(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def recorded_steps(self) -> int:
        """Number of steps whose responses are compared."""
        return sum(1 for step in self.document["steps"] if is_recorded(step))

    @property
    def is_serial(self) -> bool:
        """Whether the case runs alone, after the others."""
        return bool(self.document.get("serial"))


def is_recorded(step: dict[str, Any]) -> bool:
    """Whether the response to a step is compared."""
    return not UNRECORDED & step.keys() and bool(step.get("record", True))


def load_sources(root: Path = SOURCES) -> list[Case]:
    """Read the hand-written cases, sorted by name."""
    return [
        Case(f"{path.parent.name}/{path.stem}", load_yaml(path.read_text()))
        for path in sorted(root.glob("*/*.yaml"))
    ]


def select(
    cases: Iterable[Case], categories: Collection[str] = (), names: Collection[str] = ()
) -> list[Case]:
    """Cases of these categories and with these names (`category/name` or a prefix of it ending in `*`)."""

    def matches(name: str) -> bool:
        return any(
            name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted for wanted in names
        )

    return [
        case
        for case in cases
        if (not categories or case.category in categories) and (not names or matches(case.name))
    ]


def build_crd(step: dict[str, Any], group: str) -> dict[str, Any]:
    """Expand a `crd:` step into a CustomResourceDefinition."""
    spec = copy.deepcopy(step)
    group = spec.pop("group", group)
    kind = spec.pop("kind")
    plural = spec.pop("plural", kind.lower() + "s")
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    names |= spec.pop("names", {})
    versions = spec.pop("versions", None)
    if versions is None:
        version = {"name": "v1", "served": True, "storage": True}
        for key in ("schema", "subresources", "additionalPrinterColumns", "selectableFields"):
            if key in spec:
                version[key] = spec.pop(key)
        versions = [version]
    for version in versions:
        schema = version.get("schema", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        if "openAPIV3Schema" not in schema:
            version["schema"] = {"openAPIV3Schema": {"type": "object", **schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", **spec.pop("metadata", {})},
        "spec": {
            "group": group,
            "scope": spec.pop("scope", "Namespaced"),
            "names": names,
            "versions": versions,
            **spec,
        },
    }
