"""CBOR with the rules of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.encoding.cbor import (
    MAX_DEPTH,
    SELF_DESCRIBED,
    CBORDecodeError,
    SequenceDecoder,
    decode,
    encode,
)

PREFERRED: list[tuple[str, Any]] = [
    ("00", 0),
    ("17", 23),
    ("1818", 24),
    ("1903e8", 1000),
    ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000),
    ("20", -1),
    ("3863", -100),
    ("3903e7", -1000),
    ("f90000", 0.0),
    ("fb3ff199999999999a", 1.1),
    ("f93e00", 1.5),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8),
    ("f9c400", -4.0),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("40", ""),
    ("4449455446", "IETF"),
    ("42225c", '"\\'),
    ("44f0908591", "\U00010151"),
    ("80", []),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("98190102030405060708090a0b0c0d0e0f101112131415161718181819", list(range(1, 26))),
    ("a0", {}),
    ("a24161014162820203", {"a": 1, "b": [2, 3]}),
    ("824161a141624163", ["a", {"b": "c"}]),
]
OTHER: list[tuple[str, Any]] = [
    ("1b7fffffffffffffff", 2**63 - 1),
    ("3b7fffffffffffffff", -(2**63)),
    ("1800", 0),
    ("60", ""),
    ("6449455446", "IETF"),
    ("62225c", '"\\'),
    ("62c3bc", "\u00fc"),
    ("63e6b0b4", "\u6c34"),
    ("64f0908591", "\U00010151"),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]),
    ("5f" + "4161" + "4162" + "ff", "ab"),
    ("7f657374726561646d696e67ff", "streaming"),
    ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
    ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
    ("c11a514b67b0", "2013-03-21T20:04:00Z"),
    ("c1fb41d452d9ec200000", "2013-03-21T20:04:00.5Z"),
    ("d64401020304", "AQIDBA=="),
    ("d54401020304", "AQIDBA"),
    ("d74401020304", "01020304"),
    ("d820" + "6161", "a"),
    ("d9d9f7a0", {}),
    ("81d9d9f7a0", [{}]),
]


@pytest.mark.parametrize(("data", "value"), PREFERRED + OTHER)
def test_decode(data: str, value: Any) -> None:
    decoded = decode(bytes.fromhex(data))
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(("data", "value"), PREFERRED)
def test_encode_in_the_preferred_form(data: str, value: Any) -> None:
    assert encode(value) == SELF_DESCRIBED + bytes.fromhex(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "truncated"),
        ("18", "truncated"),
        ("6261", "truncated"),
        ("9bffffffffffffffff", "truncated"),
        ("bbffffffffffffffff", "truncated"),
        ("5bffffffffffffffff", "truncated"),
        ("9f01", "truncated"),
        ("0000", "data after"),
        ("1c", "invalid CBOR head"),
        ("1f", "invalid CBOR head"),
        ("df", "invalid CBOR head"),
        ("ff", "unexpected CBOR break"),
        ("81ff", "unexpected CBOR break"),
        ("a16161ff", "unexpected CBOR break"),
        ("a1ff00", "not a string"),
        ("bf6161ff", "unexpected CBOR break"),
        ("c0ff", "unexpected CBOR break"),
        ("a10001", "not a string"),
        ("a2616101616102", "duplicate CBOR map key 'a'"),
        ("a2616101416102", "duplicate CBOR map key 'a'"),
        ("61ff", "UTF-8"),
        ("41ff", "UTF-8"),
        ("7f4161ff", "invalid chunk"),
        ("7f7fffff", "invalid chunk"),
        ("f7", "simple value 23"),
        ("f0", "simple value 16"),
        ("f8ff", "simple value 255"),
        ("f97e00", "not finite"),
        ("f97c00", "not finite"),
        ("1bffffffffffffffff", "64 bits"),
        ("3bffffffffffffffff", "64 bits"),
        ("c249010000000000000000", "bignum"),
        ("c000", "not a string"),
        ("c16161", "not a number"),
        ("c1fb7e37e43c8800759c", "out of range"),
        ("81" * 10_000 + "00", "nested deeper"),
        ("c6" * 10_000 + "00", "nested deeper"),
    ],
)
def test_decode_rejects(data: str, message: str) -> None:
    with pytest.raises(CBORDecodeError, match=message):
        decode(bytes.fromhex(data))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, float("nan"), float("inf"), {1: 2}, b"", "\ud800"])
def test_encode_rejects(value: Any) -> None:
    with pytest.raises(ValueError):
        encode(value)


def test_encode_limits_the_depth() -> None:
    value: list[Any] = []
    for _ in range(MAX_DEPTH - 2):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(ValueError, match="nested deeper"):
        encode([[value]])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_round_trip(value: Any) -> None:
    assert decode(encode(value)) == value


@given(st.binary(max_size=40))
def test_any_input_decodes_or_fails_with_a_decode_error(data: bytes) -> None:
    try:
        decode(data)
    except CBORDecodeError:
        pass


@given(st.lists(json_values, max_size=4), st.integers(1, 9))
def test_sequences_in_chunks(values: list[Any], size: int) -> None:
    data = b"".join(map(encode, values))
    decoder = SequenceDecoder(10_000_000)
    items = [item for at in range(0, len(data), size) for item in decoder.feed(data[at : at + size])]
    assert items == values
    assert not decoder.incomplete


@pytest.mark.parametrize(("data", "value"), PREFERRED + OTHER)
def test_sequences_byte_by_byte(data: str, value: Any) -> None:
    decoder = SequenceDecoder(1000)
    *before, last = [decoder.feed(bytes([byte])) for byte in bytes.fromhex(data)]
    assert before == [[]] * len(before)
    assert last == [value]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("ff", "unexpected CBOR break"),
        ("82ff", "unexpected CBOR break"),
        ("5a7fffffff", "longer than 100 bytes"),
        ("9f" + "00" * 100, "longer than 100 bytes"),
        ("81" * (MAX_DEPTH + 1), "nested deeper"),
    ],
)
def test_sequences_reject(data: str, message: str) -> None:
    with pytest.raises(CBORDecodeError, match=message):
        SequenceDecoder(100).feed(bytes.fromhex(data))
