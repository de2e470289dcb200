"""Resources from Python classes that are declared with `@resource`.

    server.add(resource_of(Guestbook))
    server.add(resource_of(PizzaV1Alpha1, PizzaV1Beta1, hub=PizzaV1Beta1, strategy=PizzaStrategy()))

Several classes are versions of one kind. They are converted through the hub: another class has the methods
`convert_to(hub_class) -> hub object` and, as a class method, `convert_from(hub object) -> object`.

The resources accept strategic merge patches: lists with the marker `ListMap` of one key are merged by that
key, lists with `ListSet` by item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kubewright.api.declaring.declarations import ResourceInfo, has_status, resource_info
from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.meta import ObjectMeta
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.generation.from_types import schema_of
from kubewright.schema.generation.protobuf_messages import message_lines
from kubewright.schema.structural import Node
from kubewright.storage.contract import Storage

from .conversion import HubConverter, VersionConverter
from .objects import Object
from .resource import PATCH_TYPES, Resource, TableColumn, VerbFunction, Version
from .strategy import Strategy
from .subresource import ScaleSubresource, StatusSubresource, Subresource

if TYPE_CHECKING:
    from kubewright.apiserver.encoding.protobuf import ProtobufCodec


_NO_METADATA = ObjectMeta()


class ResourceSettings(TypedDict, total=False):
    """Fields of `Resource` that a class does not declare."""

    verbs: tuple[str, ...]
    patch_types: tuple[str, ...]
    custom: bool
    storage_prefix: str
    message_prefix: str
    group_priority: int
    version_priority: int
    handlers: Mapping[str, VerbFunction]
    backend: Callable[[Resource, Storage, str], Storage] | None
    body_limit: int
    storage_version_hash: bool


def resource_of(
    *classes: type,
    hub: type | None = None,
    storage: type | None = None,
    strategy: Strategy | None = None,
    subresources: Mapping[str, Subresource] | None = None,
    converter: VersionConverter | None = None,
    **settings: Unpack[ResourceSettings],
) -> Resource:
    """Return the resource that the classes declare, one version each; `settings` are fields of `Resource`.

    `converter` replaces the conversion methods of the classes.
    """
    if not classes:
        raise TypeError("resource_of needs at least one class")
    infos = [resource_info(cls) for cls in classes]
    first = infos[0]
    for info in infos[1:]:
        if (info.gvk.group, info.gvk.kind, info.scope) != (first.gvk.group, first.gvk.kind, first.scope):
            raise ValueError(f"{info.gvk} and {first.gvk} are not versions of one kind")
    if hub is None:
        hub = next((cls for cls, info in zip(classes, infos, strict=True) if info.hub), None)
    if storage is None:
        storage = next((cls for cls, info in zip(classes, infos, strict=True) if info.storage), hub)
    versions = [_version(cls, info, subresources or {}) for cls, info in zip(classes, infos, strict=True)]
    settings.setdefault("patch_types", PATCH_TYPES)
    if converter is None and hub is not None and len(classes) > 1:
        converter = _converter(first.gvk.group, hub, classes, versions)
    return Resource(
        group=first.gvk.group,
        kind=first.gvk.kind,
        plural=first.plural,
        singular=first.singular,
        list_kind=first.list_kind,
        short_names=tuple(dict.fromkeys(name for info in infos for name in info.short_names)),
        categories=tuple(dict.fromkeys(name for info in infos for name in info.categories)),
        namespaced=first.namespaced,
        versions=versions,
        storage_version=resource_info(storage).gvk.version if storage is not None else "",
        hub_version=resource_info(hub).gvk.version if hub is not None and len(classes) > 1 else "",
        converter=converter,
        strategy=strategy or Strategy(),
        **settings,
    )


def _version(cls: type, info: ResourceInfo, extra: Mapping[str, Subresource]) -> Version:
    subresources: dict[str, Subresource] = {}
    if has_status(cls):
        subresources["status"] = StatusSubresource()
    if info.scale is not None:
        subresources["scale"] = ScaleSubresource(
            spec_replicas_path=info.scale.spec_replicas,
            status_replicas_path=info.scale.status_replicas,
            label_selector_path=info.scale.selector or "",
        )
    subresources.update(extra)
    columns = [
        TableColumn(each.name, each.json_path, each.type, each.format, each.description, each.priority)
        for each in info.columns
    ]
    return Version(
        name=info.gvk.version,
        wire=_wire(cls, info),
        schema=Node(with_patch_strategies(schema_of(cls))),
        type=cls,
        served=info.served,
        deprecated=info.deprecated,
        deprecation_warning=info.deprecation_warning or "",
        columns=columns or None,
        subresources=subresources,
        field_selectors={path.lstrip("."): path for path in info.selectable_fields},
    )


def _wire(cls: type, info: ResourceInfo) -> ProtobufCodec | None:
    """Return the protobuf codec of a class with field numbers, after adding its messages to it."""
    gvk = info.gvk
    home = ".".join([*reversed(gvk.group.split(".")), gvk.version])
    lines = message_lines(cls, home)
    if not lines:
        return None
    from kubewright.apiserver.encoding.protobuf import builtin_codec

    codec = builtin_codec()
    codec.add_kind(gvk.api_version, gvk.kind, info.list_kind, lines)
    return codec


def with_patch_strategies(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose sets and list-maps have the patch strategy `merge`.

    A strategic merge patch merges by one key; list-maps with several are replaced.
    """
    result = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(result.get(name), dict):
            result[name] = with_patch_strategies(result[name])
    if "properties" in result:
        result["properties"] = {
            name: with_patch_strategies(each) for name, each in result["properties"].items()
        }
    keys: list[str] = result.get("x-kubernetes-list-map-keys") or []
    if len(keys) == 1:
        result["x-kubernetes-patch-merge-key"] = keys[0]
    if len(keys) == 1 or result.get("x-kubernetes-list-type") == "set":
        result.setdefault("x-kubernetes-patch-strategy", "merge")
    return result


