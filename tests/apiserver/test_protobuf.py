from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api.builtin.wire_messages import Messages, parse_message
from kubewright.apiserver.encoding.protobuf import (
    MAGIC,
    MAX_DEPTH,
    ProtobufCodec,
    ProtobufError,
    builtin_codec,
)
from kubewright.apiserver.encoding.protobuf_writers import MessageWriters

TABLE = {
    "t.v1.Thing": "1 metadata Meta!;2 spec Spec!;3 status Status!",
    "t.v1.Meta": "1 name s;2 labels %s;3 created t",
    "t.v1.Spec": (
        "1 size i?;2 count i!;3 limits %q;4 port o?;5 when T?;6 data y;7 raw r;8 handler Handler~;"
        "9 names *s!;10 ratio d?;11 on b;12 must b!;13 selector Meta?!;14 seen t!;15 groups %Extra;"
        "16 any Any?;17 wait D?;18 numbers *i;19 child Spec?;20 pairs *Meta;200 far s"
    ),
    "t.v1.Status": "",
    "t.v1.Handler": "1 exec Meta?;2 kindOfHandler s",
    "t.v1.Extra": "=1 *s",
    "t.v1.Any": "|1 b;2 Meta;3 *s",
}
CODEC = ProtobufCodec(
    Messages(TABLE), lambda version, kind: f"t.v1.{kind}" if version == "t.example.com/v1" else None
)
EMPTY = {"count": 0, "names": None, "must": False, "selector": None, "seen": None}


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def num(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def text(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def spec(data: bytes) -> Any:
    found = CODEC.decode_message("t.v1.Spec", data)
    return {key: value for key, value in found.items() if key not in EMPTY or value != EMPTY[key]}


def test_envelope() -> None:
    header = text(1, b"t.example.com/v1") + text(2, b"Thing")
    raw = text(1, text(1, b"a") + text(2, text(1, b"k") + text(2, b"v")) + text(3, b""))
    body = MAGIC + text(1, header) + text(2, raw) + text(3, b"") + text(4, b"")
    thing = {
        "apiVersion": "t.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "labels": {"k": "v"}},
        "spec": EMPTY,
        "status": {},
    }
    assert CODEC.decode(body) == thing
    assert CODEC.decode(CODEC.encode(thing)) == thing


def test_json_inside_an_envelope() -> None:
    body = MAGIC + text(2, b'{"a":1}') + text(4, b"application/json")
    assert CODEC.decode(body) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (num(1, 0), {"size": 0}),
        (num(1, -3), {"size": -3}),
        (num(2, 0), {}),
        (num(2, 7), {"count": 7}),
        (num(11, 0), {}),
        (num(11, 1) + num(12, 1), {"on": True, "must": True}),
        (text(3, text(1, b"cpu") + text(2, text(1, b"500m"))), {"limits": {"cpu": "500m"}}),
        (text(3, text(1, b"cpu") + text(2, b"")), {"limits": {"cpu": "0"}}),
        (text(4, num(1, 0) + num(2, 8080)), {"port": 8080}),
        (text(4, num(1, 1) + num(2, 0) + text(3, b"http")), {"port": "http"}),
        (text(4, b""), {"port": 0}),
        (text(5, num(1, 1) + num(2, 5_000_999)), {"when": "1970-01-01T00:00:01.005000Z"}),
        (text(5, b""), {"when": None}),
        (text(14, num(1, 1_700_000_000) + num(2, 5)), {"seen": "2023-11-14T22:13:20Z"}),
        (text(14, num(1, -1)), {"seen": "1969-12-31T23:59:59Z"}),
        (text(14, num(1, 0)), {"seen": "1970-01-01T00:00:00Z"}),
        (text(6, b"\x00\xff"), {"data": "AP8="}),
        (text(6, b""), {}),
        (text(7, text(1, b'{"f:a":{}}')), {"raw": {"f:a": {}}}),
        (text(8, text(1, text(1, b"x"))), {"exec": {"name": "x"}}),
        (text(8, text(2, b"tcp")), {"kindOfHandler": "tcp"}),
        (text(9, b"a") + text(9, b""), {"names": ["a", ""]}),
        (varint(10 << 3 | 1) + struct.pack("<d", 1.5), {"ratio": 1.5}),
        (text(13, b""), {"selector": {}}),
        (text(15, text(1, b"g") + text(2, text(1, b"x") + text(1, b"y"))), {"groups": {"g": ["x", "y"]}}),
        (text(16, num(1, 1)), {"any": True}),
        (text(16, b""), {"any": False}),
        (text(16, num(1, 0) + text(2, text(1, b"n"))), {"any": {"name": "n"}}),
        (text(16, text(3, b"a")), {"any": ["a"]}),
        (text(17, num(1, 5_400_000_000_000)), {"wait": "1h30m0s"}),
        (num(18, 1) + num(18, 2), {"numbers": [1, 2]}),
        (text(18, varint(1) + varint(300)), {"numbers": [1, 300]}),
        (text(200, b"z") + text(201, b"unknown") + num(202, 1), {"far": "z"}),
        (text(19, text(19, num(1, 1))), {"child": {**EMPTY, "child": {**EMPTY, "size": 1}}}),
        (
            text(13, text(1, b"a")) + text(13, text(2, text(1, b"k"))),
            {"selector": {"name": "a", "labels": {"k": ""}}},
        ),
        (text(20, b"") + text(20, text(1, b"b")), {"pairs": [{}, {"name": "b"}]}),
    ],
)
def test_values(data: bytes, expected: dict[str, Any]) -> None:
    assert spec(data) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected prefix"),
        (b'{"kind":"Thing"}', "expected prefix"),
        (MAGIC, "has no protobuf form"),
        (
            MAGIC + text(1, text(1, b"apps/v1") + text(2, b"Thing")),
            "apps/v1, Kind=Thing has no protobuf form",
        ),
        (MAGIC + b"\x0a\x7f", "does not fit"),
        (MAGIC + num(1, 3), "does not hold a kind"),
        (MAGIC + text(1, b"") + text(3, b"gzip"), "content encoding 'gzip'"),
        (MAGIC + b"\xff" * 12, "longer than 64 bits"),
        (MAGIC + b"\x0b", "wire type 3"),
    ],
)
def test_bad_envelopes(body: bytes, message: str) -> None:
    with pytest.raises(ProtobufError, match=message):
        CODEC.decode(body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (text(200, b"\xff"), "far: text is not UTF-8"),
        (text(19, text(200, b"\xff")), "child.far: text is not UTF-8"),
        (num(200, 1), "far: wire type 0"),
        (text(1, b"x"), "size: bytes where a number belongs"),
        (text(7, text(1, b"{")), "raw: raw data is not JSON"),
        (text(14, num(1, 1 << 60)), "seen: .* is not a time"),
        (text(4, text(2, b"x")), "port: field 2 is bytes"),
        (b"\x08", "size: the message ends inside a number"),
        (text(200, b"abc")[:-1], "far: a value of 3 bytes does not fit"),
    ],
)
def test_bad_messages_name_the_field(data: bytes, message: str) -> None:
    with pytest.raises(ProtobufError, match=message):
        CODEC.decode_message("t.v1.Spec", data)


