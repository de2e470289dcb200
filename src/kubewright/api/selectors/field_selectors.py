r"""Field selectors: `metadata.name=x,status.phase!=Running`.

Terms are joined by commas; `=` and `==` require a value, `!=` excludes one. A missing field equals the empty
string. In values, `,`, `=` and `\` are escaped as `\,`, `\=` and `\\`. Each resource decides which fields it
supports; with `transform` it can rename or reject them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kubewright.text_cache import cache_short

from .label_selectors import SelectorError


class FieldTerm(NamedTuple):
    """One comparison; `negated` for `!=`."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{escape_value(self.value)}"


class FieldSelector:
    """A conjunction of terms; without any, everything matches. `str()` returns the text form."""

    __slots__ = ("terms",)

    terms: tuple[FieldTerm, ...]

    def __init__(self, terms: Iterable[FieldTerm] = ()) -> None:
        self.terms = tuple(terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether an object with these fields matches."""
        for field, value, negated in self.terms:  # noqa: SIM110  a generator costs as much as the test
            if (fields.get(field, "") == value) is negated:
                return False
        return True

    @property
    def empty(self) -> bool:
        """Whether the selector matches everything."""
        return not self.terms

    def exact(self, field: str) -> str | None:
        """Return the value that `field` is required to have, or `None`."""
        for term in self.terms:
            if term.field == field and not term.negated:
                return term.value
        return None

    def transform(self, change: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """Apply `change` to every field and value; pairs that become empty are dropped."""
        changed = [(*change(term.field, term.value), term.negated) for term in self.terms]
        return FieldSelector(FieldTerm(*term) for term in changed if term[0] or term[1])

    def __and__(self, other: FieldSelector) -> FieldSelector:
        return FieldSelector(self.terms + other.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"


EVERY_FIELD: Final = FieldSelector()
"""Matches everything."""


def field_selector(fields: Mapping[str, str]) -> FieldSelector:
    """Return a selector that requires all of these field values."""
    return FieldSelector(FieldTerm(field, value) for field, value in fields.items())


def escape_value(value: str) -> str:
    """Escape a value for the text form."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(text: str) -> str:
    if "\\" not in text and "," not in text and "=" not in text:
        return text
    result: list[str] = []
    characters = iter(text)
    for char in characters:
        if char == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            result.append(escaped)
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            result.append(char)
    return "".join(result)


def _split_terms(text: str) -> list[str]:
    if "\\" not in text:
        return text.split(",")
    terms, start, escaped = [], 0, False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:index])
            start = index + 1
    return [*terms, text[start:]]


@cache_short(maxsize=1024)
def parse_field_selector(text: str) -> FieldSelector:
    """Parse the text form. Empty text and empty terms match everything."""
    terms: list[FieldTerm] = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        position = part.find("=")
        if position < 0:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        negated = position > 0 and part[position - 1] == "!"
        value = part[position + 1 :]
        if not negated and value[:1] == "=":
            value = value[1:]
        value = _unescape(value)
        field = part[: position - 1 if negated else position]
        if field or value:
            terms.append(FieldTerm(field, value, negated))
    return FieldSelector(terms)
