"""Strategic merge patch: a merge patch that merges lists of built-in types by key.

    {"spec": {"containers": [{"name": "web", "image": "web:2"}, {"name": "old", "$patch": "delete"}]}}

Objects merge and `null` deletes, as in a merge patch. A list whose field has the merge strategy is merged
too: objects by their merge key, scalars as a set; any other list is replaced. Directives:

- `$patch: replace | delete` in an object or list element replaces or deletes it; an element that is only
  `{"$patch": "replace"}` replaces the list.
- `$deleteFromPrimitiveList/<field>: [...]` removes scalars from a list.
- `$setElementOrder/<field>: [...]` gives the order of the elements of the patch; other elements keep
  their place between them.
- `$retainKeys: [...]` drops all other keys of an object.

The strategies come from the schema (`patch_strategy`, `patch_merge_key` of a `Node`), never from list or map
types. `strategic_merge_diff` computes such patches.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from kubewright.api.values.go_format import format_literal, format_value, json_type_name, quote, type_name
from kubewright.schema.structural import Node

from .errors import MalformedPatch, PatchDoesNotApply, PatchFailed, bounded_depth

Object = dict[str, Any]

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
BAD_DELETE_LIST: Final = "invalid patch format of primitive list"
BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"

ElementKind = Literal["map", "scalar"]
_ABSENT: Final = object()

OBJECT_META: Final = Node(
    {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "finalizers": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-patch-strategy": "merge",
            },
            "ownerReferences": {
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
            },
        },
    }
)
"""The strategies of `metadata`, for schemas that do not describe it."""


class ListOfLists(PatchDoesNotApply):
    """A list that must be merged contains lists."""

    def __init__(self) -> None:
        super().__init__("lists of lists are not supported")


@bounded_depth
def apply(document: Object, patch: Any, node: Node | None) -> Object:
    """Return the document with the patch merged in; `node` is its schema. Unchanged parts are shared."""
    if not isinstance(patch, dict):
        kind = json_type_name(patch)
        raise MalformedPatch(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return merge_maps(document, patch, node, combine=False)


def merge_maps(original: Object, patch: Object, node: Node | None, *, combine: bool) -> Object:
    """Merge a patch into an object, or with `combine` into another patch, keeping its directives."""
    if DIRECTIVE in patch:
        return _directed_map(patch)
    result = dict(original)
    patch = dict(patch)
    if RETAIN_KEYS in patch:
        _retain_keys(result, patch, combine)
    for key in [key for key in patch if key.startswith(SET_ORDER)]:
        _merge_ordered_list(result, patch, key, node, combine)
    for key, value in patch.items():
        deletions = key.startswith(DELETE_FROM_LIST)
        if deletions:
            if combine:
                result[key] = value
                continue
            key = _directive_field(key, DELETE_FROM_LIST, BAD_DELETE_LIST)
        if value is None:
            result.pop(key, None)
            if not combine:
                continue
        current = result.get(key, _ABSENT)
        if current is _ABSENT or current.__class__ is not value.__class__:
            if not deletions:
                _set_new(result, key, value, combine)
        elif isinstance(value, dict):
            child, strategy, _ = field_strategy(node, key)
            result[key] = (
                value if strategy == "replace" else merge_maps(current, value, child, combine=combine)
            )
        elif isinstance(value, list):
            child, strategy, merge_key = field_strategy(node, key)
            if strategy == "merge" or deletions:
                result[key] = _merge_lists(current, value, child, merge_key, combine, deletions)
            else:
                result[key] = value
        else:
            result[key] = value
    return result


def _directed_map(patch: Object) -> Object:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise unknown_directive(directive, patch)


def unknown_directive(directive: Any, patch: Object) -> PatchFailed:
    """Return the error for an unknown `$patch` directive."""
    return PatchFailed(f"unknown patch type: {format_value(directive)} in map: {format_value(patch)}")


def no_merge_key(item: Object, merge_key: str) -> PatchFailed:
    """Return the error for a list element without its merge key."""
    return PatchFailed(f"map: {format_value(item)} does not contain declared merge key: {merge_key}")


def bad_type(expected: str, value: Any) -> PatchFailed:
    """Return the error for a value of the wrong type for a directive."""
    actual = type_name(value)
    return PatchFailed(f"expected a {expected}, but received a {'%!s(<nil>)' if value is None else actual}")


def _set_new(result: Object, key: str, value: Any, combine: bool) -> None:
    """Return a new value without directives and, if it is applied, without nulls."""
    cleaned = without_directives(value if combine else _without_nulls(value))
    if cleaned is _ABSENT:
        result.pop(key, None)
    else:
        result[key] = cleaned


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def without_directives(value: Any) -> Any:
    """Return the value without objects that have a directive; `_ABSENT` if it has one itself."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return _ABSENT
        cleaned = {key: without_directives(item) for key, item in value.items()}
        return {key: item for key, item in cleaned.items() if item is not _ABSENT}
    if isinstance(value, list):
        return [item for item in map(without_directives, value) if item is not _ABSENT]
    return value