def test_depth_is_bounded() -> None:
    data = b""
    for _ in range(MAX_DEPTH * 4):
        data = text(19, data)
    with pytest.raises(ProtobufError, match="nested more than"):
        CODEC.decode_message("t.v1.Spec", data)
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH * 4):
        deep = {"child": deep}
    with pytest.raises(ProtobufError, match="nested more than"):
        CODEC.encode_message("t.v1.Spec", deep)
    for depth, fits in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False)):
        deep = {}
        for _ in range(depth):
            deep = {"child": deep}
        for encode in (CODEC.encode_message, CODEC.encode_message_checked):
            assert isinstance(outcome(encode, "t.v1.Spec", deep), bytes) == fits


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"nope": 1}, "no field 'nope'"),
        ({"child": {"nope": 1}}, "child: no field 'nope'"),
        ({"size": "x"}, "size: 'x' where a number"),
        ({"names": "x"}, "names: str where a list"),
        ({"child": 3}, "child: int where an object"),
        ({"data": "*"}, "data: "),
        ({"when": "yesterday"}, "when: "),
        ({"any": 3}, "any: int does not belong"),
        ({"far": 3}, "far: "),
    ],
)
def test_values_that_cannot_be_encoded(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ProtobufError, match=message):
        CODEC.encode_message("t.v1.Spec", value)


