"""What an option is: a field of a frozen dataclass, with the flags that set it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, update_wrapper
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from .kinds import Kind

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
SAME: Final = "="
"""A flag of kube-apiserver with the name of the field."""
_METADATA: Final = "kubewright.option"


@dataclass(frozen=True, slots=True)
class Option:
    """An option: the flag `--name` of `kubewright up`, and the key `name` of its config file."""

    name: str
    kind: Kind
    default: Any
    help: str
    flag: str = ""
    """Name of the flag of kube-apiserver; empty if it has none."""
    is_rare: bool = False
    """Whether the option is not in the help of `kubewright up`."""
    shown_default: str = ""
    keyword: str = ""
    """The field that it sets."""
    concern: type = object

    @property
    def default_text(self) -> str:
        """The default as in a flag; empty if nothing is set by default."""
        return self.shown_default or self.kind.text(self.default)


Build = Callable[[Mapping[str, Any]], Any]
"""Returns the value of a field for the given values of its options, by name; raises `ValueError`."""


class Declaration(NamedTuple):
    """The options of a field, and how several of them become its value."""

    options: tuple[Option, ...]
    build: Build | None = None


def option(
    default: T,
    kind: Kind,
    help: str,
    flag: str = "",
    *,
    name: str = "",
    is_rare: bool = False,
    shown_default: str = "",
) -> T:
    """Return a field with one option; its name is by default that of the flag, or else of the field."""
    made = Option(name, kind, default, help, flag, is_rare, shown_default)
    return field(default=default, metadata={_METADATA: Declaration((made,))})


def combined(default: T, build: Build, options: Iterable[Option]) -> T:
    """Return a field that several options set."""
    return field(default=default, metadata={_METADATA: Declaration(tuple(options), build)})


def nested(cls: Callable[..., T]) -> T | None:
    """Return a field whose value is an instance of another options class, which its options set."""
    assert isinstance(cls, type)
    return combined(None, lambda given: cls(**keyword_arguments(cls, given)), options_of(cls))


def part(name: str, kind: Kind, help: str, default: Any = None, *, is_rare: bool = True) -> Option:
    """Return one of several options of a field; kube-apiserver has a flag of the same name."""
    return Option(name, kind, default, help, name, is_rare)


def concerns(cls: type) -> tuple[type, ...]:
    """Return the classes that declare the fields of a class, in the order of its bases."""
    bases = [base for base in cls.__bases__ if is_dataclass(base)]
    inherited = {each.name for base in bases for each in fields(base)}
    own = (cls,) if any(each.name not in inherited for each in fields(cls)) else ()
    return (*(each for base in bases for each in concerns(base)), *own)


@cache
def declarations(cls: type) -> dict[str, Declaration]:
    """Return the options of a class by field."""
    found: dict[str, Declaration] = {}
    for concern in concerns(cls):
        for each in fields(concern):
            declared: Declaration | None = each.metadata.get(_METADATA)
            if declared is None or each.name in found:
                continue
            words = each.name.replace("_", "-")
            options = []
            for one in declared.options:
                flag = words if one.flag == SAME else one.flag
                name = one.name or flag or words
                options.append(replace(one, flag=flag, name=name, keyword=each.name, concern=concern))
            found[each.name] = Declaration(tuple(options), declared.build)
    return found


@cache
def options_of(cls: type) -> tuple[Option, ...]:
    """Return the options of a class, by concern."""
    return tuple(one for each in declarations(cls).values() for one in each.options)


def keyword_arguments(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that values of options, by name, set; raises `ValueError` or `OSError`."""
    found = {}
    for keyword, (options, build) in declarations(cls).items():
        given = {one.name: values[one.name] for one in options if one.name in values}
        if given:
            found[keyword] = build(given) if build is not None else given[options[0].name]
    return found


def accepts_options(cls: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Let a function with an instance of an options class as argument accept the fields instead."""

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _check_keywords(cls, kwargs)
            return function(cls(*args, **kwargs))

        return update_wrapper(call, function)

    return decorate


def method_accepts_options(
    cls: Callable[P, T],
) -> Callable[[Callable[[S, T], R]], Callable[Concatenate[S, P], R]]:
    """Let a method accept the fields, as `accepts_options` does."""

    def decorate(method: Callable[[S, T], R]) -> Callable[Concatenate[S, P], R]:
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            _check_keywords(cls, kwargs)
            return method(self, cls(*args, **kwargs))

        return update_wrapper(call, method)

    return decorate


def _check_keywords(cls: Any, given: Iterable[str]) -> None:
    """Raise `TypeError` for a keyword that is not a field; the message suggests one."""
    names = {each.name for each in fields(cls)}
    for name in given:
        if name not in names:
            flag = name.replace("_", "-")
            same = [one.keyword for one in options_of(cls) if flag in (one.name, one.flag)]
            similar = same or get_close_matches(name, names, n=1)
            hint = f"; use {similar[0]}" if similar else ""
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")


def suggestion(name: str, options: Iterable[Option], prefix: str = "") -> str:
    """Return `; use <name>` for the flag of kube-apiserver or the field, or the most similar name."""
    known = {one.name: one for one in options}
    for one in known.values():
        if name.replace("_", "-") in (one.flag, one.keyword.replace("_", "-"), one.name):
            return f"; use {prefix}{one.name}"
    similar = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {prefix}{similar[0]}?" if similar else ""
