"""Which objects of an informer a list is about: namespace, labels, fields and owner, through indexes."""

from __future__ import annotations

from kubewright.client.verbs.base import Fields, Labels

from .errors import NotCached
from .indexes import OWNER, label_index
from .informer import Informer
from .kind_options import parse_fields, parse_labels
from .store import CacheEntry, ObjectKey, labels_of


def describe_scope(informer: Informer) -> str:
    """What an informer is limited to, for messages."""
    parts = []
    if "" not in informer.namespaces:
        parts.append(f"namespaces {', '.join(informer.namespaces)}")
    if informer.labels is not None:
        parts.append(f"labels {informer.labels}")
    if informer.filtered_by_fields:
        parts.append("certain fields")
    return f"the cache is limited to {' and '.join(parts)}"


def select_entries(
    informer: Informer, namespace: str | None, labels: Labels | None, fields: Fields | None, owner: str
) -> list[tuple[ObjectKey, CacheEntry]]:
    """The objects that meet every condition, found through the indexes there are."""
    store = informer.store
    wanted: list[tuple[str, str]] = [(OWNER, owner)] if owner else []
    by_name: list[tuple[int, str]] = []
    for field, value, negated in selector.terms if (selector := parse_fields(fields)) is not None else ():
        if not negated and field in ("metadata.name", "metadata.namespace"):
            by_name.append((field == "metadata.name", value))
            continue
        if negated or not store.has_index(field):
            what = "asks for what is not" if negated else "needs an index"
            raise NotCached(
                f"a cached list by {field} {what}: add one with "
                f'cache.add_index({informer.gvk.kind}, by_field("{field}")) and ask for exact values, '
                "or read through `client.uncached`"
            )
        wanted.append((field, value))
    if owner and not store.has_index(OWNER):
        raise NotCached(
            f"a cached list by owner needs an index: cache.add_index({informer.gvk.kind}, by_owner())"
        )
    matching = parse_labels(labels)
    if matching is not None:
        for requirement in matching.requirements:
            name = label_index(requirement.key)
            exact = matching.exact(requirement.key)
            if exact is not None and store.has_index(name):
                wanted.append((name, exact))
    if wanted:
        (first, value), *others = wanted
        found = list(store.indexed(first, value, namespace))
        for name, value in others:
            found = [each for each in found if store.has_value(name, each[0], value)]
    else:
        found = list(store.entries(namespace))
    for position, value in by_name:
        found = [each for each in found if each[0][position] == value]
    if matching is not None:
        found = [each for each in found if matching.matches(labels_of(each[1]))]
    return found


__all__ = ["describe_scope", "select_entries"]
