"""Hypothesis strategies for values of struct types."""

from __future__ import annotations

import types
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

from kubewright.api.meta import ObjectList
from kubewright.api.objects import Object, Struct
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration, TimePrecision

_START = datetime(2020, 1, 1, tzinfo=UTC)
_QUANTITIES = ("1", "500m", "2Gi", "1536Mi", "10k", "3e3", "-5", "1n")
_WORDS = ("a", "web", "é", "日本", "x/y.z", 'quote"d', "line\nbreak", "0")


@cache
def hints(cls: type) -> dict[str, Any]:
    found = get_type_hints(cls, include_extras=True)
    if issubclass(cls, ObjectList):
        found["items"] = list[get_args(cls.__orig_bases__[0])[0]]
    return found


def struct_value(cls: type[Struct], random: Random, depth: int = 0) -> Any:
    """A struct with some of its fields set, fewer the deeper it lies; never an empty list or a zero."""
    of = hints(cls)
    chance = 0.8 if len(cls.__struct_fields__) < 5 else 0.35
    values: dict[str, Any] = {}
    for name in cls.__struct_fields__:
        if issubclass(cls, Object) and name in ("api_version", "kind"):
            continue
        if name == "metadata" or random.random() < chance / (1 + depth * 0.5):
            values[name] = value_of(of[name], random, depth)
    return cls(**values)


def value_of(annotation: Any, random: Random, depth: int) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        precision = next(one.digits for one in annotation.__metadata__ if isinstance(one, TimePrecision))
        micros = random.randrange(1, 10**6) if precision else 0
        return _START + timedelta(seconds=random.randrange(10**9), microseconds=micros)
    if origin in (Union, types.UnionType):
        return value_of(random.choice([one for one in arguments if one is not type(None)]), random, depth)
    if origin is list:
        return [value_of(arguments[0], random, depth + 1) for _ in range(random.randint(1, 2))]
    if origin is dict:
        return {f"k{key}": value_of(arguments[1], random, depth + 1) for key in range(random.randint(1, 2))}
    if annotation is Any:
        return random.choice(["text", 7, 1.5, True, {"a": [1, None]}, ["x", {}]])
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return struct_value(annotation, random, depth + 1)
    return _scalar(annotation, random)


def _scalar(annotation: Any, random: Random) -> Any:
    if annotation is str:
        return random.choice(_WORDS)
    if annotation is bool:
        return True
    if annotation is int:
        return random.choice((1, -1, 80, 2**31 - 1))
    if annotation is float:
        return random.choice((0.5, 3.0, -1e-3))
    if annotation is bytes:
        return random.randbytes(random.randint(1, 9))
    if annotation is Quantity:
        return Quantity(random.choice(_QUANTITIES))
    if annotation is Duration:
        return Duration(random.choice(("1h30m0s", "250ms")))
    raise AssertionError(f"no values for {annotation}")
