"""Values of a type are valid under its schema, and the reverse.

Types are made at random, with a strategy for Python values beside each. Both directions are tried: a value of
the type, written to the wire, is valid under the schema; and a value drawn from the schema can be read as the
type, and says the same when it is written again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import new_class
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.api.codec import from_plain, to_plain
from kubewright.api.markers import (
    Ge,
    Int32,
    Le,
    ListSet,
    MaxItems,
    MaxLen,
    MaxProperties,
    MinItems,
    MinLen,
    MultipleOf,
    Pattern,
)
from kubewright.api.objects import Struct
from kubewright.api.quantity import Quantity
from kubewright.api.times import Duration, Time
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.generation.from_types import schema_of
from kubewright.schema.pruning import prune
from kubewright.schema.structural import NO_DEFAULT, Node
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.values import validate_value


class Made(NamedTuple):
    """A type and values of it."""

    type: Any
    values: st.SearchStrategy[Any]


letters = st.text("abcxyz", max_size=6)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)
leaves = st.sampled_from(
    [
        Made(bool, st.booleans()),
        Made(str, letters),
        Made(int, st.integers(-(2**63), 2**63 - 1)),
        Made(Annotated[Int32, Ge(-5), Le(50)], st.integers(-5, 50)),
        Made(Annotated[int, Ge(0), Le(90), MultipleOf(3)], st.integers(0, 30).map(lambda number: number * 3)),
        Made(Annotated[str, MinLen(1), MaxLen(4)], st.text("abc", min_size=1, max_size=4)),
        Made(Annotated[str, Pattern("^[a-f]{2,5}$")], st.text("abcdef", min_size=2, max_size=5)),
        Made(Literal["a", "b", "c"], st.sampled_from("abc")),
        Made(int | str, st.integers(0, 9) | st.text("xyz", min_size=1, max_size=3)),
        Made(Quantity, st.integers(0, 10**6).map(lambda number: Quantity(f"{number}m"))),
        Made(Duration, st.integers(0, 10**6).map(Duration)),
        Made(Time, times),
    ]
)


def wider(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    lists = inner.map(
        lambda made: Made(
            Annotated[list[made.type], MinItems(0), MaxItems(3)],  # type: ignore[name-defined]
            st.lists(made.values, max_size=3),
        )
    )
    maps = inner.map(
        lambda made: Made(
            Annotated[dict[str, made.type], MaxProperties(3)],  # type: ignore[name-defined]
            st.dictionaries(st.text("kl", min_size=1, max_size=2), made.values, max_size=3),
        )
    )
    sets = st.just(Made(Annotated[list[str], ListSet], st.lists(letters, max_size=4, unique=True)))
    return lists | maps | sets | structs(inner)


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    parts = draw(
        st.dictionaries(st.sampled_from(["one", "two_parts", "three"]), inner, min_size=1, max_size=3)
    )
    namespace: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, made in parts.items():
        kind = draw(st.sampled_from(["required", "optional", "defaulted"]))
        namespace["__annotations__"][name] = made.type | None if kind == "optional" else made.type
        values[name] = st.none() | made.values if kind == "optional" else made.values
        if kind == "optional":
            namespace[name] = None
        elif kind == "defaulted":
            default = draw(made.values)
            namespace[name] = msgspec.field(default_factory=lambda default=default: default)
    cls: Any = new_class("Drawn", (Struct,), {}, lambda body: body.update(namespace))
    return Made(cls, st.builds(cls, **values))


types = structs(st.recursive(leaves, wider, max_leaves=4))


def drawn_from(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema takes."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 99) | (st.just("500m") if "pattern" in schema else st.text("xyz", min_size=1))
    kind = schema["type"]
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        low, high = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1)
        step = schema.get("multipleOf", 1)
        return st.integers(-(-low // step), high // step).map(lambda number: number * step)
    if kind == "string":
        if schema.get("format") == "date-time":
            return times.map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
        if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True).filter(
                lambda text: text.isascii() and "\n" not in text
            )
        return st.text("ab", min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 6))
    if kind == "array":
        unique = schema.get("x-kubernetes-list-type") == "set"
        return st.lists(
            drawn_from(schema["items"]),
            min_size=schema.get("minItems", 0),
            max_size=schema.get("maxItems", 3),
            unique=unique,
        )
    if "additionalProperties" in schema:
        entries = drawn_from(schema["additionalProperties"])
        return st.dictionaries(
            st.text("kl", min_size=1, max_size=2), entries, max_size=schema.get("maxProperties", 3)
        )
    required = {name: drawn_from(schema["properties"][name]) for name in schema.get("required", ())}
    rest = {name: drawn_from(child) for name, child in schema["properties"].items() if name not in required}
    return st.fixed_dictionaries(required, optional=rest)


def has_duration(type_: Any) -> bool:
    return "Duration" in repr(msgspec.inspect.type_info(type_))


relaxed = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@relaxed
@given(st.data())
def test_a_value_of_the_type_is_valid_under_the_schema(data: st.DataObject) -> None:
    made = data.draw(types)
    node = Node(schema_of(made.type))
    wire = to_plain(data.draw(made.values))
    assert prune(wire, node) == []
    apply_defaults(wire, node)
    assert validate_value(Compiled.of(node), wire) == []


@relaxed
@given(st.data())
def test_a_value_of_the_schema_is_a_value_of_the_type(data: st.DataObject) -> None:
    made = data.draw(types.filter(lambda made: not has_duration(made.type)))
    schema = schema_of(made.type)
    node = Node(schema)
    wire = data.draw(drawn_from(schema))
    assert validate_value(Compiled.of(node), wire) == []
    read = from_plain(wire, made.type)
    again = to_plain(read)
    apply_defaults(again, node)
    assert validate_value(Compiled.of(node), again) == []
    assert from_plain(again, made.type) == read


@relaxed
@given(types)
def test_default_equals_the_omitted_field(made: Made) -> None:
    node = Node(schema_of(made.type))
    info = msgspec.structs.fields(made.type)
    for field, (name, child) in zip(info, node.properties.items(), strict=True):
        assert field.encode_name == name
        assert (name in node.required) == field.required
        if child.default is not NO_DEFAULT:
            assert field.default_factory is not msgspec.NODEFAULT
            assert to_plain(field.default_factory()) == child.default
