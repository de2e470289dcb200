"""Label selectors, as text and as structure.

A `Selector` is a conjunction of `Requirement`s, each a key, an operator and values:

    text form                   operator     matches labels that
    `k=v`, `k==v`, `k in (v)`   = == in      have the key with (one of) the values
    `k!=v`, `k notin (v)`       != notin     lack the key, or have another value
    `k`                         exists       have the key
    `!k`                        !            lack the key
    `k>1`, `k<1`                gt lt        have the key with an integer above or below

`parse_selector` parses text, `selector_of` converts the structured `LabelSelector` of the API (`None` matches
nothing, an empty one everything). Selectors are immutable; keys and values are validated on creation, with
the messages of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kubewright.api.field_errors import FieldError, aggregate
from kubewright.api.meta import LabelSelector, LabelSelectorRequirement
from kubewright.api.values.go_format import quote
from kubewright.api.values.names import check_label_value, check_qualified_name
from kubewright.text_cache import cache_short

IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
GREATER_THAN: Final = "gt"
LESS_THAN: Final = "lt"
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"

_BINARY: Final = (IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN)
_OPERATORS: Final = (*_BINARY, EXISTS, DOES_NOT_EXIST)
_SYMBOLS: Final = {
    EQUALS: "=", DOUBLE_EQUALS: "==", NOT_EQUALS: "!=", GREATER_THAN: ">", LESS_THAN: "<", IN: " in ",
    NOT_IN: " notin ",
}  # fmt: skip
_FROM_STRUCTURED: Final = {
    "In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST, "Gt": GREATER_THAN,
    "Lt": LESS_THAN,
}  # fmt: skip
_TO_STRUCTURED: Final = {ours: theirs for theirs, ours in _FROM_STRUCTURED.items()} | {NOT_EQUALS: "NotIn"}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)


class SelectorError(ValueError):
    """A selector is malformed or has an invalid key or value."""


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


class Requirement:
    """A requirement on one label; `operator` is that of the text form."""

    __slots__ = ("_test", "key", "operator", "values")

    key: str
    operator: str
    values: tuple[str, ...]

    def __init__(self, key: str, operator: str, values: Iterable[str] = ()) -> None:
        self.key = key
        self.operator = operator
        self.values = tuple(values)
        errors = list(self._check())
        if errors:
            raise SelectorError(aggregate(errors))
        self._test = self._compile()

    def _check(self) -> Iterable[FieldError]:
        listed = list(self.values) or None
        messages = check_qualified_name(self.key)
        if messages:
            yield FieldError.invalid("key", self.key, "; ".join(messages))
        if self.operator in (IN, NOT_IN):
            if not self.values:
                yield FieldError.invalid(
                    "values", listed, "for 'in', 'notin' operators, values set can't be empty"
                )
        elif self.operator in (EQUALS, DOUBLE_EQUALS, NOT_EQUALS):
            if len(self.values) != 1:
                yield FieldError.invalid(
                    "values", listed, "exact-match compatibility requires one single value"
                )
        elif self.operator in (EXISTS, DOES_NOT_EXIST):
            if self.values:
                yield FieldError.invalid(
                    "values", listed, "values set must be empty for exists and does not exist"
                )
        elif self.operator in (GREATER_THAN, LESS_THAN):
            if len(self.values) != 1:
                yield FieldError.invalid(
                    "values", listed, "for 'Gt', 'Lt' operators, exactly one value is required"
                )
            for index, value in enumerate(self.values):
                if _integer(value) is None:
                    yield FieldError.invalid(
                        f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"
                    )
        else:
            yield FieldError.not_supported("operator", self.operator, _OPERATORS)
        for index, value in enumerate(self.values):
            messages = check_label_value(value)
            if messages:
                yield FieldError.invalid(f"values[{index}][{self.key}]", value, "; ".join(messages))

    def _compile(self) -> Callable[[Mapping[str, str]], bool]:
        key, operator, values = self.key, self.operator, frozenset(self.values)
        if operator == EXISTS:
            return lambda labels: key in labels
        if operator == DOES_NOT_EXIST:
            return lambda labels: key not in labels
        if operator in (NOT_IN, NOT_EQUALS):
            return lambda labels: labels.get(key) not in values
        if operator in (GREATER_THAN, LESS_THAN):
            bound = int(self.values[0])
            sign = 1 if operator == GREATER_THAN else -1

            def beyond(labels: Mapping[str, str]) -> bool:
                value = _integer(labels.get(key, ""))
                return value is not None and sign * value > sign * bound

            return beyond
        if len(values) == 1:
            (only,) = values
            return lambda labels: labels.get(key) == only
        return lambda labels: labels.get(key) in values

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the labels meet this requirement."""
        return self._test(labels or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirement) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, tuple[str, ...]]:
        return self.key, self.operator, tuple(sorted(set(self.values)))

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in (IN, NOT_IN):
            values = f"({values})"
        return f"{self.key}{_SYMBOLS[self.operator]}{values}"

    def __repr__(self) -> str:
        return f"Requirement({self.key!r}, {self.operator!r}, {self.values!r})"


