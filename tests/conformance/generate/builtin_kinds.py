"""Descriptions of the built-in kinds: `kinds/*.yaml`.

| key | meaning |
|---|---|
| `resource`, `path`, `scope` | plural name, path of the group version, `Namespaced` (default) or `Cluster` |
| `name` | name of the cases, if several group versions serve the resource |
| `minimal`, `variants` | the smallest valid object, and objects with many fields |
| `try`, `extra_try` | merge patches of the first variant, to be created |
| `update` | merge patches of the first variant, after its creation |
| `status`, `bad_status` | a valid status, and merge patches of it |
| `scale` | whether there is a scale subresource |
| `selectors` | field selectors |
| `mask`, `unordered` | paths whose values, or whose order, differ from run to run |
| `ages` | table columns with durations, besides Age |
| `delete_query` | query of deletions |
| `lifecycle` | the cases of `requests` to build; default all; empty if objects would affect other cases |
| `without` | cases of `requests` that are not built |
| `never_removed` | fields that are not left out |
| `review` | whether the kind is only created, never stored |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.cases import load_yaml

_KINDS = Path(__file__).resolve().parent / "kinds"

JSONObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltinKind:
    """One kind in one group version."""

    resource: str
    path: str
    minimal: JSONObject
    variants: dict[str, JSONObject]
    scope: str = "Namespaced"
    name: str = ""
    attempts: list[JSONObject] = field(default_factory=list)
    update: list[JSONObject] = field(default_factory=list)
    status: JSONObject | None = None
    bad_status: list[JSONObject] = field(default_factory=list)
    scale: bool = False
    selectors: list[str] = field(default_factory=list)
    mask: list[str] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    ages: list[str] = field(default_factory=list)
    delete_query: str = ""
    lifecycle: list[str] | None = None
    without: list[str] = field(default_factory=list)
    never_removed: list[str] = field(default_factory=list)
    review: bool = False

    @property
    def label(self) -> str:
        """Part of the names of cases."""
        return self.name or self.resource

    @property
    def is_namespaced(self) -> bool:
        """Whether objects are in a namespace."""
        return self.scope == "Namespaced"

    @property
    def collection(self) -> str:
        """Path of the collection, with variables."""
        return f"{self.path}/namespaces/$(ns)/{self.resource}" if self.is_namespaced else self.all_objects

    @property
    def all_objects(self) -> str:
        """Path of the collection across namespaces."""
        return f"{self.path}/{self.resource}"

    @property
    def object_name(self) -> str:
        """Name of the minimal object."""
        name: str = self.minimal.get("metadata", {}).get("name", "")
        return name

    @property
    def object_path(self) -> str:
        """Path of the minimal object."""
        return f"{self.collection}/{self.object_name}"

    @property
    def full(self) -> JSONObject:
        """The first variant."""
        return next(iter(self.variants.values()))

    def step(self, request: str, **options: Any) -> JSONObject:
        """A step with the masks of the kind."""
        step: JSONObject = {"do": request, **options}
        if self.mask:
            step["mask"] = self.mask
        if self.unordered:
            step["unordered"] = self.unordered
        return step


def load_kinds() -> list[BuiltinKind]:
    """Read all descriptions."""
    kinds = []
    for path in sorted(_KINDS.glob("*.yaml")):
        for entry in load_yaml(path.read_text()):
            attempts = entry.pop("try", []) + entry.pop("extra_try", [])
            kinds.append(BuiltinKind(**entry, attempts=attempts))
    return kinds


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