def _converter(group: str, hub: type, classes: tuple[type, ...], versions: list[Version]) -> HubConverter:
    nodes = {version.type: version.schema for version in versions}
    to_hub: dict[str, Callable[[Object], Object]] = {}
    from_hub: dict[str, Callable[[Object], Object]] = {}
    for cls in classes:
        if cls is hub:
            continue
        for method in ("convert_to", "convert_from"):
            if not callable(getattr(cls, method, None)):
                raise TypeError(f"{cls.__name__} is not the hub and has no {method}")
        version = resource_info(cls).gvk.version
        to_hub[version] = _forward(cls, hub, nodes[hub])
        from_hub[version] = _backward(cls, hub, nodes[cls])
    return HubConverter(group, resource_info(hub).gvk.version, to_hub, from_hub, returns_declared_fields=True)


def _forward(cls: Any, hub: type, node: Node | None) -> Callable[[Object], Object]:
    def convert(obj: Object) -> Object:
        return _plain_fields(_decode(obj, cls).convert_to(hub), node)

    return convert


def _backward(cls: Any, hub: type, node: Node | None) -> Callable[[Object], Object]:
    def convert(obj: Object) -> Object:
        return _plain_fields(cls.convert_from(_decode(obj, hub)), node)

    return convert


def _decode(obj: Object, cls: Any) -> Any:
    """Decode an object for a conversion, which does not need the largest part of the metadata."""
    metadata = obj.get("metadata")
    if metadata and "managedFields" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
        obj = {**obj, "metadata": metadata}
    return from_plain(obj, cls)


def _plain_fields(converted: Any, node: Node | None) -> Object:
    """Encode a converted object without its metadata, which stays that of the source."""
    converted.metadata = _NO_METADATA
    plain: Object = to_plain(converted)
    plain.pop("metadata", None)
    apply_defaults(plain, node)
    return plain
