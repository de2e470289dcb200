"""Which changes are worth a reconcile.

A predicate is a function of a `Change`; combine them with `&`, `|` and `~`. They look at the metadata of the
old and the new version; a creation has no old one, a deletion no new one. Predicates do not save memory: what
should not be cached at all is filtered where the cache is set up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kubewright.api.codec import HeaderMeta
from kubewright.api.label_selectors import Selector, parse_selector
from kubewright.cache.store import ObjectChange

T = TypeVar("T")


class Predicate:
    """A test of changes. Wrap a function of your own in it to combine it with others."""

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
    """Creations and deletions pass; an update passes if the two versions differ."""

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
"""The desired state changed, rather than status or metadata. Drops resyncs."""
labels_changed = _changed("labels")
"""Labels changed."""
annotations_changed = _changed("annotations")
"""Annotations changed."""
finalizers_changed = _changed("finalizers")
"""Finalizers changed."""
deletion_started = _changed("deletion_timestamp")
"""The object was marked for deletion."""
resource_version_changed = Predicate(
    lambda change: change.old is None or change.new is None or change.old.revision != change.new.revision,
    "resource_version_changed",
)
"""Anything changed; drops resyncs."""

created = Predicate(lambda change: change.old is None, "created")
updated = Predicate(lambda change: change.old is not None and change.new is not None, "updated")
deleted = Predicate(lambda change: change.new is None, "deleted")


def has_labels(selector: str | Selector) -> Predicate:
    """The object (its last version, for a deletion) matches a label selector."""
    wanted = parse_selector(selector) if isinstance(selector, str) else selector

    def test(change: ObjectChange) -> bool:
        entry = change.new or change.old
        return entry is not None and wanted.matches(entry.header().metadata.labels or {})

    return Predicate(test, f"has_labels({wanted})")


def in_namespaces(*namespaces: str) -> Predicate:
    """The object is in one of these namespaces."""
    wanted = frozenset(namespaces)
    return Predicate(lambda change: change.key.namespace in wanted, f"in_namespaces({', '.join(namespaces)})")


def where(of: type[T], test: Callable[[T], bool]) -> Predicate:
    """The object (its last version, for a deletion), read as a class, passes a test."""

    def check(change: ObjectChange) -> bool:
        entry = change.new or change.old
        return entry is not None and test(entry.decode(of))

    return Predicate(check, getattr(test, "__name__", "where"))
