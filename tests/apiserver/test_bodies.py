"""Request bodies that would exhaust memory or are not JSON."""

import pytest
import yaml

from kubewright.apiserver.encoding.json_errors import json_error
from kubewright.apiserver.encoding.yaml import load_yaml


def _laughs(levels: int, width: int) -> bytes:
    lines = [f"a0: &a0 [{','.join(['lol'] * width)}]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"[" * 200_000, "max depth"),
        (b"- " * 200_000, "max depth"),
        (b"{a: " * 200_000, "max depth"),
        (_laughs(9, 9), "excessive aliasing"),
        (b"big: &a " + b"x" * 100_000 + b"\nall: [" + b"*a," * 1000 + b"]", "excessive aliasing"),
        (b"a: &x [*x]", "contains itself"),
        (b"a: *nowhere", "unknown anchor"),
        (b"a: " + b"9" * 5000, "invalid value"),
        (b"a: !!int x", "cannot decode"),
        (b"a: !!binary eA==", "constructor"),
        (b"a: !!python/object/apply:os.getcwd []", "constructor"),
        (b"a: \xff", "unacceptable character"),
    ],
)
def test_expanding_yaml_is_rejected_early(body: bytes, complaint: str) -> None:
    with pytest.raises(yaml.YAMLError, match=complaint):
        load_yaml(body)


def test_yaml_aliases_are_resolved_within_limits() -> None:
    body = b"labels: &l {app: web}\nselector: *l\ntemplate: {<<: *l, tier: front}\n"
    assert load_yaml(body) == (
        {"labels": {"app": "web"}, "selector": {"app": "web"}, "template": {"app": "web", "tier": "front"}},
        [],
    )


def test_repeated_keys_of_json_in_yaml_are_reported() -> None:
    assert load_yaml(b'{"a": 1e3, "b": "2020-01-01"}') == ({"a": 1000.0, "b": "2020-01-01"}, [])
    assert load_yaml(b'{"a": 1, "a": 2}') == ({"a": 2}, ['line 1: key "a" already set in map'])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "unexpected end of JSON input"),
        ('{"a":', "unexpected end of JSON input"),
        ('{"a":"b}', "unexpected end of JSON input"),
        ('{"a":1} x', "invalid character 'x' after top-level value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        ('{"a":01}', "invalid character '1' after object key:value pair"),
        ('{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        ('{"a":1e}', "invalid character '}' in exponent of numeric literal"),
        ('{"a":-}', "invalid character '}' in numeric literal"),
        ('{"a":"\\q"}', "invalid character 'q' in string escape code"),
        ('{"a":"\\u12x4"}', "invalid character 'x' in \\u hexadecimal character escape"),
        ('{"a":"x\ty"}', "invalid character '\\t' in string literal"),
        ("a: b", "invalid character 'a' looking for beginning of value"),
        ("- op: add", "invalid character ' ' in numeric literal"),
    ],
)
def test_invalid_json(text: str, complaint: str) -> None:
    assert json_error(text.encode(), ValueError("nothing")) == complaint


@pytest.mark.parametrize(
    "text", ["{}", "[]", ' [1, -2.5e+3, "\\u00e9\\n", {"a": [true, null, false]}] ', "0"]
)
def test_valid_json_causes_no_warnings(text: str) -> None:
    assert json_error(text.encode(), ValueError("too deep")) == "too deep"
