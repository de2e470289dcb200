"""Rules for single fields: the building blocks of the tables in `validation.table`.

A rule is data: it has a condition, written as a Python expression so that a compiled table can inline it, and
the errors that it reports when the condition holds. `absent` is the value that stands for a missing field,
as the zero value of a Go field that is not a pointer; rules without it ignore missing fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from kubewright.api.field_errors import FieldError
from kubewright.api.values import names
from kubewright.schema import field_errors as fe

Errors = list[FieldError]
FieldCheck = Callable[[Any, str], Errors]
"""A function from a value and its path to errors; the form of every hook."""
Bind = Callable[[object], str]
"""Make an object available to generated code; returns the name that stands for it."""

IMMUTABLE = "field is immutable"
NON_NEGATIVE = "must be greater than or equal to 0"


class Rule:
    """One condition on one value."""

    absent: Any = None
    stop: bool = False
    """Whether the following rules of the field apply only if this one holds."""

    def condition(self, value: str, bind: Bind) -> str:
        """Return an expression over the variable `value` that is true when the rule is violated."""
        raise NotImplementedError

    def errors(self, value: Any, path: str) -> Errors:
        """Return the errors of a value that violates the rule."""
        raise NotImplementedError


class Required(Rule, Struct, frozen=True):
    """The field must be set. The other rules of the field apply only if it is.

    An empty string, list or map and 0 count as missing, except for `pointer` fields (objects, and optional
    scalars), which may be empty.
    """

    detail: str = ""
    pointer: bool = False

    def condition(self, value: str, bind: Bind) -> str:
        return f"{value} is None" if self.pointer else f"not {value}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.required(path, self.detail)]


class Minimum(Rule, Struct, frozen=True):
    """The number must not be less than `limit`."""

    limit: int
    detail: str = ""
    absent: int | None = None

    def condition(self, value: str, bind: Bind) -> str:
        return f"{value} < {self.limit}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.invalid(path, value, self.detail or f"must be greater than or equal to {self.limit}")]


class Maximum(Rule, Struct, frozen=True):
    """The number must not be greater than `limit`."""

    limit: int
    detail: str = ""
    absent: int | None = None

    def condition(self, value: str, bind: Bind) -> str:
        return f"{value} > {self.limit}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.invalid(path, value, self.detail or f"must be less than or equal to {self.limit}")]


class Range(Rule, Struct, frozen=True):
    """The number must be between `low` and `high`, inclusive."""

    low: int
    high: int
    detail: str = ""
    absent: int | None = None

    def condition(self, value: str, bind: Bind) -> str:
        return f"not {self.low} <= {value} <= {self.high}"

    def errors(self, value: Any, path: str) -> Errors:
        text = self.detail or f"must be between {self.low} and {self.high}, inclusive"
        return [fe.invalid(path, value, text)]


class Enum(Rule):
    """The value must be one of `values`. An error lists them in this order.

    With `detail` the error is `Invalid value: ...: detail` instead of `Unsupported value`.
    """

    def __init__(self, *values: str, absent: str | None = None, detail: str = "") -> None:
        self.values = values
        self.absent = absent
        self.detail = detail

    def condition(self, value: str, bind: Bind) -> str:
        return f"{value} not in {self.values!r}"

    def errors(self, value: Any, path: str) -> Errors:
        if self.detail:
            return [fe.invalid(path, value, self.detail)]
        return [fe.not_supported(path, value, self.values)]


class MaxLength(Rule, Struct, frozen=True):
    """The string must not be longer than `limit` bytes."""

    limit: int

    def condition(self, value: str, bind: Bind) -> str:
        return f"len({value}) > {self.limit // 4} and len({value}.encode()) > {self.limit}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.too_long(path, self.limit)]


class MaxItems(Rule, Struct, frozen=True):
    """The list must not have more than `limit` items.

    With `detail` the error is `Invalid value: ...: detail` instead of `Too many`; `show` returns the value in
    that message. With `stop` the rules after this one, such as those of the items, are not applied.
    """

    limit: int
    detail: str = ""
    stop: bool = False
    show: Callable[[Any], Any] | None = None

    def condition(self, value: str, bind: Bind) -> str:
        return f"len({value}) > {self.limit}"

    def errors(self, value: Any, path: str) -> Errors:
        if self.detail:
            return [fe.invalid(path, value if self.show is None else self.show(value), self.detail)]
        return [fe.too_many(path, len(value), self.limit)]


class ExclusiveWildcard(Rule, Struct, frozen=True):
    """A list with `*` must not have other items, which the message calls `items`."""

    items: str

    def condition(self, value: str, bind: Bind) -> str:
        return f"len({value}) > 1 and '*' in {value}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.invalid(path, value, f"if '*' is present, must not specify other {self.items}")]


class Format(Rule, Struct, frozen=True):
    """The string must have a format: one of the functions of `kubewright.api.values.names`.

    `check` returns a description of everything that is wrong. An empty string is not checked unless
    `absent` is "".
    """

    check: Callable[[str], list[str]]
    absent: str | None = None

    def condition(self, value: str, bind: Bind) -> str:
        call = f"{bind(self.check)}({value})"
        return call if self.absent is not None else f"{value} and {call}"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.invalid(path, value, text) for text in self.check(value)]


class Forbidden(Rule, Struct, frozen=True):
    """The field must not be set. An empty `pointer` field counts as set."""

    detail: str
    pointer: bool = False

    def condition(self, value: str, bind: Bind) -> str:
        return f"{value} is not None" if self.pointer else f"{value} not in (None, [], '')"

    def errors(self, value: Any, path: str) -> Errors:
        return [fe.forbidden(path, self.detail)]


class Union(Rule):
    """Of the members `fields` of an object, exactly one must be set (at most one without `missing`).

    No member: `Required value` at the object, with the text `missing`. More than one: `Forbidden` with the
    text `excess` at each member but the first.
    """

    def __init__(self, *fields: str, excess: str, missing: str | None = None) -> None:
        self.fields = fields
        self.missing = missing
        self.excess = excess

    def condition(self, value: str, bind: Bind) -> str:
        count = f"sum([{value}.get(f) is not None for f in {self.fields!r}])"
        return f"{count} > 1" if self.missing is None else f"{count} != 1"

    def errors(self, value: Any, path: str) -> Errors:
        present = [field for field in self.fields if value.get(field) is not None]
        if not present:
            return [fe.required(path, self.missing or "")]
        return [fe.forbidden(fe.child(path, field), self.excess) for field in present[1:]]


class Unique(Struct, frozen=True):
    """Items of a list (`"ports[*]"`) must differ in the field `key`; an empty `key` compares whole items.

    A repeated value is reported at the item's field `at`, or at the item if that is empty; with `last`, after
    the errors of all items. With `stop` the following rules of a repeated item are not applied.
    """

    key: str = ""
    at: str | None = None
    ignore_empty: bool = False
    last: bool = False
    stop: bool = False
    only: Format | None = None
    """Compare only values that have this format."""


class Check(Struct, frozen=True):
    """A hook: a function for what a rule cannot express, such as conditions that concern several fields.

    `function(value, path)`, or `function(value, path, context)` if `context` is set (see `Rules`). A missing
    field is skipped unless `absent` gives a value for it. Functions can also stand in a table directly.
    """

    function: Callable[..., Errors]
    absent: Any = None
    context: bool = False


class When(Struct, frozen=True):
    """Apply `rules` to a value only if `predicate(value)` holds."""

    predicate: Callable[[Any], object]
    rules: Any


class Switch(Struct, frozen=True):
    """Apply the table of `cases` that the field `discriminator` of the object selects; others are ignored."""

    discriminator: str
    cases: Mapping[str, Any]


class ReportAt(Struct, frozen=True):
    """Apply `rules`, but report their errors as if the value stood at another path.

    `path` is relative to the object that the innermost `Rules` is applied to; "." is that object itself. An
    empty path reports errors of the items of a list at the list.
    """

    path: str
    rules: Any


class MapKeys(Struct, frozen=True):
    """Apply a rule to every key of a map, in sorted order; errors are at `path[key]`."""

    rule: Rule


DNS_LABEL = Format(names.check_dns_label)
DNS_SUBDOMAIN = Format(names.check_dns_subdomain)
QUALIFIED_NAME = Format(names.check_qualified_name, absent="")
PATH_SEGMENT = Format(names.check_path_segment)
CONFIG_KEY = Format(names.check_config_key)
PORT_NAME = Format(names.check_port_name)
LABEL_VALUE = Format(names.check_label_value)
NOT_NEGATIVE = Minimum(0)
PORT = Range(1, 65535)
OPTIONAL_PORT = Range(0, 65535, detail="must be between 1 and 65535, inclusive")
ID = Range(0, (1 << 31) - 1)
FILE_MODE = Range(0, 0o777, detail="must be a number between 0 and 0777 (octal), both inclusive")
POSITIVE = Minimum(1, detail="must be greater than zero", absent=0)
