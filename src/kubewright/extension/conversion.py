"""Conversion between versions with a `Converter`, as conversion webhooks have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubewright.api.encoding import codec
from kubewright.api.errors import BadRequest
from kubewright.apiserver.resources.objects import Object
from kubewright.schema.defaulting import apply_defaults
from kubewright.webhook.conversion import ConversionError, Converter

if TYPE_CHECKING:
    from kubewright.schema.structural import Node


class ConverterAdapter:
    """A `VersionConverter` of the server that uses a `Converter`."""

    def __init__(self, converter: Converter, schemas: Mapping[str, Node | None]) -> None:
        self._converter = converter
        self._schemas = schemas

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Convert objects, and apply the defaults of the target version."""
        converted = []
        for obj in objects:
            try:
                result = self._converter.convert(codec.encode(obj), to_version)
            except (ConversionError, codec.DecodeError) as error:
                raise BadRequest(f"conversion from {from_version} to {to_version} failed: {error}") from None
            apply_defaults(result, self._schemas[to_version])
            converted.append(result)
        return converted
