"""Stored objects to response bytes.

An object is stored as JSON in the storage version and begins with a constant

    {"apiVersion":"example.com/v1","kind":"Widget","metadata":{

without a resourceVersion, which is the revision of the write. As plain JSON in the storage version, an object
is served by inserting that field; nothing is decoded. PartialObjectMetadata is cut out of the stored bytes
unless a conversion may change it. Every other form (another version, a Table, YAML) is decoded and encoded
once per event, for all watchers of that form.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersion
from kubewright.api.kubernetes_version import serving_version
from kubewright.apiserver.http.messages import GeneratedPieces, Pieces
from kubewright.apiserver.resources.conversion import ConversionFailed, NoConversion
from kubewright.apiserver.resources.object_schema import prune, upgrade_stored
from kubewright.apiserver.resources.stored_objects import UndecodableObject, UndecodableObjects
from kubewright.storage.contract import KeyValue

from . import tables
from .converted_items import ConvertedItems
from .negotiation import JSON, PROTOBUF, YAML, ResponseFormat, encode, to_yaml

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version
    from kubewright.apiserver.rest.selection import Selection

_decode = msgspec.json.Decoder().decode
_LAST = ("apiVersion", "kind", "metadata")


class _RawMetadata(msgspec.Struct, gc=False):
    """A stored object of which only the bytes of its metadata are read."""

    metadata: msgspec.Raw


class _Metadata(msgspec.Struct, gc=False):
    """A stored object of which only the metadata is decoded."""

    metadata: dict[str, Any]


_find_metadata = msgspec.json.Decoder(_RawMetadata).decode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode


SLICE = 64
"""Objects that are decoded or encoded before other tasks of the event loop run: about 1.5 ms of a Table."""

SLICE_BYTES = 32 * 1024
"""Stored bytes of such objects; more if a single object is longer."""


_JOIN_SLICE = 250
"""Stored objects of a list that are joined before other tasks run: about 0.5 ms."""

_CUT_SLICE_BYTES = 128 * 1024
"""Stored bytes of objects whose metadata is cut out before other tasks run: about 1 ms."""

_CHECK_SLICE = 2_000
"""Stored objects of a list that are checked before other tasks run: about 0.5 ms."""

_COPY_LIMIT = 1_024
"""Bytes of a stored object up to which a list copies it; longer ones are written from where they are."""

_value_of = attrgetter("value")
_REVISION = b'"resourceVersion":"%d",'
_END_OF_LIST = b"]}\n"


class StorageCodec:
    """Encodes the objects of one resource for storage."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.api_version = str(GroupVersion(resource.group, resource.storage_version))
        self.prefix = _head(self.api_version, resource.kind)

    def pack(self, obj: Object) -> bytes:
        """Encode an object of the storage version."""
        metadata = obj["metadata"]
        if "resourceVersion" in metadata:
            metadata = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        rest = {key: value for key, value in obj.items() if key not in _LAST}
        laid_out = {"apiVersion": self.api_version, "kind": self.resource.kind, "metadata": metadata, **rest}
        return encode(laid_out)

    def unpack(self, value: bytes, revision: int) -> Object:
        """Decode a stored object and set its resourceVersion."""
        try:
            obj: Object = _decode(value)
            obj["metadata"]["resourceVersion"] = str(revision)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError) as error:
            place = f"/registry{self.resource.storage_prefix}/"
            raise UndecodableObject(
                place, revision, f"object not decodable revision={revision}: {error}"
            ) from None
        return obj


def _head(api_version: str, kind: str) -> bytes:
    return encode({"apiVersion": api_version, "kind": kind, "metadata": {}})[:-2]


