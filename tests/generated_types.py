"""Strategies for struct types, with a strategy for Python values beside each, and for values of a schema."""

from __future__ import annotations

from datetime import UTC, datetime
from types import new_class
from typing import Annotated, Any, Literal, NamedTuple, get_origin

import msgspec
from hypothesis import strategies as st

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
    Nullable,
    Pattern,
    PreserveUnknownFields,
    Schemaless,
)
from kubewright.api.objects import Struct
from kubewright.api.presence import copy_value
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration, Time


class Made(NamedTuple):
    """A type and values of it."""

    type: Any
    values: st.SearchStrategy[Any]


letters = st.text("abcxyz", max_size=6)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, fold=0, tzinfo=UTC)
)
free_values = st.dictionaries(
    st.text("kl", min_size=1, max_size=2),
    st.integers(0, 9) | letters | st.lists(letters, max_size=2),
    max_size=3,
)
"""Values of fields without a schema."""
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
        Made(Annotated[dict[str, Any], Schemaless, PreserveUnknownFields], free_values),
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
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, made in parts.items():
        kind = draw(st.sampled_from(["required", "optional", "nullable", "defaulted"]))
        annotation, values = made.type, made.values
        if kind == "nullable" and get_origin(annotation) is Literal:
            kind = "optional"  # API servers compare null with the values of an enum, and none is equal to it
        if kind in ("optional", "nullable"):
            annotation = made.type | None
            namespace[name] = None
        if kind == "nullable":
            annotation, values = Annotated[annotation, Nullable], st.none() | values
        elif kind == "defaulted":
            namespace[name] = default_declaration(draw, draw(made.values))
        namespace["__annotations__"][name] = annotation
        (required if kind == "required" else optional)[name] = values
    cls: Any = new_class("Drawn", (Struct,), {}, lambda body: body.update(namespace))
    arguments = st.fixed_dictionaries(required, optional=optional)
    return Made(cls, arguments.map(lambda given: cls(**copy_value(given))))


def default_declaration(draw: st.DrawFn, default: Any) -> Any:
    """A default as users write it: the value itself, or a factory."""
    if isinstance(default, Struct) or draw(st.booleans()):
        return msgspec.field(default_factory=lambda: copy_value(default))
    return default


types = structs(st.recursive(leaves, wider, max_leaves=4))


def drawn_from(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema accepts."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 99) | (st.just("500m") if "pattern" in schema else st.text("xyz", min_size=1))
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return free_values
    kind = schema["type"]
    if schema.get("nullable"):
        return st.none() | drawn_from({**schema, "nullable": False})
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
