"""Select the objects of a list from a store: namespace, labels, fields and owner, through indexes."""

from __future__ import annotations

from kubewright.cache.errors import NotCached
from kubewright.cache.informers.informer import Informer
from kubewright.client.selectors import Fields, Labels, parse_fields, parse_labels

from .indexes import LABELS, OWNER, label_index
from .store import CacheEntry, ObjectKey, labels_of


def describe_scope(informer: Informer) -> str:
    """Return what an informer is limited to, for messages."""
    parts = []
    if "" not in informer.namespaces:
        parts.append(f"namespaces {', '.join(informer.namespaces)}")
    if informer.labels is not None:
        parts.append(f"labels {informer.labels}")
    if informer.filtered_by_fields:
        parts.append("a field selector")
    return f"the cache is limited to {' and '.join(parts)}"


def select_entries(
    informer: Informer, namespace: str | None, labels: Labels | None, fields: Fields | None, owner: str
) -> list[tuple[ObjectKey, CacheEntry]]:
    """Return the objects that match all conditions, through the indexes that exist."""
    store = informer.store
    indexed: list[tuple[str, str]] = [(OWNER, owner)] if owner else []
    by_key: list[tuple[int, str]] = []
    for field, value, negated in selector.terms if (selector := parse_fields(fields)) is not None else ():
        if not negated and field in ("metadata.name", "metadata.namespace"):
            by_key.append((field == "metadata.name", value))
            continue
        if negated:
            raise NotCached(
                f"a cached list cannot select {field}!={value}; read through `client.uncached` instead"
            )
        if not store.has_index(field):
            raise NotCached(
                f"a cached list by {field} needs an index: add it with "
                f'cache.add_index({informer.gvk.kind}, by_field("{field}")), '
                "or read through `client.uncached`"
            )
        indexed.append((field, value))
    if owner and not store.has_index(OWNER):
        raise NotCached(
            f"a cached list by owner needs an index: cache.add_index({informer.gvk.kind}, by_owner())"
        )
    label_selector = parse_labels(labels)
    if label_selector is not None:
        for requirement in label_selector.requirements:
            name = label_index(requirement.key)
            exact = label_selector.exact(requirement.key)
            if exact is None:
                continue
            if store.has_index(name):
                indexed.append((name, exact))
            elif store.has_index(LABELS):
                indexed.append((LABELS, f"{requirement.key}={exact}"))
    if indexed:
        (first, value), *others = sorted(indexed, key=lambda each: store.count(*each))
        entries = list(store.indexed(first, value, namespace))
        for name, value in others:
            entries = [each for each in entries if store.has_value(name, each[0], value)]
    else:
        entries = list(store.entries(namespace))
    for position, value in by_key:
        entries = [each for each in entries if each[0][position] == value]
    if label_selector is not None:
        entries = [each for each in entries if label_selector.matches(labels_of(each[1]))]
    return entries
