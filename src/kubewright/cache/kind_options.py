"""What a cache keeps of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubewright.api.field_selectors import FieldSelector, field_selector, parse_field_selector
from kubewright.api.gvk import GroupKind
from kubewright.api.label_selectors import Selector, parse_selector, selector_from_labels, selector_of
from kubewright.api.meta import LabelSelector
from kubewright.client.verbs.base import Fields, Labels

from .indexes import Index
from .informer import Transform
from .store import strip_managed_fields

RESTRICTED_KINDS: Final = (GroupKind("", "Secret"), GroupKind("", "ConfigMap"))
"""Kinds of which a cluster has so many, or so secret, that keeping all of them is never an accident here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """What to keep of one kind. Everything, unless something is said; less is kept with

    - `labels`, `fields`: only objects that these selectors choose; the server does not send others
    - `namespaces`: only objects there; `None` means the namespaces of the cache
    - `metadata_only`: only metadata, until somebody asks for whole objects
    - `transform`: changes the bytes of each object before they are kept; by default managed fields are cut
    """

    labels: Labels | None = None
    fields: Fields | None = None
    namespaces: tuple[str, ...] | None = None
    metadata_only: bool = False
    transform: Transform | None = strip_managed_fields
    indexes: tuple[Index, ...] = ()


def parse_labels(labels: Labels | None) -> Selector | None:
    """Any form of a label selector as one that can be matched; `None` for one that matches everything."""
    if labels is None:
        return None
    if isinstance(labels, str):
        selector = parse_selector(labels)
    elif isinstance(labels, Selector):
        selector = labels
    elif isinstance(labels, LabelSelector):
        selector = selector_of(labels)
    else:
        selector = selector_from_labels(labels)
    return None if selector.empty else selector


def parse_fields(fields: Fields | None) -> FieldSelector | None:
    """Any form of a field selector as terms; `None` for one that matches everything."""
    if fields is None:
        return None
    if isinstance(fields, str):
        selector = parse_field_selector(fields)
    else:
        selector = fields if isinstance(fields, FieldSelector) else field_selector(fields)
    return None if selector.empty else selector


__all__ = ["RESTRICTED_KINDS", "KindOptions"]
