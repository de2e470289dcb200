"""YAML request bodies: scalars, keys, documents and errors."""

import pytest
import yaml

from kubewright.apiserver.encoding.yaml import load_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30:45", "12:30:45"),
        ("2001-01-01", "2001-01-01"),
        ("1e3", 1000),
        ("1e-3", 0.001),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("08", 8),
        ("1_000", 1000),
        (".5", 0.5),
        ("1.", 1),
        ("+5", 5),
        ("1.2.3", "1.2.3"),
        ("0xzz", "0xzz"),
        ("18446744073709551615", 18446744073709551615),
        ("Yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("nUll", "nUll"),
        ("!!str 5", "5"),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    assert load_yaml(f"a: {text}\n".encode()) == ({"a": value}, [])


def test_keys_are_text() -> None:
    assert load_yaml(b"1: a\n2.5: b\nyes: c\n'x': d\nm: {y: 1}\n")[0] == {
        "1": "a",
        "2.5": "b",
        "true": "c",
        "x": "d",
        "m": {"true": 1},
    }
    assert load_yaml(b"y: 1\ntrue: 2\n") == ({"true": 2}, ['line 2: key "true" already set in map'])


def test_only_the_first_document_is_read() -> None:
    assert load_yaml(b"---\na: 1\n---\nb: [\n") == ({"a": 1}, [])
    assert load_yaml(b"# nothing\n") == (None, [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb:\n\tc: 2\n", "yaml: line 3: found character that cannot start any token"),
        ("a: 1\nb: {c: d\n", "yaml: line 2: did not find expected ',' or '}'"),
        ("a: *nowhere", "yaml: unknown anchor 'nowhere' referenced"),
        ("~: a", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!bool x", "yaml: cannot decode !!str `x` as a !!bool"),
    ],
)
def test_errors_have_reason_and_position(text: str, complaint: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        load_yaml(text.encode())
    assert str(raised.value) == complaint
