"""Resources of an `APIServer` from the declarations of an `APIServerApp`.

Conversion between versions with a `Converter`, as conversion webhooks have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.encoding import codec
from kubewright.api.errors import BadRequest
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.typed import resource_of
from kubewright.extension.rest.backend_storage import BackendStorage
from kubewright.extension.strategy import strategy_with
from kubewright.schema.defaulting import apply_defaults
from kubewright.webhook.conversion import ConversionError, Converter

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.extension.app import DeclaredResource
    from kubewright.schema.structural import Node


def build_resource(declared: DeclaredResource, values: Mapping[str, Any]) -> Resource:
    """Return the resource of a kind in all its versions."""
    if len(declared.kinds) > 1 and declared.hub is None:
        names = ", ".join(each.__name__ for each in declared.kinds)
        raise ValueError(
            f"{names} are versions of {declared.group_kind} without a hub; set hub=True in the @resource of "
            "one of them, and convert the others to it"
        )
    options = declared.options.copy()
    strategy = strategy_with(
        declared.strategy,
        defaults=declared.defaults,
        validations=declared.validations,
        values=values,
        rest=declared.rest,
    )
    if declared.rest is not None:
        declared.rest.check(declared.group_kind.kind, graceful=strategy.graceful)
        options.setdefault("verbs", declared.rest.verbs)
        options["backend"] = partial(BackendStorage, declared.rest)
    schemas: dict[str, Node | None] = {}
    converter = None
    if declared.converter is not None:
        missing = [each.__name__ for each in declared.added if each not in declared.converter.types]
        if missing:
            raise ValueError(
                f"the converter of {declared.converter.kind} has no conversion of {', '.join(missing)}"
            )
        converter = ConverterAdapter(declared.converter, schemas)
    resource = resource_of(
        *declared.kinds,
        hub=declared.hub,
        storage=declared.storage,
        strategy=strategy,
        subresources={each.name: each.build(values) for each in declared.subresources},
        converter=converter,
        **options,
    )
    schemas.update({version.name: version.schema for version in resource.versions})
    return resource


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
