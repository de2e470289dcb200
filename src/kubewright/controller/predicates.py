"""Predicates: filters that decide which changes cause a reconcile.

A predicate is a function from an `ObjectChange` to a boolean; combine predicates with `&`, `|` and `~`. They
compare the metadata of the old and the new version; a creation, the initial list and a resync have no old
version, a deletion no new one. So predicates of changes accept resyncs (`resync=0` turns these off), and
those of objects select what is resynced. Predicates do not save memory: objects that should not be cached are
excluded in the options of the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kubewright.api.encoding.codec import HeaderMeta
from kubewright.api.selectors.label_selectors import Selector, parse_selector
from kubewright.cache.stores.store import ObjectChange

T = TypeVar("T")


class Predicate:
    """Filter of changes. Wrap a function in it to combine it with other predicates."""

    __slots__ = ("_test", "name")

    def __init__(self, test: Callable[[ObjectChange], bool], name: str = "") -> None:
        self._test = test
        self.name = name or getattr(test, "__name__", "predicate")

    def __call__(self, change: ObjectChange) -> bool:
        """Whether the change passes."""
        return self._test(change)

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(lambda change: self(change) and other(change), f"({self.name} & {other.name})")

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(lambda change: self(change) or other(change), f"({self.name} | {other.name})")

    def __invert__(self) -> Predicate:
        return Predicate(lambda change: not self(change), f"~{self.name}")

    def __repr__(self) -> str:
        return f"Predicate({self.name})"


def _on_update(differs: Callable[[HeaderMeta, HeaderMeta], bool], name: str) -> Predicate:
    """Return a predicate that accepts creations, deletions, and updates whose versions differ."""

    def test(change: ObjectChange) -> bool:
        if change.old is None or change.new is None:
            return True
        return differs(change.old.header().metadata, change.new.header().metadata)

    return Predicate(test, name)


def _changed(field: str) -> Predicate:
    def differs(old: Any, new: Any) -> bool:
        return bool((getattr(old, field) or None) != (getattr(new, field) or None))

    return _on_update(differs, f"{field}_changed")


generation_changed = _changed("generation")
"""Accepts changes of the spec, but not of status or metadata only."""
labels_changed = _changed("labels")
"""Accepts changes of labels."""
annotations_changed = _changed("annotations")
"""Accepts changes of annotations."""
finalizers_changed = _changed("finalizers")
"""Accepts changes of finalizers."""
deletion_started = _changed("deletion_timestamp")
"""Accepts the update that sets the deletion timestamp."""
resource_version_changed = Predicate(
    lambda change: change.old is None or change.new is None or change.old.revision != change.new.revision,
    "resource_version_changed",
)
"""Accepts changes of the resource version: in a controller all of them, in a handler of an informer all but
resyncs."""

created = Predicate(lambda change: change.old is None, "created")
updated = Predicate(lambda change: change.old is not None and change.new is not None, "updated")
deleted = Predicate(lambda change: change.new is None, "deleted")


def has_labels(selector: str | Selector) -> Predicate:
    """Accept objects that match a label selector; a deleted object is matched by its last version."""
    wanted = parse_selector(selector) if isinstance(selector, str) else selector

    def test(change: ObjectChange) -> bool:
        entry = change.new or change.old
        return entry is not None and wanted.matches(entry.header().metadata.labels or {})

    return Predicate(test, f"has_labels({wanted})")


def in_namespaces(*namespaces: str) -> Predicate:
    """Accept objects in these namespaces."""
    wanted = frozenset(namespaces)
    return Predicate(lambda change: change.key.namespace in wanted, f"in_namespaces({', '.join(namespaces)})")


def where(kind: type[T], test: Callable[[T], bool]) -> Predicate:
    """Accept objects for which `test` returns true; a deleted object is tested by its last version."""

    def check(change: ObjectChange) -> bool:
        entry = change.new or change.old
        return entry is not None and test(entry.decode(kind))

    return Predicate(check, getattr(test, "__name__", "where"))
