"""Fields that a version cannot represent, stored in an annotation of the converted object.

A `Record` has the path of a field, its value in the source version, and the value that a conversion to the
target version and back results in. When the target object is converted back, possibly after changes, the
three values of the field are merged: what was not changed in the target gets the value of the source, what
was changed keeps the change, and objects, maps and lists are merged by fields, keys and elements. So a client
of one version neither sees nor loses the fields of another.

Elements of lists correspond by their keys (`x-kubernetes-list-map-keys`), or else by equality and order: an
element that was changed in its place corresponds to the element before the change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kubewright.schema.structural import Node

Document = dict[str, Any]
Step = str | Document
"""A name, or the keys of an element of a list."""
MISSING: Any = object()
_TOP = ("apiVersion", "kind", "metadata")
_OLD_ANNOTATION = "conversion.kubewright.io/hub-fields"


@dataclass(frozen=True, slots=True)
class Record:
    """A field of the source that the target cannot represent."""

    path: tuple[Step, ...]
    converted: Any
    """Value after a round trip, or `MISSING`."""
    value: Any
    """Value in the source, or `MISSING`."""


def annotation_of(version: str) -> str:
    """Return the annotation with the fields of a version that the version of the object does not have."""
    return f"conversion.kubewright.io/{version}-fields"


def differences(
    value: Any, converted: Any, node: Node | None, path: tuple[Step, ...] = ()
) -> Iterator[Record]:
    """Return records of the fields that a round trip changes, except metadata."""
    if value is converted or value == converted:
        return
    if isinstance(value, dict) and isinstance(converted, dict):
        for name in sorted(value.keys() | converted.keys()):
            if path or name not in _TOP:
                yield from differences(
                    value.get(name, MISSING), converted.get(name, MISSING), _child(node, name), (*path, name)
                )
    elif isinstance(value, list) and isinstance(converted, list) and (keys := _keys(value, node)):
        if keys != _keys(converted, node):
            yield Record(path, converted, value)
            return
        items = node.items if node is not None else None
        for key, one, other in zip(keys, value, converted, strict=True):
            yield from differences(one, other, items, (*path, json.loads(key)))
    else:
        yield Record(path, converted, value)


def store(document: Document, version: str, records: Sequence[Record]) -> None:
    """Set the annotation with the records of a version, or remove it without records."""
    name = annotation_of(version)
    metadata = dict(document.get("metadata") or {})
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != name}
    if records:
        annotations[name] = json.dumps([_to_plain(each) for each in records], separators=(",", ":"))
    _set_annotations(document, metadata, annotations)


def take(document: Document, version: str, *, hub: bool) -> list[Record]:
    """Remove the annotation with the fields of a version, and return its records.

    `hub` also accepts the annotation that earlier releases wrote for fields of the hub.
    """
    metadata = dict(document.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    found = [annotations.pop(annotation_of(version), None)]
    if hub:
        found.append(annotations.pop(_OLD_ANNOTATION, None))
    if found == [None] * len(found):
        return []
    _set_annotations(document, metadata, annotations)
    return [record for text in found if text is not None for record in _parse(text)]


def _set_annotations(document: Document, metadata: Document, annotations: dict[str, str]) -> None:
    if annotations:
        metadata["annotations"] = annotations
    elif metadata.get("annotations"):
        del metadata["annotations"]
    if metadata or "metadata" in document:
        document["metadata"] = metadata


def _to_plain(record: Record) -> Document:
    plain: Document = {"path": list(record.path)}
    if record.converted is not MISSING:
        plain["converted"] = record.converted
    if record.value is not MISSING:
        plain["value"] = record.value
    return plain


def _parse(text: str) -> list[Record]:
    """Return the records of an annotation; earlier releases wrote lists `[path, converted?, value]`."""
    try:
        found = []
        for each in json.loads(text):
            if isinstance(each, list):
                path, *converted, value = each
                each = {"path": path, "value": value, **({"converted": converted[0]} if converted else {})}
            found.append(
                Record(tuple(each["path"]), each.get("converted", MISSING), each.get("value", MISSING))
            )
        return [
            each for each in found if each.path and all(isinstance(step, str | dict) for step in each.path)
        ]
    except (TypeError, ValueError, KeyError, AttributeError):
        # Users can change annotations; without valid records there is nothing to restore.
        return []


def restore(
    document: Document, records: Iterable[Record], node: Node | None, *, create_parents: bool = False
) -> list[Record]:
    """Merge records into a converted object, in place; return those whose parent object does not exist.

    With `create_parents`, missing parents are created.
    """
    skipped = []
    for record in records:
        parent: Any = document
        here = node
        *steps, last = record.path
        for step in steps:
            found = _element(parent, step)
            if found is MISSING and create_parents and isinstance(step, str) and isinstance(parent, dict):
                found = parent.setdefault(step, {})
            if not isinstance(found, dict | list):
                skipped.append(record)
                break
            parent, here = found, _below(here, step)
        else:
            _merge_into(parent, last, record, _below(here, last))
    return skipped


def _merge_into(parent: Any, step: Step, record: Record, node: Node | None) -> None:
    if isinstance(step, str):
        if isinstance(parent, dict):
            merged = merge(record.converted, record.value, parent.get(step, MISSING), node)
            if merged is MISSING:
                parent.pop(step, None)
            else:
                parent[step] = merged
        return
    position = _position(parent, step)
    if position is not None:
        merged = merge(record.converted, record.value, parent[position], node)
        parent[position : position + 1] = [] if merged is MISSING else [merged]


def merge(converted: Any, value: Any, current: Any, node: Node | None) -> Any:
    """Return `value` with the changes from `converted` to `current`; each of them can be `MISSING`."""
    if current is converted or current == converted:
        return value
    if value is converted or value == converted:
        return current
    if isinstance(converted, dict) and isinstance(value, dict) and isinstance(current, dict):
        merged = {}
        for name in [*current, *(name for name in value if name not in current)]:
            each = merge(
                converted.get(name, MISSING),
                value.get(name, MISSING),
                current.get(name, MISSING),
                _child(node, name),
            )
            if each is not MISSING:
                merged[name] = each
        return merged
    if isinstance(converted, list) and isinstance(value, list) and isinstance(current, list):
        return _merge_lists(converted, value, current, node)
    return current


def _merge_lists(converted: list[Any], value: list[Any], current: list[Any], node: Node | None) -> list[Any]:
    items = node.items if node is not None else None
    keys = _keys(converted, node), _keys(value, node), _keys(current, node)
    if keys[1] and None not in keys:
        sources = _positions_of(keys[0] or [], keys[1])
        previous = _positions_of(keys[2] or [], keys[0] or [])
    else:
        sources = [position if position < len(value) else None for position in range(len(converted))]
        previous = _corresponding(converted, current)
    merged: list[Any] = []
    origins: list[int | None] = []
    for each, before in zip(current, previous, strict=True):
        source = sources[before] if before is not None else None
        if before is None or source is None:
            merged.append(each)
        else:
            merged.append(merge(converted[before], value[source], each, items))
        origins.append(source)
    # Elements that only the source has follow the element that they followed there.
    visible = set(sources)
    for position, each in enumerate(value):
        if position not in visible:
            place = origins.index(position - 1) + 1 if position - 1 in origins else len(merged)
            merged.insert(0 if position == 0 else place, each)
            origins.insert(0 if position == 0 else place, position)
    return merged


def _corresponding(before: list[Any], after: list[Any]) -> list[int | None]:
    """Return for each element of a changed list its position before the change, or `None` for a new one."""
    old, new = [_text(each) for each in before], [_text(each) for each in after]
    found: list[int | None] = [None] * len(new)
    replaced: list[tuple[int, int]] = []
    for operation, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if operation == "equal":
            found[j:j_end] = range(i, i_end)
        elif operation == "replace" and i_end - i == j_end - j:
            replaced += zip(range(i, i_end), range(j, j_end), strict=True)
    unused = [position for position in range(len(old)) if position not in found]
    for j, text in enumerate(new):
        if found[j] is None:
            moved = next((i for i in unused if old[i] == text), None)
            if moved is not None:
                found[j] = moved
                unused.remove(moved)
    for i, j in replaced:
        if found[j] is None and i in unused:
            found[j] = i
    return found


def _positions_of(wanted: Sequence[str], known: Sequence[str]) -> list[int | None]:
    positions = {key: position for position, key in enumerate(known)}
    return [positions.get(key) for key in wanted]


def _keys(values: list[Any], node: Node | None) -> list[str] | None:
    """Return the keys of the elements of a list with keys, or `None` for another list."""
    if node is None or not node.list_map_keys or not all(isinstance(each, dict) for each in values):
        return None
    keys = [_text({name: each.get(name) for name in node.list_map_keys}) for each in values]
    return keys if len(set(keys)) == len(keys) else None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _element(parent: Any, step: Step) -> Any:
    if isinstance(step, str):
        found = parent.get(step, MISSING) if isinstance(parent, dict) else MISSING
        return found if isinstance(found, dict | list) else MISSING
    position = _position(parent, step)
    return MISSING if position is None else parent[position]


def _position(parent: Any, keys: Document) -> int | None:
    if not isinstance(parent, list):
        return None
    return next(
        (
            position
            for position, each in enumerate(parent)
            if isinstance(each, dict) and all(each.get(name) == key for name, key in keys.items())
        ),
        None,
    )


def _child(node: Node | None, name: str) -> Node | None:
    return node.child(name) if node is not None else None


def _below(node: Node | None, step: Step) -> Node | None:
    if node is None:
        return None
    return node.child(step) if isinstance(step, str) else node.items