def _retain_keys(result: Object, patch: Object, combine: bool) -> None:
    retained = patch.pop(RETAIN_KEYS)
    if combine:
        present = result.setdefault(RETAIN_KEYS, retained)
        if present != retained:
            raise PatchFailed(
                f"{format_value(present)} and {format_value(retained)} are not deep equal: "
                "this may happen when calculating the 3-way diff patch"
            )
        return
    if not isinstance(retained, list):
        raise MalformedPatch(BAD_RETAIN_KEYS)
    keys = [key for key in retained if isinstance(key, str)]
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_FROM_LIST, SET_ORDER)) and key not in keys:
            raise MalformedPatch(BAD_RETAIN_KEYS)
    for key in [key for key in result if key not in keys]:
        del result[key]


def _directive_field(key: str, prefix: str, problem: str) -> str:
    head, slash, field = key.partition("/")
    if head != prefix or not slash:
        raise MalformedPatch(problem)
    return field


def _merge_ordered_list(result: Object, patch: Object, key: str, node: Node | None, combine: bool) -> None:
    """Merge and sort the list of a `$setElementOrder`."""
    order = patch.pop(key)
    if combine and result.setdefault(key, order) != order:
        raise MalformedPatch(BAD_SET_ORDER)
    if not isinstance(order, list):
        raise bad_type("[]interface {}", order)
    field = _directive_field(key, SET_ORDER, BAD_SET_ORDER)
    current, items = result.get(field, _ABSENT), patch.get(field, _ABSENT)
    for value in (current, items):
        if value is not _ABSENT and not isinstance(value, list):
            raise bad_type("[]interface {}", value)
    child, strategy, merge_key = field_strategy(node, field)
    if items is not _ABSENT:
        _check_order(items, order, merge_key)
    if items is _ABSENT:
        if current is _ABSENT:
            return
        merged = current
    elif current is _ABSENT:
        merged = without_directives(items)
    elif strategy == "merge":
        merged = _merge_lists(current, items, child, merge_key, combine, False)
    else:
        merged = items
    live = [] if current is _ABSENT else current
    if merge_key and live and items is not _ABSENT and strategy == "merge":
        live = _order_after_deletions(live, items, merge_key)
    known, others = partition(merged, order, merge_key)
    kind = element_kind(live, [] if items is _ABSENT else items)
    result[field] = _ordered(known, others, order, live, merge_key, kind)
    patch.pop(field, None)