class Representation:
    """One form of a resource: a version, and whole objects, Tables or metadata only.

    Events of `direct` representations are spliced. `awaits` ones may need an async conversion: objects that
    were written before the storage version changed are converted even if the storage version is requested.
    """

    def __init__(
        self,
        codec: StorageCodec,
        version: Version,
        response_format: ResponseFormat,
        include: str = "Metadata",
    ) -> None:
        resource = codec.resource
        self.codec = codec
        self.resource = resource
        self.version = version
        self.transform = response_format.transform.removesuffix("List")
        self.transform_version = response_format.version
        self.media = response_format.media
        self.include = include
        self.converts = version.name != resource.storage_version
        self.awaits = len(resource.versions) > 1 and inspect.iscoroutinefunction(
            getattr(resource.converter, "convert", None)
        )
        self._is_pruned = getattr(resource.converter, "returns_declared_fields", False)
        self._converted = (
            ConvertedItems()
            if self._is_pruned and self.converts and not self.transform and resource.custom
            else None
        )
        self._cuts_metadata = self.transform == "PartialObjectMetadata" and (
            not self.converts or isinstance(resource.converter, NoConversion)
        )
        self._splices = self._cuts_metadata or not (self.transform or self.converts)
        self.direct = self._splices and self.media == JSON
        self.api_version = str(GroupVersion(resource.group, version.name))
        self.list_field = "rows" if self.transform == "Table" else "items"
        """The field of a list that has the objects; it is the last one."""
        self._table = tables.TablePrinter(resource, version, include) if self.transform == "Table" else None
        self.sorts = self._table is not None and self._table.order is not None
        """Whether the objects of a list have to be sorted."""
        self._hidden_annotation = resource.strategy.table_hidden_annotation if self.transform else ""
        self._partial_head = encode(partial_object_metadata({}, self.transform_version))[:-3]
        self._prefix = codec.prefix
        self._has_prefix = methodcaller("startswith", codec.prefix)
        self._cut = len(codec.prefix)
        self._list_head = b'{"kind":%b,"apiVersion":%b,"metadata":' % (
            encode(resource.list_kind),
            encode(self.api_version),
        )
        self._item_prefix = codec.prefix if resource.custom else b'{"metadata":{'

    def splice(self, value: bytes, revision: int) -> bytes | None:
        """Return the object as JSON without decoding it; `None` if it has to be decoded."""
        if value.startswith(self._prefix) and revision > self.resource.schema_revision:
            if self._cuts_metadata:
                return self._splice_metadata(value, revision)
            cut = self._cut
            return b'%b"resourceVersion":"%d",%b' % (value[:cut], revision, value[cut:])
        return None

    def _splice_metadata(self, value: bytes, revision: int) -> bytes | None:
        try:
            metadata = bytes(_find_metadata(value).metadata)
        except msgspec.DecodeError:
            return None
        if len(metadata) == 2 or (self._hidden_annotation and self._hidden_annotation.encode() in metadata):
            return None
        return b'%b%b,"resourceVersion":"%d"}}' % (self._partial_head, metadata[:-1], revision)

    def objects(self, items: Sequence[tuple[bytes, int]]) -> list[Object]:
        """Decode objects in this version; not for representations with `awaits`."""
        stored = [self._stored(value, revision) for value, revision in items]
        for source, positions in self._by_other_version(stored).items():
            converted: Any = self._convert([stored[position] for position in positions], source)
            for position, obj in zip(positions, converted, strict=True):
                stored[position] = self._pruned(obj)
        return stored

    async def objects_async(self, items: Sequence[tuple[bytes, int]]) -> list[Object]:
        """Decode objects in this version."""
        if not self.awaits:
            return self.objects(items)
        stored = [self._stored(value, revision) for value, revision in items]
        for source, positions in self._by_other_version(stored).items():
            objects = [stored[position] for position in positions]
            try:
                converted: Any = await self._convert(objects, source)
            except ConversionFailed as error:
                if not serving_version().enables("AllowUnsafeMalformedObjectDeletion"):
                    raise
                raise UndecodableObjects(
                    self.resource.group_resource, [self._undecodable(obj, error.message) for obj in objects]
                ) from None
            for position, obj in zip(positions, converted, strict=True):
                stored[position] = self._pruned(obj)
        return stored

    def _undecodable(self, obj: Object, cause: str) -> UndecodableObject:
        metadata = obj["metadata"]
        revision = int(metadata["resourceVersion"])
        place = (self.resource.storage_prefix, metadata.get("namespace"), metadata["name"])
        key = "/registry/" + "/".join(part for part in place if part)
        return UndecodableObject(key, revision, f"object not decodable revision={revision}: {cause}")

    async def object_async(self, value: bytes, revision: int) -> Object:
        """Decode an object in this version."""
        try:
            return (await self.objects_async([(value, revision)]))[0]
        except UndecodableObjects as error:
            (found,) = error.objects
            key = found.key.removeprefix("/registry")
            raise UndecodableObject(key, found.revision, found.cause) from None

    async def select(self, items: Sequence[tuple[bytes, int]], selection: Selection) -> list[bool]:
        """Match stored objects in this version."""
        objects = await self.objects_async(items)
        return [selection.matches(selection.selectable(encode(obj))) for obj in objects]

    def _by_other_version(self, stored: list[Object]) -> dict[str, list[int]]:
        """Return the positions of objects of other versions, by version."""
        found: dict[str, list[int]] = {}
        mine = self.api_version
        for position, obj in enumerate(stored):
            if obj["apiVersion"] != mine:
                found.setdefault(obj["apiVersion"].rpartition("/")[2], []).append(position)
        return found

    def _convert(self, objects: list[Object], source: str) -> Any:
        if self.resource.custom and self.resource.version(source) is None:
            stored = GroupVersion(self.resource.group, source)
            raise APIError(f"request to convert CR from an invalid group/version: {stored}", code=500)
        assert self.resource.converter is not None
        return self.resource.converter.convert(objects, source, self.version.name)

    def _stored(self, value: bytes, revision: int) -> Object:
        if (
            self._cuts_metadata
            and value.startswith(self._prefix)
            and revision > self.resource.schema_revision
        ):
            try:
                metadata = _decode_metadata(value).metadata
            except msgspec.DecodeError:
                pass
            else:
                metadata["resourceVersion"] = str(revision)
                return {"apiVersion": self.api_version, "kind": self.resource.kind, "metadata": metadata}
        obj = self.codec.unpack(value, revision)
        if revision <= self.resource.schema_revision:
            version = self.resource.version(obj["apiVersion"].rpartition("/")[2])
            if version is not None:
                upgrade_stored(obj, version, self.resource)
        return obj

    def _pruned(self, obj: Object) -> Object:
        if not self._is_pruned:
            prune(obj, self.version)
        return obj

    def dump(self, obj: Object) -> bytes:
        """Encode one decoded object in this form."""
        if self._table is not None:
            return encode(
                self._table.table(
                    [obj],
                    _list_metadata(obj),
                    self.transform_version,
                )
            )
        if self.transform:
            return encode(self._partial(obj))
        return encode(obj)

    async def one(self, value: bytes, revision: int) -> bytes:
        """Encode one stored object in this form, as JSON."""
        if self._splices:
            spliced = self.splice(value, revision)
            if spliced is not None:
                return spliced
        return self.dump(await self.object_async(value, revision))

    async def many(self, items: Sequence[KeyValue], metadata: Object) -> bytes | Pieces | GeneratedPieces:
        """Encode a list of stored objects in this form, as JSON."""
        if self._splices:
            join = self._join_metadata if self._cuts_metadata else self._join
            pieces = await join(items, metadata)
            if pieces is not None:
                return pieces
        if self._converted is not None and items:
            return await self._join_converted(items, metadata)
        if self.sorts or not items:
            objects = await self.objects_async([(item.value, item.mod_revision) for item in items])
            return self.dump_list(objects, metadata)
        return await self._dump_in_slices(items, metadata)

    async def _join_converted(self, items: Sequence[KeyValue], metadata: Object) -> Pieces:
        """Return a list of converted objects; those of the last list are not converted again."""
        assert self._converted is not None
        pieces: Pieces = [b'%b%b,"items":[' % (self._list_head, encode(metadata))]
        for part in in_slices(items, SLICE):
            found = [self._converted.get(item) for item in part]
            missing = [item for item, encoded in zip(part, found, strict=True) if encoded is None]
            if missing:
                objects = self.objects([(item.value, item.mod_revision) for item in missing])
                made = iter([encode(obj) for obj in objects])
                found = [encoded if encoded is not None else next(made) for encoded in found]
                for item, encoded in zip(part, found, strict=True):
                    self._converted.add(item, cast("bytes", encoded))
                await asyncio.sleep(0)
            if len(pieces) > 1:
                pieces.append(b",")
            pieces.append(b",".join(cast("list[bytes]", found)))
        pieces.append(_END_OF_LIST)
        return pieces

    async def _dump_in_slices(self, items: Sequence[KeyValue], metadata: Object) -> bytes | Pieces:
        """Encode a list as `dump_list` does, in slices; each is decoded when its turn comes."""
        field = b',"%b":[' % self.list_field.encode()
        pieces: Pieces = []
        for part in in_slices(items, SLICE):
            if pieces:
                await asyncio.sleep(0)
            objects = await self.objects_async([(item.value, item.mod_revision) for item in part])
            whole = self.dump_list(objects, metadata)
            if len(part) == len(items):
                return whole
            start, end = whole.index(field) + len(field), whole.rindex(b"]")
            pieces.append(whole[:start] if not pieces else b",")
            pieces.append(memoryview(whole)[start:end])
        pieces.append(whole[end:] + b"\n")
        return pieces

    async def _join_metadata(self, items: Sequence[KeyValue], metadata: Object) -> Pieces | None:
        """Return a list of the metadata of stored objects; `None` if some objects have to be decoded."""
        pieces: Pieces = []
        for part in in_slices(items, _JOIN_SLICE, _CUT_SLICE_BYTES):
            if pieces:
                await asyncio.sleep(0)
            spliced = [self.splice(item.value, item.mod_revision) for item in part]
            if None in spliced:
                return None
            pieces.append(b"," if pieces else self._partial_list(None, metadata)[:-5] + b"[")
            pieces.append(b",".join(cast("list[bytes]", spliced)))
        if pieces:
            pieces.append(_END_OF_LIST)
        return pieces or None

    def _partial_list(self, items: list[Object] | None, metadata: Object) -> bytes:
        return encode(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{self.transform_version}",
                "metadata": metadata,
                "items": items,
            }
        )

    def dump_list(self, objects: list[Object], metadata: Object) -> bytes:
        """Encode a list of decoded objects of this version."""
        resource = self.resource
        if self._table is not None:
            return encode(self._table.table(objects, metadata, self.transform_version))
        if self.transform:
            return self._partial_list([self._partial(obj) for obj in objects] or None, metadata)
        if not resource.custom:
            objects = [{key: value for key, value in obj.items() if key not in _LAST[:2]} for obj in objects]
        return encode(
            {
                "kind": resource.list_kind,
                "apiVersion": self.api_version,
                "metadata": metadata,
                "items": objects,
            }
        )

    async def _join(self, items: Sequence[KeyValue], metadata: Object) -> Pieces | GeneratedPieces | None:
        """Return a list of stored bytes; `None` if some objects have to be decoded.

        A long one is joined while it is sent, so that a client that reads slowly does not multiply the
        objects in memory.
        """
        head = b'%b%b,"items":[' % (self._list_head, encode(metadata))
        has_prefix, newer_than = self._has_prefix, self.resource.schema_revision
        length = 0
        for at in range(0, len(items), _CHECK_SLICE):
            if at:
                await asyncio.sleep(0)
            _, values, _, revisions = zip(*items[at : at + _CHECK_SLICE], strict=True)
            if min(revisions) <= newer_than or not all(map(has_prefix, values)):
                return None
            length += sum(map(len, values)) + sum(map(len, map(str, revisions)))
        if len(items) <= _JOIN_SLICE:
            return [*self._joined(items, head)]
        separated = len(self._item_prefix) - self._cut + len(_REVISION % 0)  # with a comma, without the digit
        length += len(items) * separated - 1 + len(head) + len(_END_OF_LIST)
        return GeneratedPieces(length, partial(self._joined, items, head))

    def _joined(self, items: Sequence[KeyValue], head: bytes) -> Iterator[bytes | memoryview]:
        """Yield the parts of a list of objects that need not be decoded."""
        cut, before = self._cut, self._item_prefix
        after = b"," + before
        joined = [head]
        for at in range(0, len(items), _JOIN_SLICE):
            if at:
                yield b"".join(joined)
                joined = []
            for _, value, _, revision in items[at : at + _JOIN_SLICE]:
                start = b'%b"resourceVersion":"%d",' % (before, revision)
                before = after
                joined.append(start)
                if len(value) <= _COPY_LIMIT:
                    joined.append(value[cut:])
                    continue
                yield b"".join(joined)
                yield memoryview(value)[cut:]
                joined = []
        joined.append(_END_OF_LIST)
        yield b"".join(joined)

    def event(self, type_: str, obj: Object, *, first: bool = False) -> bytes:
        """Encode a watch event of a decoded object."""
        if self._table is not None:
            shown = self._table.table(
                [obj],
                _list_metadata(obj),
                self.transform_version,
                with_columns=first,
            )
        elif self.transform:
            shown = self._partial(obj)
        else:
            shown = obj
        return self.frame({"type": type_, "object": shown})

    def _partial(self, obj: Object) -> Object:
        shown = partial_object_metadata(obj, self.transform_version)
        if self._hidden_annotation:
            shown["metadata"] = tables.without_annotation(shown["metadata"], self._hidden_annotation)
        return shown

    def frame(self, event: Object) -> bytes:
        """Encode one event in the framing of the stream."""
        if self.media == YAML:
            return b"---\n" + to_yaml(event)
        if self.media == PROTOBUF:
            from .protobuf import watch_frame

            return watch_frame(event)
        return encode(event) + b"\n"

    def bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        """Encode a BOOKMARK event."""
        metadata: Object = {"resourceVersion": str(revision)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, api_version = self.resource.kind, self.api_version
        if self.transform:
            api_version = f"meta.k8s.io/{self.transform_version}"
            kind = self.transform
        obj: Object = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._table is not None:
            obj["columnDefinitions"] = None
            obj["rows"] = []
            if self.resource.custom:
                # kube-apiserver prints the bookmark of a custom resource as a row without values.
                obj["metadata"] = {"resourceVersion": str(revision)}
                obj["rows"] = [self._table.bookmark_row(metadata, self.transform_version)]
        return self.frame({"type": "BOOKMARK", "object": obj})

    @property
    def per_watcher(self) -> bool:
        """Whether the first event of a stream differs from the rest (Tables carry their columns once)."""
        return self._table is not None


def in_slices(
    items: Sequence[KeyValue], limit: int, limit_bytes: int = SLICE_BYTES
) -> Iterator[Sequence[KeyValue]]:
    """Yield consecutive items: at most `limit`, and at most `limit_bytes` of values, at least one."""
    at = 0
    while at < len(items):
        part = items[at : at + limit]
        if sum(map(len, map(_value_of, part))) > limit_bytes:
            sizes = accumulate(map(len, map(_value_of, part)))
            part = part[: max(sum(size <= limit_bytes for size in sizes), 1)]
        yield part
        at += len(part)


def _list_metadata(obj: Object) -> Object:
    version = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


def partial_object_metadata(obj: Object, version: str = "v1") -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata") or {},
    }
