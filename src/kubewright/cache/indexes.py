"""Indexes: lists that cost what they return.

An index gives each object of a kind some texts; a list that asks for one of them exactly reads only those
objects. `fields=` of a cached list names indexes, so an index over a field has the name of its path:

    cache.add_index(Pod, by_field("spec.nodeName"))
    cache.list(Pod, fields={"spec.nodeName": "node-1"})

    cache.add_index(Pod, by("image", Pod, lambda pod: {c.image for c in pod.spec.containers}))
    cache.list(Pod, fields={"image": "nginx"})

An index by label is used for every list that asks for one value of it; one by owner for `owner=`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .store import CacheEntry, Indexer, labels_of

logger = logging.getLogger(__name__)

OWNER = "owner"
ObjectT = TypeVar("ObjectT", bound=MetaObject | Unstructured)


class Index(NamedTuple):
    """A name, and the function that says under which texts an object is found."""

    name: str
    indexer: Indexer
    metadata_only: bool = False
    """Whether it needs no more than metadata."""


def by_function(
    name: str, kind: type[ObjectT], function: Callable[[ObjectT], str | Iterable[str] | None]
) -> Index:
    """An index by a function on objects, read as a class or as `Unstructured`."""

    def indexer(entry: CacheEntry) -> Iterable[str]:
        try:
            values = function(entry.decode(kind))
            return () if values is None else (values,) if isinstance(values, str) else tuple(values)
        except Exception:
            logger.exception("the index %r failed; the object is in no list by it", name)
            return ()

    return Index(name, indexer)


def by_field(path: str) -> Index:
    """An index by the value of one field, such as `spec.nodeName`; text, numbers and booleans.

    Objects without the field are found under empty text, as with field selectors of a server.
    """
    steps = path.removeprefix(".").split(".")
    reads: Any = str | int | float | bool | None
    for step in reversed(steps):
        made = msgspec.defstruct("Step", [("value", reads, None)], rename={"value": step}, gc=False)
        reads = made | None
    decode = msgspec.json.Decoder(made).decode
    depth = range(len(steps))

    def indexer(entry: CacheEntry) -> Iterable[str]:
        try:
            value: Any = decode(entry.raw)
        except msgspec.ValidationError:
            return ()
        for _ in depth:
            value = value.value
            if value is None:
                return ("",)
        return (str(value).lower() if isinstance(value, bool) else str(value),)

    return Index(".".join(steps), indexer, steps[0] == "metadata")


def by_label(key: str) -> Index:
    """An index by the value of one label."""

    def indexer(entry: CacheEntry) -> Iterable[str]:
        value = labels_of(entry).get(key)
        return () if value is None else (value,)

    return Index(label_index(key), indexer, metadata_only=True)


def label_index(key: str) -> str:
    """The name of the index by a label."""
    return f"label {key}"


def by_owner() -> Index:
    """An index by the uids of all owners."""

    def indexer(entry: CacheEntry) -> Iterable[str]:
        return [owner.uid for owner in entry.header().metadata.owner_references or ()]

    return Index(OWNER, indexer, metadata_only=True)


__all__ = ["Index", "by_field", "by_function", "by_label", "by_owner"]