SAMPLES: dict[str, list[Any]] = {
    "s": ["", "text ä", "x" * 200, None],
    "i": [0, 300, -1, None],
    "I": [1 << 40],
    "b": [True, False],
    "y": ["AAEC", ""],
    "d": [1.5, 2, None],
    "q": ["100m", 3, None],
    "o": [8080, "http", None],
    "t": ["2026-01-02T03:04:05Z", None],
    "T": ["2026-01-02T03:04:05.678901Z"],
    "D": ["1m30s", None],
    "r": [{"a": [1, {"b": None}]}, None],
}


def sample(messages: Messages, type_: str, variant: int, depth: int = 0) -> Any:
    """Return a value of a type: `variant` selects fields, scalars and the lengths of lists."""
    if type_ in SAMPLES:
        return SAMPLES[type_][variant % len(SAMPLES[type_])]
    message = messages[type_]
    value: dict[str, Any] = {}
    for place, field in enumerate(message.fields):
        if message.shape == "object" and (place + variant) % 5 == 4:
            continue
        if field.inline:
            value |= sample(messages, field.type, variant, depth)
            continue
        if depth and field.type not in SAMPLES and message.shape == "object":
            continue
        inner = sample(messages, field.type, variant, depth + 1)
        if field.label == "*":
            inner = [inner] * (variant % 3)
        elif field.label == "%":
            inner = {f"k{number}": inner for number in reversed(range(variant % 3))}
        value[field.name] = inner
    if message.shape == "object":
        return value
    return value[""] if message.shape == "list" else value[str(1 + variant % len(message.fields))]


def outcome(encode: Any, name: str, value: Any) -> Any:
    try:
        return encode(name, value)
    except ProtobufError as error:
        return str(error)


@pytest.mark.parametrize("codec", [CODEC, builtin_codec()], ids=["table", "built-in kinds"])
def test_messages_are_encoded_as_field_by_field(codec: ProtobufCodec) -> None:
    messages = codec.messages
    writers = MessageWriters(messages)
    for name in messages:
        for variant in range(6):
            value = sample(messages, name, variant)
            expected = outcome(codec.encode_message_checked, name, value)
            assert outcome(codec.encode_message, name, value) == expected, (name, value)
        complete = sample(messages, name, 0)
        assert writers.encode(name, complete) == codec.encode_message_checked(name, complete), name


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_rejected(data: bytes) -> None:
    try:
        value = CODEC.decode_message("t.v1.Spec", data)
    except ProtobufError:
        return
    assert CODEC.encode_message("t.v1.Spec", value) == CODEC.encode_message_checked("t.v1.Spec", value)
    again = CODEC.decode_message("t.v1.Spec", CODEC.encode_message("t.v1.Spec", value))
    assert again == value or value.get("ratio") != value.get("ratio")


def test_lines_of_a_table() -> None:
    message = parse_message("g.v1.M", "7 a *other.v2.N!;8 b O?!")
    assert [(field.number, field.type, field.label) for field in message.fields] == [
        (7, "other.v2.N", "*"),
        (8, "g.v1.O", ""),
    ]
    assert message.fields[0].always
    assert message.fields[1].pointer
    assert message.fields[1].always
