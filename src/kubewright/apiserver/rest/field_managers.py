"""Field managers of a resource: who owns which field, per version and subresource."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.slices import run_in_worker
from kubewright.patch import FieldManager, FieldSet, VersionNotServed, zero_value
from kubewright.patch.path_elements import fields_path
from kubewright.schema.structural import Node

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version

_decode = msgspec.json.Decoder().decode
_ResultT = TypeVar("_ResultT")

ConversionKey = tuple[bytes, str, str]
"""An encoded object, its version, and the target version."""
_conversions: ContextVar[dict[ConversionKey, bytes]] = ContextVar("conversions")


class ConversionRequired(Exception):
    """A field manager, which is synchronous, needs the result of an async conversion."""

    def __init__(self, key: ConversionKey) -> None:
        super().__init__(key[2])
        self.key = key


async def run_with_conversions(
    function: Callable[[], _ResultT],
    convert: Callable[[Object, str, str], Awaitable[Object]],
    *,
    is_long: bool = False,
) -> _ResultT:
    """Call a function that uses a field manager; it is called again after each async conversion it needs.

    `is_long`: call it in the worker thread.
    """
    results: dict[ConversionKey, bytes] = {}
    token = _conversions.set(results)
    try:
        while True:
            try:
                return await run_in_worker(function) if is_long else function()
            except ConversionRequired as required:
                value, source, target = required.key
                try:
                    result = msgspec.json.encode(await convert(_decode(value), source, target))
                except APIError:
                    result = b""
                results[required.key] = result
    finally:
        _conversions.reset(token)


def make_field_manager(resource: Resource, version: Version, subresource: str) -> FieldManager:
    """Create the field manager of one version and subresource."""
    reset_fields = resource.strategy.reset_fields(subresource)
    if not subresource and "status" not in version.subresources:
        reset_fields = tuple(name for name in reset_fields if name not in resource.strategy.status_fields)
    ignored = {}
    if reset_fields:
        fields = FieldSet.of(*(fields_path(*name.split(".")) for name in reset_fields))
        ignored = {str(GroupVersion(resource.group, each.name)): fields for each in resource.versions}

    def node_for(api_version: str) -> Node | None:
        found = resource.version(api_version.rpartition("/")[2])
        if found is None or api_version != str(GroupVersion(resource.group, found.name)):
            if resource.custom:
                raise APIError(f"request to convert CR to an invalid group/version: {api_version}", code=500)
            raise VersionNotServed(api_version)
        return found.schema

    converts_async = inspect.iscoroutinefunction(getattr(resource.converter, "convert", None))

    def convert(obj: Object, api_version: str) -> Object:
        target = api_version.rpartition("/")[2]
        source = obj["apiVersion"].rpartition("/")[2]
        if resource.version(target) is None or resource.converter is None:
            raise VersionNotServed(api_version)
        if converts_async:
            key = (msgspec.json.encode(obj), source, target)
            result = _conversions.get().get(key)
            if result is None:
                raise ConversionRequired(key)
            if not result:
                raise VersionNotServed(api_version)
            decoded: Object = _decode(result)
            return decoded
        try:
            made: Any = resource.converter.convert([dict(obj)], source, target)
        except Exception as error:
            # Field managers also convert parts of objects, which a converter need not be able to read.
            raise VersionNotServed(api_version) from error
        converted: Object = made[0]
        return converted

    node = version.schema
    empty = None
    if not resource.custom and node is not None:
        empty = {"metadata": {}, **version.shown} if version.shown else zero_value(node)
    return FieldManager(
        str(GroupVersion(resource.group, version.name)),
        resource.kind,
        node,
        subresource=subresource,
        ignored=ignored,
        node_for=node_for,
        convert=convert,
        empty=empty,
    )
