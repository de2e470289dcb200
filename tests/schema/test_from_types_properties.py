"""Values of a type are valid under its schema, and the reverse.

Types are made at random, with a strategy for Python values beside each. Both directions are tried: a value of
the type, written to the wire, is valid under the schema; and a value drawn from the schema can be read as the
type, and says the same when it is written again.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.generated_types import Made, drawn_from, types

from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.generation.from_types import schema_of
from kubewright.schema.generation.struct_fields import struct_fields
from kubewright.schema.pruning import prune
from kubewright.schema.structural import NO_DEFAULT, Node
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.values import validate_value


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
    for field, (name, child) in zip(struct_fields(made.type), node.properties.items(), strict=True):
        assert field.wire_name == name
        assert (name in node.required) == (not field.has_default)
        if child.default is not NO_DEFAULT:
            assert to_plain(field.default) == child.default