class Selector:
    """A conjunction of requirements; without any, everything matches. `str()` returns the text form."""

    __slots__ = ("_text", "requirements")

    requirements: tuple[Requirement, ...]
    """Sorted by key."""

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda one: one.key))
        self._text: str | None = None

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the labels match; `None` is the same as no labels."""
        if labels is None:
            labels = {}
        for requirement in self.requirements:  # noqa: SIM110  a generator costs as much as the test
            if not requirement._test(labels):
                return False
        return True

    @property
    def empty(self) -> bool:
        """Whether the selector matches everything."""
        return not self.requirements

    def add(self, *requirements: Requirement) -> Selector:
        """Return a selector with these requirements added."""
        return Selector((*self.requirements, *requirements))

    def __and__(self, other: Selector) -> Selector:
        return NOTHING if other is NOTHING else self.add(*other.requirements)

    def exact(self, key: str) -> str | None:
        """Return the value that the label `key` is required to have, or `None`."""
        for requirement in self.requirements:
            if requirement.key == key:
                single = requirement.operator in (EQUALS, DOUBLE_EQUALS, IN) and len(requirement.values) == 1
                return requirement.values[0] if single else None
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __str__(self) -> str:
        if self._text is None:
            self._text = ",".join(map(str, self.requirements))
        return self._text

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


class _Nothing(Selector):
    __slots__ = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return False

    @property
    def empty(self) -> bool:
        return False

    def add(self, *requirements: Requirement) -> Selector:
        return self

    def __and__(self, other: Selector) -> Selector:
        return self

    def __repr__(self) -> str:
        return "NOTHING"


EVERYTHING: Final = Selector()
"""Matches everything."""
NOTHING: Final[Selector] = _Nothing()
"""Matches nothing. Its text form is empty, which servers read as everything: do not send it."""


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+))")
_OPERATOR_TOKENS: Final = {
    "in": IN, "notin": NOT_IN, "=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER_THAN,
    "<": LESS_THAN,
}  # fmt: skip


class _Parser:
    """Parser over tokens (is_identifier, text); the last token is `(False, "")`."""

    def __init__(self, text: str) -> None:
        self.tokens = [
            (bool(word), symbol or word) for symbol, word in _TOKEN.findall(text.rstrip(" \t\r\n"))
        ]
        self.tokens.append((False, ""))
        self.position = 0

    def peek(self) -> tuple[bool, str]:
        return self.tokens[min(self.position, len(self.tokens) - 1)]

    def next(self) -> tuple[bool, str]:
        token = self.peek()
        self.position += 1
        return token

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        while True:
            identifier, text = self.peek()
            if not identifier and text != "!":
                if text:
                    raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
                return Selector(requirements)
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            identifier, text = self.next()
            if not identifier and text == "":
                return Selector(requirements)
            if identifier or text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            identifier, text = self.peek()
            if not identifier and text != "!":
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        identifier, key = self.next()
        negated = not identifier and key == "!"
        if negated:
            identifier, key = self.next()
        if not identifier:
            raise SelectorError(f"found '{key}', expected: identifier")
        messages = check_qualified_name(key)
        if messages:
            raise SelectorError(str(FieldError.invalid("<nil>", key, "; ".join(messages))))
        ends = self.peek() in ((False, ""), (False, ","))
        if negated or ends:
            return Requirement(key, DOES_NOT_EXIST if negated else EXISTS)
        _, text = self.next()
        operator = _OPERATOR_TOKENS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {', '.join(_BINARY)}")
        values = self.value_set() if operator in (IN, NOT_IN) else [self.exact_value()]
        return Requirement(key, operator, sorted(set(values)))

    def exact_value(self) -> str:
        if self.peek() in ((False, ""), (False, ",")):
            return ""
        identifier, text = self.next()
        if not identifier:
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def value_set(self) -> list[str]:
        token = self.next()
        if token != (False, "("):
            raise SelectorError(f"found '{token[1]}' expected: '('")
        identifier, text = self.peek()
        if not identifier and text not in (",", ")"):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values = [""]
        while True:
            identifier, text = self.next()
            if identifier:
                values[-1] = text
                identifier, text = self.next()
                if identifier or text not in (",", ")"):
                    raise SelectorError(f"found '{text}', expected: ',' or ')'")
            if text == ")":
                return values
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            values.append("")


@cache_short(maxsize=1024)
def parse_selector(text: str) -> Selector:
    """Parse the text form: `app=web,tier in (a,b),!canary,rank>3`. Empty text matches everything."""
    return _Parser(text).selector()


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Return a selector that requires all of these labels."""
    return Selector(Requirement(key, EQUALS, (value,)) for key, value in (labels or {}).items())


