"""Conversion between the versions of a kind, through one of them: the hub.

Each other version (a *spoke*) defines the conversion to and from the hub, by rules for fields
(`conversion_rules`) or by functions, so that every version can be converted to every other. Metadata is
preserved, except labels and annotations, which a conversion may set. A converted object is complete: it has
the defaults of the target version, as it would have if it had been created in that version.

Conversion by rules loses nothing: what a version cannot represent is stored in an annotation
(`preserved_fields`). Functions are called as they are; `lost_fields` finds fields that a round trip loses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import msgspec

from kubewright.api.declaring.declarations import resource_info
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.presence import copy_value
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.generation.from_types import Options, SchemaBuilder
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node
from kubewright.tracebacks import trim_traceback

from .conversion_rules import FieldRule, RuleSet
from .preserved_fields import Document, Record, annotation_of, differences, merge, restore, store, take
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
        self.kind: GroupKind = kind_of(hub).group_kind
        self._types: dict[str, type[MetaObject]] = {kind_of(hub).version: hub}
        self._spokes: dict[str, Spoke] = {}

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
        gvk = kind_of(kind)
        if gvk.group_kind != self.kind:
            raise ValueError(f"{kind.__qualname__} is {gvk}, not a version of {self.kind}")
        if rules is not None:
            self._spokes[gvk.version] = RuleSpoke(kind, self.hub, RuleSet(rules), adjust_hub, adjust_spoke)
        elif to_hub is not None and from_hub is not None:
            self._spokes[gvk.version] = FunctionSpoke(kind, self.hub, to_hub, from_hub)
        else:
            raise TypeError(
                f"spoke({kind.__qualname__}): pass rules=(...), or to_hub= and from_hub=; rules=() copies "
                "all fields"
            )
        self._types[gvk.version] = kind

    @property
    def types(self) -> list[type[MetaObject]]:
        """The class of every version, starting with the hub."""
        return list(self._types.values())

    @property
    def spokes(self) -> list[Spoke]:
        """The conversions between the hub and every other version."""
        return list(self._spokes.values())

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
        apply_defaults(plain, schema_node(source))
        converted = plain
        if source is not self.hub:
            converted = self._spokes[from_version].to_hub(converted)
        if target is not self.hub:
            converted = self._spokes[to_version].from_hub(converted)
        converted["metadata"] = _converted_metadata(plain, converted)
        return converted


def _converted_metadata(before: Document, after: Document) -> Document:
    """Return the metadata of the source with the labels and annotations of the target."""
    metadata = {**(before.get("metadata") or {})}
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
        if (after.get("metadata") or {}).get(name):
            metadata[name] = after["metadata"][name]
    return metadata


class Spoke(Protocol):
    """Conversion between a version and the hub; takes and returns complete objects, as in JSON."""

    @property
    def kind(self) -> type[MetaObject]:
        """The class of the version."""

    @property
    def hub(self) -> type[MetaObject]:
        """The class of the hub."""

    def to_hub(self, document: Document) -> Document:
        """Convert an object of the spoke."""

    def from_hub(self, document: Document) -> Document:
        """Convert an object of the hub."""


@dataclass(frozen=True, slots=True)
class FunctionSpoke:
    """Conversion by functions of typed objects."""

    kind: type[MetaObject]
    hub: type[MetaObject]
    convert_to_hub: Callable[[Any], MetaObject]
    convert_from_hub: Callable[[Any], MetaObject]

    def to_hub(self, document: Document) -> Document:
        """Convert an object of the spoke."""
        return self._convert(document, self.convert_to_hub, self.kind, self.hub)

    def from_hub(self, document: Document) -> Document:
        """Convert an object of the hub."""
        return self._convert(document, self.convert_from_hub, self.hub, self.kind)

    def _convert(
        self,
        document: Document,
        function: Callable[[Any], MetaObject],
        source: type[MetaObject],
        target: type[MetaObject],
    ) -> Document:
        obj = function(codec.from_plain(document, source))
        converted: Document = codec.to_plain(obj)
        given = document.get("metadata") or {}
        metadata = converted["metadata"] = {
            # A function that does not set labels or annotations preserves them; an empty map removes them.
            name: found if (found := getattr(obj.metadata, name)) is not None else given.get(name)
            for name in ("labels", "annotations")
        }
        for name in [name for name, value in metadata.items() if not value]:
            del metadata[name]
        _complete(converted, target)
        return converted


class _Restored(NamedTuple):
    """A converted object with restored fields."""

    document: Document
    hidden: list[Record]
    """Fields of the source that it does not represent."""
    skipped: list[Record]
    """Fields that were not restored, because the object that had them does not exist."""


@dataclass(frozen=True, slots=True)
class RuleSpoke:
    """Conversion by rules, then by functions that adjust the result; nothing is lost."""

    kind: type[MetaObject]
    hub: type[MetaObject]
    rules: RuleSet
    adjust_hub: Callable[[Any, Any], None] | None = None
    adjust_spoke: Callable[[Any, Any], None] | None = None

    def to_hub(self, document: Document) -> Document:
        """Convert an object of the spoke."""
        return self._convert(document, self._represent_in_hub, self._represent_in_spoke, self.kind, self.hub)

    def from_hub(self, document: Document) -> Document:
        """Convert an object of the hub."""
        return self._convert(document, self._represent_in_spoke, self._represent_in_hub, self.hub, self.kind)

    def round_trip(self, document: Document, source: type[MetaObject]) -> Document:
        """Convert an object to the other version and back, without annotations."""
        there, back = self._represent_in_hub, self._represent_in_spoke
        if source is self.hub:
            there, back = back, there
        return back(there(document))

    def _convert(
        self,
        document: Document,
        there: Callable[[Document], Document],
        back: Callable[[Document], Document],
        source: type[MetaObject],
        target: type[MetaObject],
    ) -> Document:
        records = take(document, kind_of(target).version, hub=target is self.hub)
        represented = there(document)

        def restored(onto: Document, some: list[Record], *, create: bool) -> _Restored | None:
            result = copy_value(onto)
            skipped = restore(result, some, schema_node(target), create_parents=create)
            _complete(result, target)
            try:
                codec.from_plain(result, target)
                hidden = list(differences(document, back(result), schema_node(source)))
            except codec.DecodeError:
                return None
            return _Restored(result, hidden, skipped)

        found = restored(represented, records, create=False) if records else None
        if found is None and records:
            # Users can change annotations; an object that cannot be converted could not even be deleted.
            logger.warning(
                "ignored invalid annotation", extra={"annotation": annotation_of(kind_of(target).version)}
            )
        if found is None:
            hidden = list(differences(document, back(represented), schema_node(source)))
            found = _Restored(represented, hidden, [])
        for record in found.skipped:
            # Its object was removed, or only consisted of fields that have another place in the source.
            attempt = restored(found.document, [record], create=True)
            if attempt is not None and attempt.hidden == found.hidden:
                found = attempt
        store(found.document, kind_of(source).version, found.hidden)
        return found.document

    def _represent_in_hub(self, document: Document) -> Document:
        converted = self.rules.to_hub(document)
        return _represent(document, converted, self.kind, self.hub, self.adjust_hub)

    def _represent_in_spoke(self, document: Document) -> Document:
        converted = self.rules.from_hub(document)
        return _represent(document, converted, self.hub, self.kind, self.adjust_spoke)


def _represent(
    document: Document,
    converted: Document,
    source: type[MetaObject],
    target: type[MetaObject],
    adjust: Callable[[Any, Any], None] | None,
) -> Document:
    """Complete what rules have converted, without fields that the target does not have."""
    node = schema_node(target)
    prune(converted, node, root=True)
    _complete(converted, target)
    obj = codec.from_plain(converted, target)
    if adjust is not None:
        before = codec.to_plain(obj)
        adjust(codec.from_plain(document, source), obj)
        # Merged, because an object has no fields that its class does not declare.
        converted = merge(before, converted, codec.to_plain(obj), node)
        _complete(converted, target)
    return converted


def _complete(document: Document, kind: type[MetaObject]) -> None:
    """Set the version and apply its defaults."""
    gvk = kind_of(kind)
    document["apiVersion"], document["kind"] = gvk.api_version, gvk.kind
    apply_defaults(document, schema_node(kind))


@lru_cache(maxsize=256)
def schema_node(kind: type[MetaObject]) -> Node:
    """Return the schema of a version."""
    return Node(SchemaBuilder(Options(allow_floats=True)).schema(kind))


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
            logger.error(
                "converter failed",
                exc_info=trim_traceback(error),
                extra={"desired_api_version": request.desired_api_version},
            )
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
    return lost_in_round_trips(converter, codec.to_plain(obj), type(obj))


def lost_in_round_trips(
    converter: Converter, document: Document, kind: type[MetaObject], *, through: Sequence[str] | None = None
) -> list[str]:
    """Return what `lost_fields` returns, for an object as in JSON.

    With `through`, only round trips through these versions are made, and the versions are not part of the
    result.
    """
    original = copy_value(document)
    apply_defaults(original, schema_node(kind))
    version = kind_of(kind).version
    lost: list[str] = []
    for other in converter.versions if through is None else through:
        if other == version:
            continue
        there = codec.encode(converter.convert(codec.encode(original), other))
        back = converter.convert(there, version)
        suffix = f" (through {other})" if through is None else ""
        lost += [f"{path}{suffix}" for path in _differences(original, back, "")]
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


def kind_of(kind: type[MetaObject]) -> GroupVersionKind:
    """Return the version that a class declares."""
    return kind.gvk if kind.gvk is not None else resource_info(kind).gvk
