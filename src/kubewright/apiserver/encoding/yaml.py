"""YAML as Kubernetes decodes it: the first document, as JSON data.

Plain scalars follow YAML 1.1 where clients rely on it (`yes` and `on` are booleans, `017` is octal), but
dates and times are text. Keys are always text: `1: a` has the key "1", `y: b` the key "true". Depth and alias
expansion are checked before a document is composed.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from kubewright.api.yaml_limits import YAMLLimitError, check_limits

from .negotiation import encode

_decode = msgspec.json.Decoder().decode

_DEPTH = 200
_EXPANDED = 3 * 1024 * 1024
"""Maximum size of a document with expanded aliases in characters; documents above it may have their own
size."""

_THREAD_BYTES = 32 * 1024
"""Longer bodies are decoded in a worker thread."""

_TAG = "tag:yaml.org,2002:"
_NULLS = ("", "~", "null", "Null", "NULL")
_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_INTEGER = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-fA-FxXoO_.+-]*\Z|\.[0-9]+(?:[eE][-+]?[0-9]+)?\Z")


def _number(text: str) -> int | float | None:
    """Return the number of a plain scalar, or `None`."""
    plain = text if text[:1] == "." else text.replace("_", "")
    if _INTEGER.match(plain):
        digits = plain.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8) if octal else int(digits, 0 if digits[0] == "0" else 10)
        value = -value if plain[0] == "-" else value
        if -(1 << 63) <= value < 1 << 64:
            return value
    if not _FLOAT.match(plain):
        return None
    fraction = float(plain)
    if math.isinf(fraction):
        return None
    return int(fraction) if fraction.is_integer() and abs(fraction) < 1e21 else fraction


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader without the types that JSON does not have: dates, sets, bytes, ordered pairs."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            if value in _NULLS:
                return _TAG + "null"
            if value in _TRUE or value in _FALSE:
                return _TAG + "bool"
            if value == "<<":
                return _TAG + "merge"
            return _TAG + "float" if _NUMBER.match(value) and _number(value) is not None else _TAG + "str"
        return super().resolve(kind, value, implicit)  # type: ignore[no-any-return]

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        value = _number(self.construct_scalar(node))
        if value is None:
            tag = node.tag.removeprefix(_TAG)
            raise yaml.YAMLError(f"yaml: cannot decode !!str `{node.value}` as a !!{tag}")
        return value

    def construct_boolean(self, node: yaml.ScalarNode) -> bool:
        if node.value not in _TRUE and node.value not in _FALSE:
            raise yaml.YAMLError(f"yaml: cannot decode !!str `{node.value}` as a !!bool")
        return node.value in _TRUE


_Loader.yaml_constructors = {
    tag: build
    for tag, build in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] not in ("binary", "omap", "pairs", "set", "timestamp")
}
_Loader.add_constructor(_TAG + "int", _Loader.construct_number)
_Loader.add_constructor(_TAG + "float", _Loader.construct_number)
_Loader.add_constructor(_TAG + "bool", _Loader.construct_boolean)


def load_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode the first document; return it with an error for each duplicate key. Raises only `YAMLError`."""
    if isinstance(data, _DecodedYAML):
        return data.result()
    return _load_json(data) or _load_text(data)


async def decode_in_thread(data: bytes) -> bytes:
    """Decode long YAML in a worker thread; `load_yaml` of the returned bytes costs nothing."""
    if len(data) <= _THREAD_BYTES or (data[:1] == b"{" and _load_json(data) is not None):
        return data
    decoded = _DecodedYAML(data)
    try:
        document = await asyncio.to_thread(_load_text, data)
    except yaml.YAMLError as raised:
        error = raised

        def fail() -> tuple[Any, list[str]]:
            raise error

        decoded.result = fail
    else:
        decoded.result = lambda: document
    return decoded


class _DecodedYAML(bytes):
    """YAML text with the result of decoding it, which can be used once."""

    result: Callable[[], tuple[Any, list[str]]]


def _load_json(data: bytes) -> tuple[Any, list[str]] | None:
    """Decode YAML that is JSON, as most clients send it, and much faster to decode as such."""
    if data[:1] != b"{":
        return None
    try:
        obj = _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return (obj, []) if data.count(b'"') == encode(obj).count(b'"') else None


def _load_text(data: bytes) -> tuple[Any, list[str]]:
    try:
        _check_size(data)
        return _read(data)
    except yaml.MarkedYAMLError as error:
        raise yaml.YAMLError(_go_message(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise yaml.YAMLError(f"yaml: invalid value: {error}") from None


def _read(data: bytes) -> tuple[Any, list[str]]:
    loader = _Loader(data)
    duplicates: list[str] = []
    try:
        if not loader.check_node():
            return None, []
        node = loader.get_node()
        _normalize_keys(node, duplicates)
        return loader.construct_document(node), duplicates
    finally:
        loader.dispose()


def _go_message(error: yaml.MarkedYAMLError) -> str:
    """Return the message of Go's YAML parser, which omits the line number of the first line."""
    line = error.problem_mark.line if error.problem_mark is not None else 0
    if line:
        line += isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _check_size(data: bytes) -> None:
    """Check depth and expanded size of the first document."""
    loader = _Loader(data)
    try:
        check_limits(
            _first_document(loader),
            depth=_DEPTH,
            most=max(len(data), _EXPANDED),
            weigh=lambda scalar: len(scalar) + 1,
        )
    except YAMLLimitError as error:
        why = {
            "depth": "exceeded max depth",
            "size": "document contains excessive aliasing",
            "cycle": f"anchor '{error.anchor}' value contains itself",
            "anchor": f"unknown anchor '{error.anchor}' referenced",
        }
        raise yaml.YAMLError(f"yaml: {why[error.problem]}") from None
    finally:
        loader.dispose()


def _first_document(loader: _Loader) -> Iterator[yaml.Event]:
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.DocumentEndEvent):
            return
        yield event


def _normalize_keys(node: Any, found: list[str]) -> None:
    """Convert keys to text; add an error for each duplicate key."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _TAG + "merge":
                _normalize_key(key, value)
                if key.value in seen:
                    found.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen.add(key.value)
            _normalize_keys(value, found)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _normalize_keys(item, found)


def _normalize_key(key: yaml.ScalarNode, value: Any) -> None:
    if key.tag == _TAG + "null":
        shown = f'"{value.value}"' if isinstance(value, yaml.ScalarNode) else "..."
        raise yaml.YAMLError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}")
    if key.tag == _TAG + "bool":
        key.value = "true" if key.value in _TRUE else "false"
    elif key.tag in (_TAG + "int", _TAG + "float"):
        key.value = str(_number(key.value))
    key.tag = _TAG + "str"
