"""Changes between two schemas of one version, each classified as breaking or compatible.

A change is breaking if an object that was valid can become invalid, if data of stored objects is lost, or if
a client observes another type, another default or another merge behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_UPPER: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "minLength", "minItems", "minProperties")
_COMBINATIONS: Final = ("allOf", "anyOf", "oneOf", "not")
_WIDER_FORMATS: Final = frozenset({("int32", "int64"), ("float", "double")})
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]


@dataclass(frozen=True)
class SchemaChange:
    """A change at one field."""

    path: str
    """Field, such as `.spec.hosts[].name`; `[]` is an item of a list, `{}` a value of a map."""
    check: str
    """Kind of the change, such as `field-removed`."""
    breaking: bool
    reason: str


def compare_schemas(
    old: Schema, new: Schema, path: str = "", *, strict: bool = False
) -> Iterator[SchemaChange]:
    """Return the changes from one schema to another.

    With `strict`, a new enum value is breaking as well, because clients can depend on knowing all values.
    """
    before, after = type_name(old), type_name(new)
    if before != after:
        text = f"type changed from {before} to {after}; stored objects and clients have {before}"
        yield SchemaChange(path, "type", True, text)
        return
    yield from _compare_values(old, new, path, strict)
    yield from _compare_topology(old, new, path)
    yield from _compare_rules(old, new, path)
    yield from _compare_properties(old, new, path, strict)
    for keyword, step in (("items", "[]"), ("additionalProperties", "{}")):
        left, right = old.get(keyword), new.get(keyword)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            yield from compare_schemas(left, right, path + step, strict=strict)


def type_name(schema: Schema) -> str:
    """Return the type of a schema; maps and lists of any value have names of their own."""
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return schema.get("type") or "any value"


def _compare_values(old: Schema, new: Schema, path: str, strict: bool) -> Iterator[SchemaChange]:
    yield from _compare_enum(old.get("enum"), new.get("enum"), path, strict)
    for keyword in _UPPER + _LOWER:
        yield from _compare_limit(old, new, keyword, path)
    before, after = old.get("multipleOf"), new.get("multipleOf")
    if before != after and after is not None:
        relaxed = before is not None and before % after == 0
        yield SchemaChange(path, "multipleOf", not relaxed, f"multipleOf {_changed(before, after)}")
    elif before != after:
        yield SchemaChange(path, "multipleOf", False, f"multipleOf {before} removed")
    for keyword in ("pattern", "format"):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        breaking = after is not None and (before, after) not in _WIDER_FORMATS
        yield SchemaChange(path, keyword, breaking, f"{keyword} {_changed(before, after)}")
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield SchemaChange(path, "uniqueItems", True, "items must be unique")
    if bool(old.get("nullable")) != bool(new.get("nullable")):
        removed = bool(old.get("nullable"))
        text = "null is no longer allowed" if removed else "null is allowed"
        yield SchemaChange(path, "nullable", removed, text)
    yield from _compare_default(old, new, path)
    for keyword in _COMBINATIONS:
        before, after = _combination(old, keyword), _combination(new, keyword)
        if before != after:
            verb = "added" if before is None else "removed" if after is None else "changed"
            yield SchemaChange(path, keyword, after is not None, f"{keyword} {verb}")


def _combination(schema: Schema, keyword: str) -> Any:
    found = schema.get(keyword)
    # controller-gen writes this with every int-or-string; it repeats the type.
    return None if keyword == "anyOf" and found == _INT_OR_STRING_TYPES else found


def _compare_enum(
    old: Sequence[Any] | None, new: Sequence[Any] | None, path: str, strict: bool
) -> Iterator[SchemaChange]:
    if old is None and new is not None:
        yield SchemaChange(path, "enum", True, f"only these values are allowed now: {_list(new)}")
    elif old is not None and new is None:
        yield SchemaChange(path, "enum", strict, "any value is allowed now")
    elif old is not None and new is not None:
        removed = [value for value in old if value not in new]
        added = [value for value in new if value not in old]
        if removed:
            yield SchemaChange(path, "enum", True, f"enum value removed: {_list(removed)}")
        if added:
            yield SchemaChange(path, "enum", strict, f"enum value added: {_list(added)}")


def _compare_limit(old: Schema, new: Schema, keyword: str, path: str) -> Iterator[SchemaChange]:
    exclusive = f"exclusive{keyword.capitalize()}"
    before = _limit(old.get(keyword), bool(old.get(exclusive)), keyword)
    after = _limit(new.get(keyword), bool(new.get(exclusive)), keyword)
    if before == after:
        return
    if after is None:
        breaking = False
    elif before is None:
        # Sizes are never negative, so a minimum of 0 restricts nothing.
        breaking = not (keyword in _LOWER and keyword != "minimum" and after == (0, 0))
    else:
        breaking = after < before if keyword in _UPPER else after > before
    text = _changed(old.get(keyword), new.get(keyword))
    if old.get(keyword) == new.get(keyword):
        text = "is exclusive now" if new.get(exclusive) else "is inclusive now"
    yield SchemaChange(path, keyword, breaking, f"{keyword} {text}")


def _limit(value: float | None, exclusive: bool, keyword: str) -> tuple[float, int] | None:
    """Return a limit that can be compared: an exclusive maximum is below an inclusive one."""
    if value is None:
        return None
    return value, (-1 if keyword in _UPPER else 1) if exclusive else 0


def _compare_default(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if ("default" in old) == ("default" in new) and old.get("default") == new.get("default"):
        return
    if "default" not in new:
        text = f"default {old['default']!r} removed; objects that omit the field have no value"
    elif "default" not in old:
        text = f"default {new['default']!r} added; objects that omit the field get it"
    else:
        text = f"default changed from {old['default']!r} to {new['default']!r}"
    yield SchemaChange(path, "default", True, text)


def _compare_topology(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for keyword, absent in (("x-kubernetes-list-type", "atomic"), ("x-kubernetes-map-type", "granular")):
        before, after = old.get(keyword) or absent, new.get(keyword) or absent
        if before != after:
            name = keyword.removeprefix("x-kubernetes-")
            text = f"{name} changed from {before} to {after}; server-side apply merges it differently"
            yield SchemaChange(path, name, True, text)
    before, after = (sorted(each.get("x-kubernetes-list-map-keys") or ()) for each in (old, new))
    if before != after and before and after:
        yield SchemaChange(
            path, "list-map-keys", True, f"keys of the list changed from {_list(before)} to {_list(after)}"
        )
    before, after = bool(old.get(_PRESERVE)), bool(new.get(_PRESERVE))
    if before != after:
        text = "unknown fields are pruned now" if before else "unknown fields are preserved now"
        yield SchemaChange(path, "preserve-unknown-fields", before, text)
    embedded = "x-kubernetes-embedded-resource"
    before, after = bool(old.get(embedded)), bool(new.get(embedded))
    if before != after:
        text = "must be a complete object" if after else "need not be a complete object"
        yield SchemaChange(path, "embedded-resource", after, f"value {text} now")


def _compare_rules(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = (
        {" ".join(rule["rule"].split()): rule for rule in each.get("x-kubernetes-validations") or ()}
        for each in (old, new)
    )
    added = [text for text in after if text not in before]
    removed = [text for text in before if text not in after]
    for text in added:
        twin = next((each for each in removed if _same_purpose(before[each], after[text])), None)
        if twin is not None:
            removed.remove(twin)
            reason = f"CEL rule changed from {_short(twin)} to {_short(text)}"
            yield SchemaChange(path, "cel-rule-changed", True, f"{reason}; it may reject valid objects")
        else:
            yield SchemaChange(
                path, "cel-rule-added", True, f"CEL rule added: {_short(text)}; it may reject valid objects"
            )
    for text in removed:
        yield SchemaChange(path, "cel-rule-removed", False, f"CEL rule removed: {_short(text)}")
    for text in after.keys() & before.keys():
        yield from _compare_rule(before[text], after[text], text, path)


def _compare_rule(old: Schema, new: Schema, text: str, path: str) -> Iterator[SchemaChange]:
    if bool(old.get("optionalOldSelf")) != bool(new.get("optionalOldSelf")):
        widened = bool(new.get("optionalOldSelf"))
        when = "is evaluated on creation as well" if widened else "is evaluated on updates only"
        yield SchemaChange(path, "cel-rule-changed", widened, f"CEL rule {_short(text)} {when}")
    if any(old.get(key) != new.get(key) for key in ("message", "messageExpression", "reason", "fieldPath")):
        yield SchemaChange(path, "cel-message", False, f"message of CEL rule {_short(text)} changed")


def _same_purpose(old: Schema, new: Schema) -> bool:
    """Return whether two rules report the same error, so that one is a new version of the other."""
    keys = ("message", "fieldPath")
    return bool(old.get("message")) and all(old.get(key) == new.get(key) for key in keys)


def _compare_properties(old: Schema, new: Schema, path: str, strict: bool) -> Iterator[SchemaChange]:
    before: dict[str, Schema] = dict(old.get("properties") or {})
    after: dict[str, Schema] = dict(new.get("properties") or {})
    had_map, has_map = _is_map(old), _is_map(new)
    if had_map and not has_map:
        kept = bool(new.get(_PRESERVE))
        text = "map replaced by fixed fields; entries with other keys are pruned"
        yield SchemaChange(path, "type", not kept, text)
    elif has_map and before:
        yield SchemaChange(path, "type", True, "fixed fields replaced by a map")
        return
    added = [name for name in after if name not in before]
    needed_before, needed = set(old.get("required") or ()), set(new.get("required") or ())
    for name in before:
        if name not in after:
            yield _removed(name, before, after, added, f"{path}.{name}", preserved=bool(new.get(_PRESERVE)))
    for name in added:
        optional = name not in needed or "default" in after[name]
        if optional:
            text = "required field with a default added" if name in needed else "optional field added"
            yield SchemaChange(f"{path}.{name}", "field-added", False, text)
        else:
            yield SchemaChange(
                f"{path}.{name}",
                "required-field-added",
                True,
                "required field without a default added; existing objects do not have it",
            )
    for name in sorted(needed - needed_before):
        if name in added:
            continue
        has_default = "default" in after.get(name, {})
        text = "is required now" + ("; its default is used where it is absent" if has_default else "")
        yield SchemaChange(f"{path}.{name}", "required", not has_default, f"field {text}")
    for name in sorted((needed_before - needed) & after.keys()):
        yield SchemaChange(f"{path}.{name}", "required", False, "field is optional now")
    for name in before.keys() & after.keys():
        yield from compare_schemas(before[name], after[name], f"{path}.{name}", strict=strict)


def _removed(
    name: str,
    before: Mapping[str, Schema],
    after: Mapping[str, Schema],
    added: list[str],
    path: str,
    *,
    preserved: bool,
) -> SchemaChange:
    twins = [each for each in added if _shape(after[each]) == _shape(before[name])]
    if preserved:
        return SchemaChange(path, "field-removed", False, "field has no schema now; values are preserved")
    if len(twins) == 1:
        text = f"field removed, perhaps renamed to {twins[0]}; values of stored objects are pruned"
        return SchemaChange(path, "field-renamed", True, text)
    return SchemaChange(path, "field-removed", True, "field removed; values of stored objects are pruned")


def _shape(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _shape(item) for key, item in schema.items() if key not in ("description", "title")}
    return schema


def _is_map(schema: Schema) -> bool:
    return schema.get("additionalProperties") not in (None, False)


def _changed(before: Any, after: Any) -> str:
    if before is None:
        return f"{after} added"
    if after is None:
        return f"{before} removed"
    return f"changed from {before} to {after}"


def _list(values: Sequence[Any]) -> str:
    return ", ".join(str(value) for value in values)


def _short(rule: str) -> str:
    return rule if len(rule) <= 60 else f"{rule[:57]}..."
