"""Conversion between the versions of one resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersion

from .objects import Object


class ConversionFailed(APIError):
    """Objects cannot be converted: the response if they are written, a reason if they are read."""


class VersionConverter(Protocol):
    """Converts objects between versions of one resource. `convert` is a plain or an async function.

    Objects are validated before they are converted, unless the converter has an attribute
    `accepts_invalid_objects` that is true.
    """

    def convert(
        self, objects: list[Object], from_version: str, to_version: str
    ) -> list[Object] | Awaitable[list[Object]]:
        """Return the objects in `to_version`, in order. The converter may change the given objects."""


class NoConversion:
    """Converter of versions with equal schemas: only `apiVersion` differs."""

    accepts_invalid_objects = True

    def __init__(self, group: str) -> None:
        self.group = group

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Set `apiVersion`."""
        api_version = str(GroupVersion(self.group, to_version))
        for obj in objects:
            obj["apiVersion"] = api_version
        return objects


class HubConverter:
    """Converter with a hub version: each other version has a function to the hub and one from it.

    The functions convert a dict to a dict. They can ignore `apiVersion`, `kind` and `metadata`, which are set
    afterwards.
    """

    def __init__(
        self,
        group: str,
        hub: str,
        to_hub: Mapping[str, Callable[[Object], Object]],
        from_hub: Mapping[str, Callable[[Object], Object]],
        *,
        returns_declared_fields: bool = False,
    ) -> None:
        """`returns_declared_fields`: whether the functions return only fields of the schema, so that their
        results need not be pruned."""
        self.group = group
        self.hub = hub
        self.to_hub = dict(to_hub)
        self.from_hub = dict(from_hub)
        self.returns_declared_fields = returns_declared_fields

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Convert through the hub."""
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
