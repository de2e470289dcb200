"""Defaulting: missing fields are set to the default of their schema, outermost first.

A default applies if the field is missing, or null and not nullable. A default inside an object applies only
if the object exists: give the object the default `{}` to have it created.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.api.presence import copy_value

from .structural import NO_DEFAULT, Node

_UNSEEN: Final = object()


def apply_defaults(value: Any, node: Node | None) -> None:
    """Apply defaults in place."""
    if node is None:
        return
    if type(value) is dict:
        facts = node.extra.get("defaults")
        if facts is None:
            facts = node.extra["defaults"] = _field_defaults(node)
        for name, default, nullable in facts:
            current = value.get(name, _UNSEEN)
            if current is _UNSEEN or (current is None and not nullable):
                value[name] = copy_value(default)
        if not _reaches_defaults(node):
            return
        properties = node.properties
        additional = node.additional if isinstance(node.raw.get("additionalProperties"), dict) else None
        for name, item in value.items():
            child = properties.get(name)
            if child is None:
                child = additional
                if child is None:
                    continue
                if item is None and not child.nullable:
                    value[name] = item = _own_default(child)
            if type(item) is dict or type(item) is list:
                apply_defaults(item, child)
    elif type(value) is list:
        items = node.items
        if items is None or not _reaches_defaults(node):
            return
        for position, item in enumerate(value):
            if item is None and not items.nullable:
                value[position] = item = _own_default(items)
            if type(item) is dict or type(item) is list:
                apply_defaults(item, items)


def _own_default(node: Node) -> Any:
    return None if node.default is NO_DEFAULT else copy_value(node.default)


def _field_defaults(node: Node) -> list[tuple[str, Any, bool]]:
    return [
        (name, child.default, child.nullable)
        for name, child in node.properties.items()
        if _has_default(child)
    ]


def _has_default(node: Node) -> bool:
    return node.default is not NO_DEFAULT and node.default is not None


def _reaches_defaults(node: Node) -> bool:
    return node.reaches("reaches-defaults", _has_default)
