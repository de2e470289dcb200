"""Random FieldsV1: decoded, or rejected with `FieldSetError`.

`KUBEWRIGHT_FUZZ_SECONDS=60` runs for that long instead of for a number of examples.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.patch import FieldSet, FieldSetError

SECONDS = float(os.environ.get("KUBEWRIGHT_FUZZ_SECONDS", "0"))
SEEDS = [
    b'{"f:spec":{".":{},"f:ports":{"k:{\\"port\\":80,\\"protocol\\":\\"TCP\\"}":{".":{},"f:name":{}}}}}',
    b'{"f:metadata":{"f:finalizers":{"v:\\"x\\"":{}}},"f:l":{"i:0":{},"v:1.5e3":{},"v:null":{}}}',
]

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
elements = st.one_of(
    st.text(max_size=6),
    st.builds(
        lambda kind, rest: kind + rest,
        st.sampled_from(["f:", "k:", "v:", "i:", "x:", "."]),
        st.text(max_size=6),
    ),
    json_values.map(lambda value: "v:" + msgspec.json.encode(value).decode()),
    st.dictionaries(st.text(max_size=3), json_values, max_size=2).map(
        lambda value: "k:" + msgspec.json.encode(value).decode()
    ),
)
trees: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.just({}), json_values),
    lambda inner: st.dictionaries(elements, inner, max_size=4),
    max_leaves=12,
)


def check(written: Any) -> None:
    try:
        fields = FieldSet.parse(written)
    except FieldSetError:
        return
    printed = fields.to_json()
    again = FieldSet.parse(printed)
    assert again == fields
    assert again.to_json() == printed
    assert len(set(fields)) == len(fields)
    assert repr(fields)
    assert not fields.difference(again)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_trees(written: Any) -> None:
    check(written)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60)))
def test_bytes(written: bytes | str) -> None:
    check(written)


def test_mutations() -> None:
    source = random.Random(1)
    deadline = time.monotonic() + SECONDS
    rounds = 0
    while rounds < 2000 or time.monotonic() < deadline:
        rounds += 1
        data = bytearray(source.choice(SEEDS))
        for _ in range(source.randint(1, 6)):
            place = source.randrange(len(data))
            match source.randrange(3):
                case 0:
                    data[place] = source.randrange(256)
                case 1:
                    del data[place]
                case _:
                    data[place:place] = data[source.randrange(len(data)) :][: source.randint(1, 12)]
        check(bytes(data))


@pytest.mark.parametrize(
    "text", ['{"k:' + "{" * 200_000, '{"v:' + "[" * 200_000 + '":{}}', '{"f:a":' * 200_000]
)
def test_hostile_nesting(text: str) -> None:
    with pytest.raises(FieldSetError):
        FieldSet.parse(text)
