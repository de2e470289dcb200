"""Label and field selectors in every form that the verbs accept.

`labels=` takes text (`"app=web,tier!=db"`), a mapping, a `Selector` or a `LabelSelector`; `fields=` takes
text, a mapping or a `FieldSelector`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.api.meta import LabelSelector
from kubewright.api.selectors.field_selectors import FieldSelector, field_selector, parse_field_selector
from kubewright.api.selectors.label_selectors import (
    Selector,
    parse_selector,
    selector_from_labels,
    selector_of,
)

Labels = str | Mapping[str, str] | Selector | LabelSelector
Fields = str | Mapping[str, str] | FieldSelector


def format_labels(labels: Labels | None) -> str:
    """Return a label selector as query text."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    if isinstance(labels, LabelSelector):
        return str(selector_of(labels))
    if isinstance(labels, Mapping):
        return str(selector_from_labels(dict(labels)))
    return str(labels)


def format_fields(fields: Fields | None, *, name: str | None = None) -> str:
    """Return a field selector as query text; `name` adds a requirement for `metadata.name`."""
    if fields is None or isinstance(fields, str):
        text = fields or ""
    else:
        text = str(field_selector(fields) if isinstance(fields, Mapping) else fields)
    if not name:
        return text
    return f"metadata.name={name},{text}" if text else f"metadata.name={name}"


def parse_labels(labels: Labels | None) -> Selector | None:
    """Return a label selector that can be matched; `None` for one that matches everything."""
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
    """Return a field selector as terms; `None` for one that matches everything."""
    if fields is None:
        return None
    if isinstance(fields, str):
        selector = parse_field_selector(fields)
    else:
        selector = fields if isinstance(fields, FieldSelector) else field_selector(fields)
    return None if selector.empty else selector