def _order_after_deletions(live: list[Any], items: list[Any], merge_key: str) -> list[Any]:
    """Return the live order that Kubernetes uses after a patch deleted elements.

    It removes them from the list in place and lets new elements take the free places at its end, so these
    count as live elements when the order is made.
    """
    deleted = [item for item in items if item.get(DIRECTIVE) == "delete"]
    if not deleted:
        return live
    gone = {element_key(item, merge_key) for item in deleted}
    kept = [item for item in live if element_key(item, merge_key) not in gone]
    free = len(live) - len(kept)
    present = {element_key(item, merge_key) for item in kept}
    new = [item for item in items if DIRECTIVE not in item and element_key(item, merge_key) not in present]
    return [*kept, *new[:free], *live[len(kept) + len(new[:free]) :]]


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """Raise an error if the elements of the patch are not in the order that it declares."""
    if not items or not order:
        return
    remaining = iter(order)
    for item in items:
        if isinstance(item, dict) and DIRECTIVE in item:
            continue
        for position in remaining:
            if same_element(item, position, merge_key):
                break
        else:
            raise PatchFailed(
                f"The order in patch list:\n{format_value(items)}\n doesn't match {SET_ORDER} list:\n"
                f"{format_value(order)}\n"
            )


def same_element(left: Any, right: Any, merge_key: str) -> bool:
    """Return whether two list elements have the same key."""
    if not merge_key:
        return element_key(left, "") == element_key(right, "")
    return merge_value(left, merge_key) == merge_value(right, merge_key)


def merge_value(item: Any, merge_key: str) -> tuple[type, Any]:
    """Return the value of the merge key of an element, in hashable form."""
    if not isinstance(item, dict):
        raise bad_type("map[string]interface {}", item)
    if merge_key not in item:
        raise no_merge_key(item, merge_key)
    return element_key(item, merge_key)


def element_key(item: Any, merge_key: str) -> tuple[type, Any]:
    """Return the identity of a list element: its merge key, or itself."""
    value = item.get(merge_key) if merge_key and isinstance(item, dict) else item
    if isinstance(value, (dict, list)):
        return type(value), format_literal(value)
    return (bool if isinstance(value, bool) else str if isinstance(value, str) else float), value


def element_kind(*lists: list[Any]) -> ElementKind:
    """Return whether the elements are objects or scalars; they must all be of one type."""
    first: str | None = None
    for items in lists:
        for item in items:
            name = type_name(item)
            if isinstance(item, list):
                raise ListOfLists
            if first is None:
                first = name
            elif name != first:
                raise PatchFailed(f"list element types are not identical: {format_value(list(lists))}")
    if first is None:
        raise PatchFailed("no elements in any of the given slices")
    return "map" if first.startswith("map") else "scalar"


def _merge_lists(
    original: list[Any], patch: list[Any], node: Node | None, merge_key: str, combine: bool, deletions: bool
) -> list[Any]:
    if not original and not patch:
        return original
    kind = element_kind(original, patch)
    if kind == "scalar":
        if deletions and not combine:
            gone = {element_key(item, "") for item in patch}
            return [item for item in original if element_key(item, "") not in gone]
        merged = unique_scalars([*original, *patch])
        merge_key = ""
    else:
        if not merge_key:
            raise PatchFailed(f"cannot merge lists without merge key for {_type_text(node)}")
        original, patch = _take_special_elements(original, patch, merge_key)
        merged = _merge_elements(original, patch, merge_key, node, combine)
    known, others = partition(merged, patch, merge_key)
    return _ordered(known, others, patch, original, merge_key, kind)


def _type_text(node: Node | None) -> str:
    return (node.raw.get("title") or node.type or "any") if node is not None else "any"


