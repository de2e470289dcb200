"""Conversion between the versions of one resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kubewright.api.gvk import GroupVersion

from .objects import Object


class VersionConverter(Protocol):
    """Converts between versions of one resource. Implement `convert` as a plain or an async function."""

    def convert(
        self, objects: list[Object], from_version: str, to_version: str
    ) -> list[Object] | Awaitable[list[Object]]:
        """New objects in `to_version`, in order. The given ones belong to the callee."""


class NoConversion:
    """All versions share one shape; only `apiVersion` differs."""

    def __init__(self, group: str) -> None:
        self.group = group

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Rewrite `apiVersion`."""
        api_version = str(GroupVersion(self.group, to_version))
        for obj in objects:
            obj["apiVersion"] = api_version
        return objects


class HubConverter:
    """Converts through a hub: each other version says how to get to the hub and back.

    `to_hub` and `from_hub` map a version to a function from dict to dict. `apiVersion`, `kind` and
    `metadata` need not be touched: they are carried over.
    """

    def __init__(
        self,
        group: str,
        hub: str,
        to_hub: Mapping[str, Callable[[Object], Object]],
        from_hub: Mapping[str, Callable[[Object], Object]],
    ) -> None:
        self.group = group
        self.hub = hub
        self.to_hub = dict(to_hub)
        self.from_hub = dict(from_hub)

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Convert by way of the hub."""
        steps = []
        if from_version != self.hub:
            steps.append(self.to_hub[from_version])
        if to_version != self.hub:
            steps.append(self.from_hub[to_version])
        api_version = str(GroupVersion(self.group, to_version))
        converted = []
        for obj in objects:
            kind, metadata = obj.get("kind"), obj.get("metadata")
            for step in steps:
                obj = step(obj)
            rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
            converted.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest})
        return converted
