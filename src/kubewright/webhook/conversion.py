"""Conversion between the versions of a kind, through one of them: the hub.

Each other version (a *spoke*) defines the conversion to and from the hub, by rules for fields
(`conversion_rules`) or by functions, so that every version can be converted to every other. Metadata is
preserved, except labels and annotations, which a conversion may set.
`lost_fields` finds fields that a round trip loses, the usual error in conversions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec

from kubewright.api import codec
from kubewright.api.declarations import resource_info
from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.manifests.crds import crd
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.generation.from_types import Options
from kubewright.schema.structural import Node

from .conversion_rules import FieldRule, RuleSet
from .review import InvalidReviewError

logger = logging.getLogger(__name__)

HubT = TypeVar("HubT", bound=MetaObject)
SpokeT = TypeVar("SpokeT", bound=MetaObject)

VERSIONS = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")


class ConversionError(Exception):
    """An object cannot be converted; the message is returned to the client."""


class Converter:
    """The versions of one kind and the conversions between them."""

    def __init__(self, hub: type[MetaObject]) -> None:
        self.hub = hub
        self.kind: GroupKind = _gvk(hub).group_kind
        self._types: dict[str, type[MetaObject]] = {_gvk(hub).version: hub}
        self._to_hub: dict[str, Callable[[Any], MetaObject]] = {}
        self._from_hub: dict[str, Callable[[Any], MetaObject]] = {}

    @overload
    def spoke(
        self, kind: type[SpokeT], *, to_hub: Callable[[SpokeT], HubT], from_hub: Callable[[HubT], SpokeT]
    ) -> None: ...
    @overload
    def spoke(
        self,
        kind: type[SpokeT],
        *,
        rules: Sequence[FieldRule],
        adjust_hub: Callable[[SpokeT, Any], None] | None = None,
        adjust_spoke: Callable[[Any, SpokeT], None] | None = None,
    ) -> None: ...
    def spoke(
        self,
        kind: type[Any],
        *,
        to_hub: Callable[[Any], MetaObject] | None = None,
        from_hub: Callable[[Any], MetaObject] | None = None,
        rules: Sequence[FieldRule] | None = None,
        adjust_hub: Callable[[Any, Any], None] | None = None,
        adjust_spoke: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """Add a version, with functions for both directions, or with rules for fields.

        With `rules`, `adjust_hub(spoke, hub)` and `adjust_spoke(hub, spoke)` change the converted object
        where rules are not sufficient.
        """
        gvk = _gvk(kind)
        if gvk.group_kind != self.kind:
            raise ValueError(f"{kind.__qualname__} is {gvk}, not a version of {self.kind}")
        if rules is not None:
            rule_set = RuleSet(rules)
            to_hub = _by_rules(rule_set.to_hub, kind, self.hub, adjust_hub)
            from_hub = _by_rules(rule_set.from_hub, self.hub, kind, adjust_spoke)
        if to_hub is None or from_hub is None:
            raise TypeError(
                f"spoke({kind.__qualname__}): pass rules=(...), or to_hub= and from_hub=; rules=() copies "
                "all fields"
            )
        self._types[gvk.version] = kind
        self._to_hub[gvk.version] = to_hub
        self._from_hub[gvk.version] = from_hub

    @property
    def types(self) -> list[type[MetaObject]]:
        """The class of every version, starting with the hub."""
        return list(self._types.values())

    @property
    def versions(self) -> list[str]:
        """The names of all versions."""
        return list(self._types)

    def convert(self, raw: bytes, to_version: str) -> dict[str, Any]:
        """Convert one object; raises `ConversionError`."""
        plain: dict[str, Any] = codec.loads(raw)
        try:
            from_version = GroupVersion.parse(str(plain.get("apiVersion"))).version
            if from_version == to_version:
                return plain
            source = self._types[from_version]
            target = self._types[to_version]
        except KeyError as error:
            known = ", ".join(self._types)
            raise ConversionError(f"{self.kind} has no version {error}; it has {known}") from None
        obj: MetaObject = codec.from_plain(plain, source)
        if source is not self.hub:
            obj = self._to_hub[from_version](obj)
        if target is not self.hub:
            obj = self._from_hub[to_version](obj)
        converted: dict[str, Any] = codec.to_plain(obj)
        gvk = _gvk(target)
        rest = {
            key: value for key, value in converted.items() if key not in ("apiVersion", "kind", "metadata")
        }
        metadata = {**plain.get("metadata", {})}
        for name in ("labels", "annotations"):
            ours = getattr(obj.metadata, name)
            if ours:
                metadata[name] = ours
            elif ours is not None:
                metadata.pop(name, None)
        return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **rest}


def _by_rules(
    convert: Callable[[dict[str, Any]], dict[str, Any]],
    source: type[MetaObject],
    target: type[MetaObject],
    adjust: Callable[[Any, Any], None] | None,
) -> Callable[[Any], MetaObject]:
    """Return a function that converts an object with rules, and then with a function."""

    def convert_object(obj: MetaObject) -> MetaObject:
        plain = codec.to_plain(obj)
        # Encoding omits values that are equal to the defaults; rules need them, as defaults can differ.
        apply_defaults(plain, _schema_node(source))
        plain = convert(plain)
        plain["apiVersion"], plain["kind"] = _gvk(target).api_version, _gvk(target).kind
        converted: MetaObject = codec.from_plain(plain, target)
        if adjust is not None:
            adjust(obj, converted)
        return converted

    return convert_object


@lru_cache(maxsize=256)
def _schema_node(kind: type[MetaObject]) -> Node:
    """Return the schema of a version."""
    versions = crd(kind, options=Options(allow_floats=True))["spec"]["versions"]
    return Node(versions[0]["schema"]["openAPIV3Schema"])


class _Request(msgspec.Struct, rename="camel"):
    uid: str = ""
    desired_api_version: msgspec.UnsetType | str = msgspec.field(default="", name="desiredAPIVersion")
    objects: list[msgspec.Raw] = msgspec.field(default_factory=list)


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_read = msgspec.json.Decoder(_Review, strict=False).decode


class ConversionHandler:
    """Converts objects of all registered kinds: the endpoint `/convert`."""

    def __init__(self) -> None:
        self._converters: dict[GroupKind, Converter] = {}

    def add(self, converter: Converter) -> None:
        """Add the converter of a kind."""
        if converter.kind in self._converters:
            raise ValueError(f"a converter for {converter.kind} is already registered")
        self._converters[converter.kind] = converter

    def __bool__(self) -> bool:
        return bool(self._converters)

    def convert_review(self, body: bytes) -> bytes:
        """Process a `ConversionReview`: all of its objects or none. Raises `InvalidReviewError`."""
        try:
            review = _read(body)
        except msgspec.DecodeError as error:
            raise InvalidReviewError(f"the body is not a ConversionReview: {error}") from None
        if review.kind != "ConversionReview" or review.api_version not in VERSIONS or review.request is None:
            raise InvalidReviewError(f"expected a ConversionReview of {' or '.join(VERSIONS)} with a request")
        request = review.request
        response: dict[str, Any] = {"uid": request.uid}
        try:
            wanted = GroupVersion.parse(str(request.desired_api_version))
            response["convertedObjects"] = [self._convert(bytes(raw), wanted) for raw in request.objects]
            response["result"] = {"metadata": {}, "status": "Success"}
        except (ConversionError, codec.DecodeError, ValueError) as error:
            response["result"] = {"metadata": {}, "status": "Failure", "message": str(error)}
        except Exception as error:
            logger.exception("converter failed", extra={"desired_api_version": request.desired_api_version})
            response["result"] = {
                "metadata": {},
                "status": "Failure",
                "message": f"the converter failed: {type(error).__name__}: {error}",
            }
        return codec.encode(
            {"apiVersion": review.api_version, "kind": "ConversionReview", "response": response}
        )

    def _convert(self, raw: bytes, wanted: GroupVersion) -> dict[str, Any]:
        header = codec.decode(raw, codec.ObjectHeader)
        kind = GroupVersionKind.from_api_version(header.api_version, header.kind).group_kind
        converter = self._converters.get(kind)
        if converter is None:
            raise ConversionError(f"no converter is registered for {kind}")
        if kind.group != wanted.group:
            raise ConversionError(f"{kind} has no version in the group {wanted.group!r}")
        return converter.convert(raw, wanted.version)


def lost_fields(converter: Converter, obj: MetaObject) -> list[str]:
    """Return the fields of an object that are lost or changed in a round trip through each other version.

    Labels and annotations that a conversion adds are not lost fields.
    Use it in a property test: `assert not lost_fields(converter, obj)` for generated objects.
    """
    original = codec.to_plain(obj)
    version = _gvk(type(obj)).version
    lost: list[str] = []
    for other in converter.versions:
        if other == version:
            continue
        there = codec.encode(converter.convert(codec.encode(original), other))
        back = converter.convert(there, version)
        lost += [f"{path} (through {other})" for path in _differences(original, back, "")]
    return lost


_ADDED_IN = (".metadata.labels", ".metadata.annotations")


def _differences(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before]
        if path not in _ADDED_IN:
            names += [name for name in after if name not in before]
        return [
            each
            for name in names
            for each in _differences(before.get(name), after.get(name), f"{path}.{name}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for n, (old, new) in pairs for each in _differences(old, new, f"{path}[{n}]")]
    if before is None and path in _ADDED_IN:
        return []
    return [] if before == after else [path.lstrip(".") or "."]


def _gvk(kind: type[MetaObject]) -> GroupVersionKind:
    return kind.gvk if kind.gvk is not None else resource_info(kind).gvk
