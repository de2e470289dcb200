"""The hash of a pod template, as kube-controller-manager computes it.

    template_hash(deployment.spec.template, deployment.status.collision_count)     # "7d4b9f6c5d"

It is the FNV-1a hash of the Go value of the defaulted template in the notation of go-spew, with the names and
types of all fields; `go_layouts.json` (from tools/generate_go_layouts.py) has them. Names of ReplicaSets and
the label `pod-template-hash` therefore match those of a real cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.encoding.codec import to_plain
from kubewright.api.values.names import SUFFIX_ALPHABET

_NIL: Final = "<nil>"
_INTEGERS: Final = frozenset(("int", "int32", "int64", "uint8"))
_ZERO_TIME: Final = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """Return the value of the label `pod-template-hash`."""
    data = dump_go_value(to_plain(template), "v1.PodTemplateSpec").encode()
    if collision_count is not None:
        data += collision_count.to_bytes(4, "little") + bytes(4)
    return safe_encode(str(fnv1a(data)))


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """Replace each character by one of the alphabet of generated names."""
    return "".join(SUFFIX_ALPHABET[ord(character) % len(SUFFIX_ALPHABET)] for character in text)


def dump_go_value(value: Any, go_type: str) -> str:
    """Return the dump of a JSON value that was decoded as a Go type."""
    return f"({go_type}){_dump(value, go_type)}"


@cache
def _layouts() -> dict[str, Any]:
    layouts: dict[str, Any] = json.loads(
        files("kubewright.workloads").joinpath("go_layouts.json").read_text()
    )
    return layouts


def _dump(value: Any, go_type: str) -> str:
    """Return the dump without the type."""
    if go_type.startswith("[]"):
        item = go_type[2:]
        return f"[{' '.join(_element(each, item) for each in value)}]" if value else _NIL
    if go_type.startswith("map["):
        item = go_type.partition("]")[2]
        if not value:
            return _NIL
        entries = sorted(value.items(), key=lambda entry: entry[0].encode())
        return f"map[{' '.join(f'{key}:{_element(each, item)}' for key, each in entries)}]"
    special = _SPECIAL.get(go_type)
    if special is not None:
        return special(value)
    layout = _layouts()[go_type]
    if isinstance(layout, str):
        return _dump(value, layout)
    return f"{{{' '.join(_fields(value or {}, layout))}}}"


def _fields(value: dict[str, Any], layout: list[list[str]]) -> Iterator[str]:
    for name, key, go_type in layout:
        part = value.get(key) if key else value
        if not go_type.startswith("*"):
            yield f"{name}:({go_type}){_dump(part, go_type)}"
        elif part is None or (not key and not _has_any(part, go_type[1:])):
            yield f"{name}:({go_type}){_NIL}"
        else:
            yield f"{name}:({go_type}){_dump(part, go_type[1:])}"


def _has_any(value: dict[str, Any], go_type: str) -> bool:
    return any(key in value for _, key, _ in _layouts()[go_type])


def _element(value: Any, go_type: str) -> str:
    """Return the dump of an element, whose type is implied."""
    if not go_type.startswith("*"):
        return _dump(value, go_type)
    return _NIL if value is None else f"<*>{_dump(value, go_type[1:])}"


def _dump_string(value: Any) -> str:
    return value or ""


def _dump_bool(value: Any) -> str:
    return "true" if value else "false"


def _dump_integer(value: Any) -> str:
    return str(value or 0)


def _dump_int_or_string(value: Any) -> str:
    is_string = isinstance(value, str)
    number, text = (0, value) if is_string else (value or 0, "")
    return f"{{Type:(intstr.Type){int(is_string)} IntVal:(int32){number} StrVal:(string){text}}}"


def _dump_time(value: Any) -> str:
    # Templates have no times; a creationTimestamp of null is the zero time.
    return _ZERO_TIME


_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_DIGITS: Final = 18
_MAX_INT64: Final = (1 << 63) - 1


def _dump_quantity(value: Any) -> str:
    text = str(value if value is not None else "").strip()
    if not text:
        return _quantity(0, 0, "", "")
    if text == "0":
        return _quantity(0, 0, text, "DecimalSI")
    body = text.lstrip("+-")
    negative = text.startswith("-")
    end = next((index for index, each in enumerate(body) if each not in "0123456789."), len(body))
    whole, _, denominator = body[:end].partition(".")
    number = whole.lstrip("0") or "0"
    suffix = body[end:]
    if suffix in _BINARY:
        form, exponent = "BinarySI", _BINARY[suffix]
        scale, factor = 0, 1 << exponent
        precision = 15 - len(number) - int(exponent * 3 / 10) - 1 if not denominator else -1
    else:
        form = "DecimalSI" if suffix in _DECIMAL else "DecimalExponent"
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        scale, factor = exponent, 1
        precision = _MAX_DIGITS - len(number) - len(denominator)
    digits = number + denominator
    if precision >= 0 and scale - len(denominator) >= -9:
        scale -= len(denominator)
        mantissa = int(digits)
        amount = mantissa * factor
        if amount <= _MAX_INT64:
            if form == "BinarySI":
                canonical = exponent % 10 == 0 and mantissa & 7 != 0
            else:
                canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
            return _quantity(-amount if negative else amount, scale, text if canonical else "", form)
    return _big_quantity(
        int(digits) * factor, len(denominator) - (exponent if factor == 1 else 0), negative, form
    )


def _quantity(value: int, scale: int, text: str, form: str) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){form}}}"
    )


def _big_quantity(unscaled: int, scale: int, negative: bool, form: str) -> str:
    """Return the dump of a quantity that is stored as a decimal, rounded up to nano units."""
    if unscaled:
        shift = 9 - scale
        unscaled = unscaled * 10**shift if shift >= 0 else -(-unscaled // 10**-shift)
        scale = 9
    if form == "BinarySI" and unscaled > _MAX_INT64 * 10**scale:
        unscaled, scale = _MAX_INT64, 0
    if form == "BinarySI" and 0 < unscaled < 10**scale:
        form = "DecimalSI"
    words = []
    rest = unscaled
    while rest:
        words.append(str(rest & (1 << 64) - 1))
        rest >>= 64
    shown = f"[{' '.join(words)}]" if words else _NIL
    return (
        "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){_dump_bool(negative)} "
        f"abs:(big.nat){shown}}} scale:(inf.Scale){scale}}}}} s:(string) Format:(resource.Format){form}}}"
    )


_SPECIAL: Final[dict[str, Callable[[Any], str]]] = {
    "string": _dump_string,
    "bool": _dump_bool,
    **dict.fromkeys(_INTEGERS, _dump_integer),
    "resource.Quantity": _dump_quantity,
    "intstr.IntOrString": _dump_int_or_string,
    "v1.Time": _dump_time,
}
