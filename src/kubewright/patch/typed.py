"""Operations on values with a merge schema: validate, list fields, remove and extract parts.

The schema (see `merge_schema`) determines what a field is: entries of granular maps, elements of keyed lists
by their keys, members of sets by their value, and atomic maps and lists as a whole.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values import go_format
from kubewright.schema.structural import NO_DEFAULT, Node

from . import field_set, path_elements
from .field_set import LEAF, Tree
from .merge_schema import MAP, SCALAR, MergeSchema
from .path_elements import SELF


class TypedError(ValueError):
    """Values do not match their schema; `errors` has (path, message) pairs."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        self.errors = errors
        lines = [f"{path}: {message}" if path else message for path, message in errors]
        super().__init__(lines[0] if len(lines) == 1 else "\n  ".join(["errors:", *lines]))


def list_element(item: Any, schema: MergeSchema) -> str:
    """Return the path element of `item` in a set or keyed list; raise `ValueError` if it has none."""
    keys = schema.keys
    if not keys:
        if isinstance(item, dict):
            raise ValueError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise ValueError("not supported: associative list with lists as elements")
        if item is None:
            raise ValueError("associative list without keys has an element that's an explicit null")
        return "v:" + path_elements.scalar_json(item)
    if not isinstance(item, dict):
        if item is None:
            raise ValueError("associative list with keys may not have a null element")
        raise ValueError("associative list with keys may not have non-map elements")
    if len(keys) == 1:
        key = keys[0]
        value = item.get(key, NO_DEFAULT)
        if value is not NO_DEFAULT:
            return f'k:{{"{key}":{path_elements.scalar_json(value)}}}'
    found = {key: item[key] for key in keys if key in item}
    for key, default in schema.key_defaults.items():
        found.setdefault(key, default)
    if len(found) < len(keys) and serving_version().includes("-1.33"):
        missing = next(key for key in keys if key not in found)
        raise ValueError(
            f"associative list with keys has an element that omits key field {go_format.quote(missing)} "
            "(and doesn't have default value)"
        )
    if not found:
        names = "[" + " ".join(map(go_format.quote, keys)) + "]"
        raise ValueError(
            f"associative list with keys has an element that omits all key fields {names} "
            "(and doesn't have default values for any key fields)"
        )
    return path_elements.key_element(found)


def validate(value: Any, schema: MergeSchema, *, allow_duplicates: bool = False) -> None:
    """Raise `TypedError` unless `value` matches `schema`: types, declared fields, list keys, duplicates."""
    errors: list[tuple[str, str]] = []
    _validate(value, schema, "", errors, allow_duplicates)
    if errors:
        raise TypedError(errors)


def _validate(
    value: Any, schema: MergeSchema, path: str, errors: list[tuple[str, str]], duplicates: bool
) -> None:
    if value is None:
        return
    kind = schema.kind_of(value)
    if kind == SCALAR:
        problem = _scalar_problem(value, schema)
        if problem:
            errors.append((path, problem))
    elif kind == MAP:
        if value.__class__ is not dict:
            errors.append((path, f"expected map, got &{{{go_format.format_value(value)}}}"))
            return
        if schema.deduced:
            return
        for name, item in value.items():
            child = schema.child(name)
            if child is None:
                errors.append((f"{path}.{name}", "field not declared in schema"))
                return
            _validate(item, child, f"{path}.{name}", errors, duplicates)
    elif value.__class__ is not list:
        errors.append((path, f"expected list, got &{{{go_format.format_value(value)}}}"))
    else:
        _validate_list(value, schema, path, errors, duplicates)


def _validate_list(
    items: list[Any], schema: MergeSchema, path: str, errors: list[tuple[str, str]], duplicates: bool
) -> None:
    if schema.deduced:
        return
    element_schema = schema.element
    seen: set[str] = set()
    for index, item in enumerate(items):
        if schema.list_atomic:
            _validate(item, element_schema, f"{path}[{index}]", errors, duplicates)
            continue
        try:
            element = list_element(item, schema)
        except ValueError as error:
            errors.append((path, f"element {index}: {error}"))
            return
        if element in seen and not duplicates:
            errors.append((path, f"duplicate entries for key {path_elements.element_text(element)}"))
        seen.add(element)
        if schema.keys:
            _validate(item, element_schema, path + path_elements.element_text(element), errors, duplicates)


