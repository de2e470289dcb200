"""YAML as Kubernetes decodes it: the first document, as JSON data.

Plain scalars follow YAML 1.1 where clients rely on it (`yes` and `on` are booleans, `017` is octal), but
dates and times are text. Keys are always text: `1: a` has the key "1", `y: b` the key "true". Depth and alias
expansion are checked before a document is composed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from kubewright.api.encoding.yaml_limits import YAMLLimitError, check_limits
from kubewright.apiserver.slices import run_in_slices

from .negotiation import encode
from .yaml_events import (
    FALSE,
    MERGE,
    NULLS,
    TRUE,
    TooDeep,
    UnsupportedEvents,
    decode_in_slices,
    duplicate_key,
    number,
    plain_number,
)

_decode = msgspec.json.Decoder().decode

_DEPTH = 200
_EXPANDED = 3 * 1024 * 1024
"""Maximum size of a document with expanded aliases in characters; documents above it may have their own
size."""

_SLICED_BYTES = 4 * 1024
"""Longer bodies are decoded in slices."""

_TAG = "tag:yaml.org,2002:"


_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.composer.Composer, _FastLoader):  # type: ignore[misc]
    """Loader without the types that JSON does not have: dates, sets, bytes, ordered pairs.

    Documents are composed in Python: libyaml's binding would hold the interpreter lock for all of it.
    """

    def __init__(self, stream: bytes) -> None:
        _FastLoader.__init__(self, stream)
        yaml.composer.Composer.__init__(self)

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            if value in NULLS:
                return _TAG + "null"
            if value in TRUE or value in FALSE:
                return _TAG + "bool"
            if value == MERGE:
                return _TAG + "merge"
            return _TAG + "float" if plain_number(value) is not None else _TAG + "str"
        tag: str = super().resolve(kind, value, implicit)
        return tag

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        value = number(self.construct_scalar(node))
        if value is None:
            tag = node.tag.removeprefix(_TAG)
            raise yaml.YAMLError(f"yaml: cannot decode !!str `{node.value}` as a !!{tag}")
        return value

    def construct_boolean(self, node: yaml.ScalarNode) -> bool:
        if node.value not in TRUE and node.value not in FALSE:
            raise yaml.YAMLError(f"yaml: cannot decode !!str `{node.value}` as a !!bool")
        return node.value in TRUE


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


async def decode_long_yaml(data: bytes) -> bytes:
    """Decode long YAML in slices, with other requests in between; `load_yaml` of the returned bytes costs
    nothing."""
    if len(data) <= _SLICED_BYTES:
        return data
    decoded = _DecodedYAML(data)
    try:
        document = _load_json(data) or await _load_in_slices(data)
    except yaml.YAMLError as raised:
        error = raised

        def fail() -> tuple[Any, list[str]]:
            raise error

        decoded.result = fail
    else:
        decoded.result = lambda: document
    return decoded


async def _load_in_slices(data: bytes) -> tuple[Any, list[str]]:
    loader = _Loader(data)
    duplicates: list[str] = []
    slices = decode_in_slices(loader.get_event, duplicates, depth=_DEPTH)
    try:
        return await run_in_slices(slices), duplicates
    except UnsupportedEvents:
        return await asyncio.to_thread(_load_text, data)
    except TooDeep:
        raise yaml.YAMLError("yaml: exceeded max depth") from None
    except yaml.MarkedYAMLError as error:
        raise yaml.YAMLError(_go_message(error)) from None
    except ValueError as error:
        raise yaml.YAMLError(f"yaml: invalid value: {error}") from None
    finally:
        loader.dispose()


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
                    found.append(duplicate_key(key.start_mark.line, key.value))
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
        key.value = "true" if key.value in TRUE else "false"
    elif key.tag in (_TAG + "int", _TAG + "float"):
        key.value = str(number(key.value))
    key.tag = _TAG + "str"
