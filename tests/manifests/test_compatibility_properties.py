"""Values that are valid under a schema stay valid under one without breaking changes."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.manifests.schema_changes import compare_schemas
from kubewright.schema.structural import Node
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.values import validate_value

Schema = dict[str, Any]

LIMITS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "string": {
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 4),
        "pattern": st.sampled_from(["^a", "b$", "^[ab]*$"]),
        "enum": st.lists(st.sampled_from(["", "a", "ab", "b"]), min_size=1, unique=True),
        "nullable": st.booleans(),
    },
    "integer": {
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "exclusiveMinimum": st.booleans(),
        "exclusiveMaximum": st.booleans(),
        "multipleOf": st.integers(1, 3),
        "enum": st.lists(st.integers(-2, 2), min_size=1, unique=True),
    },
    "boolean": {"nullable": st.booleans()},
}


@st.composite
def scalars(draw: st.DrawFn) -> Schema:
    """Return a schema of a scalar with some limits."""
    kind = draw(st.sampled_from(sorted(LIMITS)))
    schema: Schema = {"type": kind}
    for keyword, values in LIMITS[kind].items():
        if draw(st.booleans()):
            schema[keyword] = draw(values)
    for bound in ("minimum", "maximum"):
        if bound not in schema:
            schema.pop(f"exclusive{bound.capitalize()}", None)
    return schema


def arrays(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Return a schema of a list."""
    return st.fixed_dictionaries(
        {"type": st.just("array"), "items": items},
        optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 3)},
    )


def maps(values: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Return a schema of a map."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": values},
        optional={"minProperties": st.integers(0, 2), "maxProperties": st.integers(0, 3)},
    )


@st.composite
def structs(draw: st.DrawFn, fields: st.SearchStrategy[Schema]) -> Schema:
    """Return a schema of an object with fields."""
    properties = draw(st.dictionaries(st.sampled_from("abc"), fields, min_size=1))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


SCHEMAS = st.recursive(
    scalars(), lambda inner: st.one_of(arrays(inner), maps(inner), structs(inner)), max_leaves=5
)


@st.composite
def changed(draw: st.DrawFn, schema: Schema) -> Schema:
    """Return a schema with one or two keywords changed somewhere."""
    result = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 2))):
        node = draw(st.sampled_from(list(_nodes(result))))
        kind = node["type"]
        if kind in LIMITS:
            keyword = draw(st.sampled_from(sorted(LIMITS[kind])))
            new = draw(st.none() | LIMITS[kind][keyword])
        elif kind == "array":
            keyword, new = (
                draw(st.sampled_from(["minItems", "maxItems"])),
                draw(st.none() | st.integers(0, 3)),
            )
        elif "properties" in node:
            keyword = "required"
            new = draw(st.lists(st.sampled_from(sorted(node["properties"])), unique=True)) or None
        else:
            keyword = draw(st.sampled_from(["minProperties", "maxProperties"]))
            new = draw(st.none() | st.integers(0, 3))
        if new is None:
            node.pop(keyword, None)
        else:
            node[keyword] = new
        for bound in ("minimum", "maximum"):
            if bound not in node:
                node.pop(f"exclusive{bound.capitalize()}", None)
    return result


def _nodes(schema: Schema) -> list[Schema]:
    found = [schema]
    for child in schema.get("properties", {}).values():
        found += _nodes(child)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            found += _nodes(schema[keyword])
    return found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def values_of(draw: st.DrawFn, schema: Schema) -> Any:
    """Return a value that is often valid."""
    if schema.get("nullable") and draw(st.booleans()):
        return None
    kind = schema["type"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if kind == "array":
        return draw(st.lists(values_of(schema["items"]), max_size=3))
    if kind == "object" and "properties" in schema:
        return {
            name: draw(values_of(child))
            for name, child in schema["properties"].items()
            if name in schema.get("required", ()) or draw(st.booleans())
        }
    if kind == "object":
        inner = values_of(schema["additionalProperties"])
        return draw(st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
    return draw(
        {"string": st.text("ab", max_size=4), "integer": st.integers(-3, 3), "boolean": st.booleans()}[kind]
    )


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_valid_values_stay_valid_without_breaking_changes(data: st.DataObject) -> None:
    old = data.draw(SCHEMAS)
    new = data.draw(changed(old))
    breaking = [change for change in compare_schemas(old, new) if change.breaking]
    value = data.draw(values_of(old) | VALUES)
    before, after = (not list(validate_value(Compiled.of(Node(each)), value)) for each in (old, new))
    assert after or not before or breaking


@settings(max_examples=50, deadline=None)
@given(schema=SCHEMAS)
def test_equal_schemas_have_no_changes(schema: Schema) -> None:
    assert list(compare_schemas(schema, copy.deepcopy(schema))) == []