def _take_special_elements(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Execute the elements that are directives; return the elements to merge."""
    plain: list[Any] = []
    replace = False
    deleted: set[tuple[type, Any]] = set()
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                deleted.add(merge_value(item, merge_key))
            case "replace":
                replace = True
            case "merge":
                raise PatchFailed("merging lists cannot yet be specified in the patch")
            case other:
                raise unknown_directive(other, item)
    if replace:
        return plain, []
    if deleted:
        original = [item for item in original if element_key(item, merge_key) not in deleted]
    return original, plain


def _merge_elements(
    original: list[Any], patch: list[Any], merge_key: str, node: Node | None, combine: bool
) -> list[Any]:
    merged = list(original)
    places: dict[tuple[type, Any], int] = {}
    for place, item in enumerate(merged):
        if merge_key in item:
            places.setdefault(element_key(item, merge_key), place)
    for item in patch:
        key = merge_value(item, merge_key)
        found = places.get(key)
        if found is None:
            places[key] = len(merged)
            merged.append(item)
        else:
            merged[found] = merge_maps(merged[found], item, node, combine=combine)
    return merged


def unique_scalars(items: list[Any]) -> list[Any]:
    """Remove duplicates; as in Kubernetes, the last element replaces the earlier one."""
    items = list(items)
    seen: set[tuple[type, Any]] = set()
    index = 0
    while index < len(items):
        key = element_key(items[index], "")
        if key in seen:
            last = items.pop()
            if index < len(items):
                items[index] = last
        else:
            seen.add(key)
            index += 1
    return items


def partition(items: list[Any], by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return the elements that are in `by`, and the others."""
    if merge_key:
        named = {element_key(item, merge_key) for item in by if isinstance(item, dict) and merge_key in item}
        keys = [merge_value(item, merge_key) for item in items]
    else:
        named = {element_key(item, "") for item in by}
        keys = [element_key(item, "") for item in items]
    known = [item for item, key in zip(items, keys, strict=True) if key in named]
    others = [item for item, key in zip(items, keys, strict=True) if key not in named]
    return known, others


def in_given_order(items: list[Any], order: list[Any], merge_key: str, kind: ElementKind) -> list[Any]:
    """Sort by the position in `order`; elements to delete are last."""
    deleted: list[Any] = []
    if kind == "map":
        for item in (*items, *order):
            merge_value(item, merge_key)
        deleted = [item for item in items if item.get(DIRECTIVE) == "delete"]
        items = [item for item in items if item.get(DIRECTIVE) != "delete"]
    places = _places(order, merge_key)
    # As in Kubernetes, elements without a position are first.
    return [*sorted(items, key=lambda item: places.get(element_key(item, merge_key), -1)), *deleted]


def _places(order: list[Any], merge_key: str) -> dict[tuple[type, Any], int]:
    places: dict[tuple[type, Any], int] = {}
    for place, item in enumerate(order):
        places.setdefault(element_key(item, merge_key), place)
    return places


def _ordered(
    known: list[Any],
    others: list[Any],
    order: list[Any],
    live: list[Any],
    merge_key: str,
    kind: ElementKind,
) -> list[Any]:
    """Return the elements of the patch in its order, with the others at their live position between them."""
    right = in_given_order(known, order, merge_key, kind)
    left = in_given_order(others, live, merge_key, kind)
    if not left or not right:
        return left or right
    places = _places(live, merge_key)
    result: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        here = places.get(element_key(left[i], merge_key))
        there = places.get(element_key(right[j], merge_key))
        if here is not None and there is not None and here < there:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return [*result, *left[i:], *right[j:]]


def field_strategy(node: Node | None, field: str) -> tuple[Node | None, str, str]:
    """Return the schema of a field (of the elements of a list), its patch strategy and merge key."""
    if node is None:
        return None, "", ""
    child = node.child(field)
    if child is None:
        if node.preserve_unknown or not node.properties:
            return None, "", ""
        raise PatchFailed(
            f"unable to find api field in struct {_type_text(node)} for the json field {quote(field)}"
        )
    strategies = [strategy for strategy in child.patch_strategy if strategy != "retainKeys"]
    below = child.items if child.type == "array" else child
    return below, strategies[0] if strategies else "", child.patch_merge_key or ""


def retains_keys(node: Node | None, field: str) -> bool:
    """Return whether patches of this field have `$retainKeys`."""
    child = node.child(field) if node is not None else None
    return child is not None and "retainKeys" in child.patch_strategy
