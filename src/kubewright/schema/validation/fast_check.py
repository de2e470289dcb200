"""Fast check of a value against a schema.

`check_of(compiled)` returns a function that determines in one pass, without building paths or messages, which
of the exact passes are needed:

    UNKNOWN   a field that pruning would remove, or metadata that coercion would change
    UNFILLED  a missing default, or a null that would be dropped or defaulted
    INVALID   something that validation would report
    REPEATED  a set or a map list that may hold an element twice

For most objects the result is 0. The exact passes (`pruning`, `defaulting`, `values`) run only when their bit
is set. A set bit may be a false positive; a clear bit is exact.

Objects and lists that contain invalid values are added to `bad` by identity, so that the exact pass visits
only those.

Functions are specialised per node and build their tables on first use. A field for which every value of one
Python type is valid costs a dictionary lookup and a type comparison.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.schema.structural import NO_DEFAULT, Node

from .compiled import INVALID, REPEATED, UNFILLED, UNKNOWN, Bad, Check, Compiled
from .embedded import resource_errors
from .metadata import metadata_is_plain
from .values import INT64_MAX, INT64_MIN, enum_matches, is_valid, logic_is_valid, number_is_valid

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def check_of(compiled: Compiled) -> Check:
    """Return the check function of a node, created once."""
    found = compiled.check
    if found is None:
        found = compiled.check = make_check(compiled)
    return found


def compile_all(node: Node) -> None:
    """Compile all nodes of a schema now instead of on first use."""
    waiting, seen = [node], {id(node)}
    while waiting:
        current = waiting.pop()
        check_of(Compiled.of(current))
        for child in (*current.properties.values(), current.additional, current.items):
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def make_check(compiled: Compiled, root: bool = False) -> Check:
    """Create the check function of a node; it builds its tables on the first call."""
    node = compiled.node
    if node.int_or_string:
        inner = _int_or_string_check(compiled)
    elif node.type == "object":
        plain_map = isinstance(compiled.additional_declared, dict) and not node.raw.get("properties")
        inner = (
            _map_check(compiled)
            if plain_map and not (root or node.embedded_resource)
            else (_object_check(compiled, root))
        )
    elif node.type == "array":
        inner = _array_check(compiled)
    elif node.type == "string":
        inner = _string_check(compiled)
    elif node.type == "integer" or node.type == "number":
        inner = _number_check(compiled)
    elif node.type == "boolean":
        inner = _boolean_check(compiled)
    else:
        inner = _untyped_check(compiled)
    if node.nullable:
        allows_null = 0 if compiled.enum is None else INVALID
        required: Check = inner
        return lambda value, bad: allows_null if value is None else required(value, bad)
    return inner


def _misfit(value: Any, bad: Bad) -> int:
    """Return the flags of a value of the wrong type; its fields count as unknown."""
    if value is None:
        return UNFILLED | INVALID
    if type(value) is dict or type(value) is list:
        bad.append(id(value))
        return UNKNOWN | UNFILLED | INVALID
    return INVALID


def _is_int_or_string_logic(raw: dict[str, Any]) -> bool:
    """Return whether the only `anyOf` is the one that int-or-string fields have for older tools."""
    return raw.get("anyOf") == _INT_OR_STRING and not any(raw.get(word) for word in ("allOf", "oneOf", "not"))


def _int_or_string_check(compiled: Compiled) -> Check:
    raw = compiled.node.raw
    numbers = _number_check(compiled, bare=True)
    strings = (
        None
        if not compiled.format_check and not raw.keys() & _STRING_KEYWORDS
        else _string_check(compiled, bare=True)
    )
    logic = compiled.logic and not _is_int_or_string_logic(raw)

    def check(value: Any, bad: Bad) -> int:
        if type(value) is str:
            flags = strings(value, bad) if strings is not None else 0
        elif type(value) is int or type(value) is float:
            flags = numbers(value, bad)
        else:
            return _misfit(value, bad)
        if logic and not flags:
            return 0 if logic_is_valid(compiled, value) else INVALID
        return flags

    return check


_STRING_KEYWORDS: Final = frozenset(("maxLength", "minLength", "pattern", "enum"))


def _string_check(compiled: Compiled, *, bare: bool = False) -> Check:
    longest = compiled.max_length if compiled.max_length is not None else 1 << 62
    shortest = compiled.min_length or 0
    search = compiled.pattern
    format_check = compiled.format_check
    enum = (
        frozenset(item for item in compiled.enum if type(item) is str) if compiled.enum is not None else None
    )
    logic = compiled.logic and not bare

    def check(value: Any, bad: Bad) -> int:
        if type(value) is not str:
            return _misfit(value, bad)
        if (
            not shortest <= len(value) <= longest
            or (enum is not None and value not in enum)
            or (format_check is not None and not format_check(value))
            or (search is not None and not search(value))
            or (logic and not logic_is_valid(compiled, value))
        ):
            return INVALID
        return 0

    return check


def _number_check(compiled: Compiled, *, bare: bool = False) -> Check:
    low, high = (_INT32_MIN, _INT32_MAX) if compiled.number_format == "int32" else (INT64_MIN, INT64_MAX)
    constrained = (
        compiled.maximum is not None
        or compiled.minimum is not None
        or compiled.multiple_of is not None
        or compiled.enum is not None
        or (compiled.logic and not bare)
    )
    logic = compiled.logic and not bare

    def check(value: Any, bad: Bad) -> int:
        if type(value) is int and low <= value <= high:
            if not constrained:
                return 0
        elif type(value) is not float and type(value) is not int:
            return _misfit(value, bad)
        if not number_is_valid(compiled, value) or (logic and not logic_is_valid(compiled, value)):
            return INVALID
        return 0

    return check


def _boolean_check(compiled: Compiled) -> Check:
    enum = compiled.enum

    def check(value: Any, bad: Bad) -> int:
        if type(value) is not bool:
            return _misfit(value, bad)
        if enum is not None and not enum_matches(enum, value):
            return INVALID
        return 0 if not compiled.logic or logic_is_valid(compiled, value) else INVALID

    return check


_SILENT: Final = frozenset(
    (
        "x-kubernetes-preserve-unknown-fields",
        "description",
        "title",
        "example",
        "externalDocs",
        "nullable",
        "default",
    )
)


def _untyped_check(compiled: Compiled) -> Check:
    """Check of a node without a type: only value keywords and declared children constrain it."""
    node = compiled.node
    structured = bool(
        node.raw.get("properties") or node.raw.get("additionalProperties") or node.raw.get("items")
    )
    if node.preserve_unknown and not node.raw.keys() - _SILENT:
        return lambda value, bad: 0 if value is not None else UNFILLED

    def check(value: Any, bad: Bad) -> int:
        flags = 0 if value is not None else UNFILLED
        if structured or not node.preserve_unknown:
            flags |= UNKNOWN | UNFILLED
        if not is_valid(compiled, value):
            bad.append(id(value))
            flags |= INVALID
        return flags

    return check


def _value_keywords(compiled: Compiled, value: Any) -> int:
    """Check of `enum` and of `allOf`, `anyOf`, `oneOf`, `not` for an object or a list."""
    if compiled.enum is not None and not enum_matches(compiled.enum, value):
        return INVALID
    return 0 if not compiled.logic or logic_is_valid(compiled, value) else INVALID


def _map_check(compiled: Compiled) -> Check:
    """Check of a map, where all values have the same schema."""
    fewest = compiled.min_properties or 0
    most = compiled.max_properties if compiled.max_properties is not None else 1 << 62
    required = frozenset(compiled.node.required)
    special = bool(fewest or most < 1 << 62 or required or compiled.logic or compiled.enum is not None)
    entry: type | Check | None = None

    def check(value: Any, bad: Bad) -> int:
        nonlocal entry
        if type(value) is not dict:
            return _misfit(value, bad)
        if entry is None:
            additional = compiled.additional
            assert additional is not None
            entry = additional.plain or check_of(additional)
        flags = 0
        if entry is str or entry is bool:
            for item in value.values():
                if type(item) is not entry:
                    flags |= _misfit(item, bad)
        else:
            for item in value.values():
                flags |= entry(item, bad)
        if special:
            if not fewest <= len(value) <= most or not required <= value.keys():
                flags |= INVALID
            if not flags & INVALID:
                flags |= _value_keywords(compiled, value)
        if flags & INVALID:
            bad.append(id(value))
        return flags

    return check


def _object_check(compiled: Compiled, root: bool) -> Check:
    node = compiled.node
    embedded = node.embedded_resource or root
    fewest = compiled.min_properties or 0
    most = compiled.max_properties if compiled.max_properties is not None else 1 << 62
    required = frozenset(node.required)
    preserve = node.preserve_unknown
    additional_declared = compiled.additional_declared
    keywords = compiled.logic or compiled.enum is not None
    defaulted = frozenset(
        name
        for name, child in node.properties.items()
        if child.default is not NO_DEFAULT and child.default is not None
    )
    special = bool(fewest or most < 1 << 62 or keywords or (embedded and not root))
    children: dict[str, type | Check] = {}
    get = children.get

    def resolve(name: str, item: Any, bad: Bad) -> int:
        """Look up a field that is new to the table, or not declared."""
        if embedded and name in _META_FIELDS:
            children[name] = known = _meta_check(compiled, name)
            return known(item, bad)
        child = compiled.field(name)
        if child is None:
            if additional_declared is None:
                return 0 if preserve else UNKNOWN
            child = compiled.additional
            if child is None:
                return _loose_flags(additional_declared, item)
            return check_of(child)(item, bad)
        children[name] = child.plain or check_of(child)
        return check_of(child)(item, bad)

    def check(value: Any, bad: Bad) -> int:
        if type(value) is not dict:
            return _misfit(value, bad)
        flags = 0
        for name, item in value.items():
            known = get(name)
            if known is type(item):
                continue
            if known is None:
                flags |= resolve(name, item, bad)
            elif known is str or known is bool:
                flags |= _misfit(item, bad)
            else:
                flags |= known(item, bad)
        if required and not required <= value.keys():
            flags |= INVALID
        if defaulted and not defaulted <= value.keys():
            flags |= UNFILLED
        if special:
            if not fewest <= len(value) <= most or (embedded and not root and resource_errors(value, "")):
                flags |= INVALID
            if keywords and not flags & INVALID:
                flags |= _value_keywords(compiled, value)
        if flags & INVALID:
            bad.append(id(value))
        return flags

    return check


def _loose_flags(declared: Any, item: Any) -> int:
    """`additionalProperties: true` preserves scalars and prunes the fields of objects; `false` allows
    nothing."""
    if declared is False:
        return INVALID
    return UNKNOWN if isinstance(item, dict | list) and item else 0


def _meta_check(compiled: Compiled, name: str) -> Check:
    """`apiVersion`, `kind` and `metadata` of a resource: always allowed, checked by their own rules."""
    declared = compiled.field(name)
    rules: Check | None = None
    if declared is not None and declared.node.raw.keys() - {"type", "description"}:
        rules = check_of(declared)

    def check(value: Any, bad: Bad) -> int:
        if name == "metadata":
            flags = 0 if metadata_is_plain(value) else UNKNOWN
        else:
            flags = 0 if type(value) is str else UNKNOWN | INVALID
        if rules is not None:
            flags |= rules(value, bad) & INVALID
        elif flags:
            bad.append(id(value))
            flags |= INVALID
        return flags

    return check


def _array_check(compiled: Compiled) -> Check:
    node = compiled.node
    fewest = compiled.min_items or 0
    most = compiled.max_items if compiled.max_items is not None else 1 << 62
    keyed = node.list_type == "map"
    unique = node.list_type == "set"
    keys = node.list_map_keys
    keywords = compiled.logic or compiled.enum is not None
    element: type | Check | None = None
    ready = False

    def check(value: Any, bad: Bad) -> int:
        nonlocal element, ready
        if type(value) is not list:
            return _misfit(value, bad)
        if not ready:
            items = compiled.items
            element = (items.plain or check_of(items)) if items is not None else None
            ready = True
        flags = 0
        if element is str or element is bool:
            for item in value:
                if type(item) is not element:
                    flags |= _misfit(item, bad)
        elif element is not None:
            for item in value:
                flags |= element(item, bad)
        elif not node.preserve_unknown:
            flags = UNKNOWN
        if not fewest <= len(value) <= most:
            flags |= INVALID
        if (keyed or unique) and value and not (_distinct_keys(value, keys) if keyed else _distinct(value)):
            flags |= INVALID | REPEATED
        if keywords and not flags & INVALID:
            flags |= _value_keywords(compiled, value)
        if flags & INVALID:
            bad.append(id(value))
        return flags

    return check


def _distinct_keys(value: list[Any], keys: tuple[str, ...]) -> bool:
    """Return whether all keys are distinct; a false negative only costs the exact pass."""
    try:
        if len(keys) == 1:
            key = keys[0]
            return len({item.get(key) for item in value}) == len(value)
        return len({tuple(map(item.get, keys)) for item in value}) == len(value)
    except (TypeError, AttributeError):
        return False


def _distinct(value: list[Any]) -> bool:
    try:
        return len(set(value)) == len(value)
    except TypeError:
        return False