def requirement_of(key: str, operator: str, values: Iterable[str] | None = None) -> Requirement:
    """Convert a structured expression: In, NotIn, Exists, DoesNotExist, and for nodes also Gt and Lt."""
    ours = _FROM_STRUCTURED.get(operator)
    if ours is None:
        raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
    return Requirement(key, ours, values or ())


def selector_of(structured: LabelSelector | None) -> Selector:
    """Convert a structured selector: `None` matches nothing, an empty one everything."""
    if structured is None:
        return NOTHING
    requirements = [
        Requirement(key, EQUALS, (value,)) for key, value in (structured.match_labels or {}).items()
    ]
    for expression in structured.match_expressions or ():
        if expression.operator in ("Gt", "Lt"):
            raise SelectorError(f"{quote(expression.operator)} is not a valid label selector operator")
        requirements.append(requirement_of(expression.key, expression.operator, expression.values))
    return Selector(requirements)


def to_label_selector(selector: Selector | str) -> LabelSelector:
    """Return the structured form. `NOTHING` and the operators `>` and `<` have none."""
    if isinstance(selector, str):
        try:
            selector = parse_selector(selector)
        except SelectorError as error:
            text = f'couldn\'t parse the selector string "{selector}": {error}'
            raise SelectorError(text) from None
    if selector is NOTHING:
        raise SelectorError("a selector that matches nothing has no structured form; omit the field instead")
    structured = LabelSelector()
    for requirement in selector.requirements:
        if requirement.operator in (EQUALS, DOUBLE_EQUALS):
            structured.match_labels = {
                **(structured.match_labels or {}),
                requirement.key: requirement.values[0],
            }
            continue
        if requirement.operator in (GREATER_THAN, LESS_THAN):
            raise SelectorError(f"{quote(requirement.operator)} isn't supported in label selectors")
        expression = LabelSelectorRequirement(
            key=requirement.key,
            operator=_TO_STRUCTURED[requirement.operator],
            values=list(requirement.values) or None,
        )
        structured.match_expressions = [*(structured.match_expressions or []), expression]
    return structured


def format_label_selector(selector: LabelSelector | None) -> str:
    """Return a structured selector as Kubernetes prints it in events and conditions."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.match_labels or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values or ())}],}},"
        for each in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def check_label_selector(selector: LabelSelector | None, path: str) -> list[FieldError]:
    """Return the validation errors of a structured selector at `path`."""
    if selector is None:
        return []
    errors = check_labels(selector.match_labels, f"{path}.matchLabels")
    for index, expression in enumerate(selector.match_expressions or ()):
        errors.extend(_check_expression(expression, f"{path}.matchExpressions[{index}]"))
    return errors


def _check_expression(expression: LabelSelectorRequirement, path: str) -> Iterable[FieldError]:
    if expression.operator in ("In", "NotIn"):
        if not expression.values:
            yield FieldError.required(
                f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
    elif expression.operator in ("Exists", "DoesNotExist"):
        if expression.values:
            yield FieldError.forbidden(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    else:
        yield FieldError.invalid(f"{path}.operator", expression.operator, "not a valid selector operator")
    for message in check_qualified_name(expression.key):
        yield FieldError.invalid(f"{path}.key", expression.key, message)
    for index, value in enumerate(expression.values or ()):
        for message in check_label_value(value):
            yield FieldError.invalid(f"{path}.values[{index}]", value, message)


def check_labels(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """Return the validation errors of labels at `path`."""
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        errors.extend(FieldError.invalid(path, key, message) for message in check_qualified_name(key))
        errors.extend(FieldError.invalid(path, value, message) for message in check_label_value(value))
    return errors
