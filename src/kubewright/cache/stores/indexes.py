"""Indexes, so that a list costs as much as it returns.

An index assigns values to each object of a kind; a list by one exact value reads only the objects with that
value. `fields=` of a cached list refers to indexes, so the index of a field has the path of the field as its
name:

    cache.add_index(Pod, by_field("spec.nodeName"))
    cache.list(Pod, fields={"spec.nodeName": "node-1"})

    cache.add_index(Pod, by_function("image", Pod, lambda pod: {c.image for c in pod.spec.containers}))
    cache.list(Pod, fields={"image": "nginx"})

A label index is used by every list with an exact requirement for that label, `by_labels()` by every list with
an exact requirement for any label, an owner index by `owner=`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from kubewright.client.kind_types import ObjectT

from .store import CacheEntry, Indexer, labels_of

logger = logging.getLogger(__name__)

OWNER = "owner"
LABELS = "labels"


class Index(NamedTuple):
    """A name and the function that returns the values of an object."""

    name: str
    indexer: Indexer
    metadata_only: bool = False
    """Whether the function needs only metadata."""


def by_function(
    name: str, kind: type[ObjectT], function: Callable[[ObjectT], str | Iterable[str] | None]
) -> Index:
    """Index objects by a function on the typed or `Unstructured` object.

    An object for which the function fails has no values, and the failure is logged.
    """

    def indexer(entry: CacheEntry) -> Iterable[str]:
        try:
            values = function(entry.decode(kind))
            return () if values is None else (values,) if isinstance(values, str) else tuple(values)
        except Exception:
            meta = entry.header().metadata
            logger.exception(
                "index function failed",
                extra={
                    "index": name,
                    "kind": kind.__name__,
                    "namespace": meta.namespace or "",
                    "object": meta.name or "",
                },
            )
            return ()

    return Index(name, indexer)


def by_field(path: str) -> Index:
    """Index objects by a string, number or boolean field, such as `spec.nodeName`.

    Objects without the field have an empty value, as in field selectors of a server.
    """
    steps = path.removeprefix(".").split(".")
    field_type: Any = str | int | float | bool | None
    for step in reversed(steps):
        struct = msgspec.defstruct("Step", [("value", field_type, None)], rename={"value": step}, gc=False)
        field_type = struct | None
    decode = msgspec.json.Decoder(struct).decode
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
    """Index objects by the value of a label."""

    def indexer(entry: CacheEntry) -> Iterable[str]:
        value = labels_of(entry).get(key)
        return () if value is None else (value,)

    return Index(label_index(key), indexer, metadata_only=True)


def label_index(key: str) -> str:
    """Return the name of the index of a label."""
    return f"label {key}"


def by_labels() -> Index:
    """Index objects by every label, for kinds that are selected by labels that are not known in advance."""

    def indexer(entry: CacheEntry) -> Iterable[str]:
        return [f"{key}={value}" for key, value in labels_of(entry).items()]

    return Index(LABELS, indexer, metadata_only=True)


def by_owner(*, orphans: bool = False) -> Index:
    """Index objects by the uids of all their owners.

    With `orphans`, objects without a controller, which a controller could adopt, have the value `""`.
    """

    def indexer(entry: CacheEntry) -> Iterable[str]:
        owners = entry.header().metadata.owner_references or ()
        found = [owner.uid for owner in owners]
        if orphans and not any(owner.controller for owner in owners):
            found.append("")
        return found

    return Index(OWNER, indexer, metadata_only=True)