def _scalar_problem(value: Any, schema: MergeSchema) -> str | None:
    scalar = schema.scalar
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match scalar:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {go_format.type_name(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{go_format.format_literal(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_format.format_value(value)}}}"
        case "untyped" if isinstance(value, (dict, list)):
            return f"expected any scalar, got &{{{go_format.format_value(value)}}}"
        case _:
            return None


def to_fieldset(value: Any, schema: MergeSchema) -> Tree:
    """Return the fields of an applied configuration: its leaves, list elements and map entries."""
    return _fields(value, schema) or {}


def _fields(value: Any, schema: MergeSchema) -> Tree | None:
    """Return the node for a value; `None` if it contains no field (an empty list, a null map)."""
    kind = schema.kind_of(value)
    if kind == SCALAR:
        return LEAF
    if kind == MAP:
        if schema.map_atomic:
            return LEAF
        if value.__class__ is not dict:
            return None
        tree: Tree = {}
        for name, item in value.items():
            if item is None:
                tree["f:" + name] = LEAF
                continue
            node = _fields(item, schema.child(name) or schema)
            if item == {} or not schema.declares(name):
                node = LEAF if not node else ({SELF: LEAF, **node} if SELF not in node else node)
            if node is not None:
                tree["f:" + name] = node
        return tree or None
    if schema.list_atomic:
        return LEAF
    return _list_fields(value, schema) if value.__class__ is list else None


def _list_fields(items: list[Any], schema: MergeSchema) -> Tree | None:
    tree: Tree = {}
    for item in items:
        element = list_element(item, schema)
        if element in tree:
            # Elements with the same key are owned as a whole.
            tree[element] = LEAF
        else:
            node = _fields(item, schema.element)
            tree[element] = LEAF if not node else {SELF: LEAF, **node}
    return tree or None


def name_declared_fields(tree: Tree, schema: MergeSchema | None) -> Tree:
    """Return the set with all declared fields above a member added; map keys are not added."""
    result: Tree = {}
    for key, node in tree.items():
        if not node:
            result[key] = node
            continue
        below: MergeSchema | None = None
        named = False
        if schema is not None:
            if key[0] == "f" and schema.map:
                name = key[2:]
                below = schema.child(name)
                named = schema.declares(name)
            elif key[0] == "k" and schema.list:
                below = schema.element
        node = name_declared_fields(node, below)
        if named and SELF not in node:
            node[SELF] = LEAF
        result[key] = node
    return result


def remove_items(value: Any, tree: Tree, schema: MergeSchema) -> Any:
    """Return `value` without the members of `tree`. A container that becomes empty is null."""
    if not tree:
        return value
    kind = schema.kind_of(value)
    if kind == SCALAR:
        return value
    if kind == MAP:
        if value.__class__ is not dict or not value or schema.map_atomic:
            return None
        return _remove_entries(value, tree, schema)
    if value.__class__ is not list or not value or schema.list_atomic:
        return None
    kept: list[Any] = []
    for item in value:
        node = tree.get(list_element(item, schema))
        if node is None:
            kept.append(item)
        elif node and SELF not in node:
            kept.append(remove_items(item, node, schema.element))
    return kept or None


def _remove_entries(value: dict[str, Any], tree: Tree, schema: MergeSchema) -> dict[str, Any] | None:
    kept: dict[str, Any] = {}
    for name, item in value.items():
        node = tree.get("f:" + name)
        if node is None:
            kept[name] = item
        elif node and SELF not in node:
            kept[name] = remove_items(item, node, schema.child(name) or schema)
    return kept or None


def extract_items(value: Any, tree: Tree, schema: MergeSchema, *, with_keys: bool = False) -> Any:
    """Return the members of `tree` in `value`; `with_keys` also keeps the key fields of list elements."""
    if with_keys:
        tree = _with_key_fields(tree)
    return _extract(value, tree, schema)


def _extract(value: Any, tree: Tree, schema: MergeSchema) -> Any:
    kind = schema.kind_of(value)
    if kind == SCALAR or not value:
        return value
    if kind == MAP:
        if value.__class__ is not dict or schema.map_atomic:
            return value
        fields: dict[str, Any] = {}
        for name, item in value.items():
            node = tree.get("f:" + name)
            if node is not None:
                below = schema.child(name) or schema
                fields[name] = _extract(item, node, below) if field_set.has_children(node) else item
        return fields or None
    if value.__class__ is not list or schema.list_atomic:
        return value
    kept = []
    for item in value:
        node = tree.get(list_element(item, schema))
        if node is not None:
            kept.append(_extract(item, node, schema.element) if field_set.has_children(node) else item)
    return kept or None


def _with_key_fields(tree: Tree) -> Tree:
    result: Tree = {}
    for key, node in tree.items():
        if key[0] == "k" and field_set.has_children(node):
            node = _with_key_fields(node)
            for name in path_elements.key_fields(key):
                node.setdefault("f:" + name, LEAF)
        elif node:
            node = _with_key_fields(node)
        result[key] = node
    return result


def reconcile(tree: Tree, schema: MergeSchema) -> Tree:
    """Adapt a set to fields that became atomic: an owner of a part becomes owner of the whole."""
    if schema.map:
        if schema.deduced:
            return tree
    elif schema.scalar is not None:
        return tree
    result: Tree | None = None
    for key, node in tree.items():
        if not node or not field_set.has_children(node):
            continue
        below = (schema.child(key[2:]) if key[0] == "f" else None) if schema.map else schema.element
        if below is None:
            continue
        after = LEAF if _became_atomic(below) else reconcile(node, below)
        if after is not node:
            if result is None:
                result = dict(tree)
            result[key] = after
    return tree if result is None else result


def _became_atomic(schema: MergeSchema) -> bool:
    if schema.map:
        return schema.map_atomic and not schema.deduced
    return schema.list and schema.scalar is None and schema.list_atomic


_STRUCTS = frozenset(
    (
        *("metadata", "spec", "status", "template", "jobTemplate", "strategy", "updateStrategy", "resources"),
        *(
            "daemonEndpoints",
            "deprecatedSource",
            "devices",
            "involvedObject",
            "kubeletEndpoint",
            "loadBalancer",
        ),
        *("nodeInfo", "podSelector", "pool", "priorityLevelConfiguration", "regarding", "roleRef"),
        *("acceptedNames", "names", "scaleTargetRef", "source", "taint", "target", "user", "userInfo"),
    )
)
"""Fields of built-in types that are structs in Go, which are empty but never absent."""
_ZERO_SCALARS: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def zero_value(node: Node) -> dict[str, Any]:
    """Return the zero value of a built-in type, as in Go.

    Struct fields are there but empty, required lists and maps are null. A new object is compared with this,
    so that the structs themselves have no owner.
    """
    zero: dict[str, Any] = {}
    for name, child in node.properties.items():
        if name in _STRUCTS and child.properties and not _is_pointer(node, name):
            zero[name] = {} if name == "metadata" else zero_value(child)
        elif name in node.required:
            zero[name] = _ZERO_SCALARS.get(child.type)
    return zero


def _is_pointer(node: Node, name: str) -> bool:
    """Return the fields that have the name of a struct field of another type but may be absent."""
    if name == "resources":
        return "accessModes" not in node.properties
    selector = node.properties.get("selector")
    return name == "template" and selector is not None and not selector.properties


def structs(value: dict[str, Any], schema: MergeSchema) -> Tree:
    """Return the set of struct fields of a zero value, without those that are atomic."""
    found: Tree = {}
    for name, item in value.items():
        below = schema.child(name) if isinstance(item, dict) else None
        if below is not None and not below.map_atomic:
            found["f:" + name] = {SELF: LEAF, **structs(item, below)}
    return found
