"""Semantic versions (2.0), strict or, with `normalize`, after completing short versions."""

from __future__ import annotations

import re
from typing import Final

from kubewright.cel.checking.types import opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.values import MAX_UINT, Opaque

_PART: Final = re.compile(r"[0-9]+", re.ASCII)
_IDENTIFIERS: Final = re.compile(r"[0-9A-Za-z-]+")
_MAX_TEXT: Final = 1000


class Semver(Opaque):
    """A version; build metadata is stored and ignored in comparisons."""

    __slots__ = ("numbers", "pre")
    cel_type = opaque_type("kubernetes.Semver")

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[str, ...]) -> None:
        self.numbers = numbers
        self.pre = pre

    def equals(self, other: object) -> bool:
        """Equality by precedence."""
        return isinstance(other, Semver) and _compare(self, other) == 0


def _number(text: str, name: str) -> int:
    if not _PART.fullmatch(text):
        raise CelError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise CelError(f'{name.capitalize()} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise CelError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def parse(text: str, normalize: bool = False) -> Semver:
    """`semver(text, normalize)`."""
    if normalize:
        text = _normalized(text)
    if not text:
        raise CelError("Version string empty")
    if len(text) > _MAX_TEXT:
        raise CelError("Version string too long")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    identifiers: tuple[str, ...] = ()
    if dash:
        identifiers = tuple(pre.split("."))
        for item in identifiers:
            _check_identifier(item, "prerelease")
            if item.isdigit() and len(item) > 1 and item[0] == "0":
                raise CelError(f'Numeric PreRelease version must not contain leading zeroes "{item}"')
    if plus:
        for item in build.split("."):
            _check_identifier(item, "build meta data")
    return Semver((major, minor, _number(patch, "patch")), identifiers)


def _check_identifier(item: str, what: str) -> None:
    if not item:
        raise CelError(f"{what.capitalize()} is empty")
    if not _IDENTIFIERS.fullmatch(item):
        raise CelError(f'Invalid character(s) found in {what} "{item}"')


def _normalized(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    bare = part.lstrip("0")
    return bare if bare[:1].isascii() and bare[:1].isdigit() else "0" + bare


def is_semver(text: str, normalize: bool = False) -> bool:
    """`isSemver(text, normalize)`."""
    try:
        parse(text, normalize)
    except CelError:
        return False
    return True


def _compare(left: Semver, right: Semver) -> int:
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    if bool(left.pre) != bool(right.pre):
        return -1 if left.pre else 1
    for mine, theirs in zip(left.pre, right.pre, strict=False):
        if mine != theirs:
            return -1 if _rank(mine) < _rank(theirs) else 1
    return (len(left.pre) > len(right.pre)) - (len(left.pre) < len(right.pre))


def _rank(identifier: str) -> tuple[int, int, str]:
    return (0, int(identifier), "") if identifier.isdigit() else (1, 0, identifier)


def _greater(left: Semver, right: Semver) -> bool:
    return _compare(left, right) > 0


def _less(left: Semver, right: Semver) -> bool:
    return _compare(left, right) < 0


_V: Final = "kubernetes.Semver"
OVERLOADS: Final[list[Overload]] = [
    overload("semver", "string_to_semver", f"(string) -> {_V}", parse),
    overload("semver", "string_bool_to_semver", f"(string, bool) -> {_V}", parse),
    overload("isSemver", "is_semver_string", "(string) -> bool", is_semver),
    overload("isSemver", "is_semver_string_bool", "(string, bool) -> bool", is_semver),
    overload(
        "isGreaterThan",
        "semver_is_greater_than",
        f"{_V}.({_V}) -> bool",
        _greater,
    ),
    overload(
        "isLessThan",
        "semver_is_less_than",
        f"{_V}.({_V}) -> bool",
        _less,
    ),
    overload("compareTo", "semver_compare_to", f"{_V}.({_V}) -> int", _compare),
    overload("major", "semver_major", f"{_V}.() -> int", lambda value: value.numbers[0]),
    overload("minor", "semver_minor", f"{_V}.() -> int", lambda value: value.numbers[1]),
    overload("patch", "semver_patch", f"{_V}.() -> int", lambda value: value.numbers[2]),
]
