"""The model of options: names, values and keyword arguments."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import pytest

from kubewright.controlplane import ControlPlane, ControlPlaneOptions
from kubewright.controlplane.options import EmbeddingOptions
from kubewright.options.kinds import BOOLEAN, INTEGER, LIST, SECONDS, TEXT, Kind, integer
from kubewright.options.model import (
    SAME,
    combined,
    concerns,
    declarations,
    keyword_arguments,
    nested,
    option,
    options_of,
    part,
    suggestion,
)
from kubewright.testing.server import TestServerOptions, start_test_server

OPTIONS = options_of(ControlPlaneOptions)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """Proxy: a nested class."""

    headers: tuple[str, ...] = option(("X",), LIST, "Headers.", "proxy-headers")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Serving: addresses."""

    port: int = option(0, INTEGER, "Port.", "secure-port", name="port")
    client_ca: str = option("", TEXT, "CA.", SAME)
    proxy: Proxy | None = nested(Proxy)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits: of requests."""

    limits: tuple[int, int] = combined(
        (1, 2),
        lambda given: (given.get("low", 1), given.get("high", 2)),
        (part("low", INTEGER, "Low.", 1), part("high", INTEGER, "High.", 2)),
    )
    clock: object = None


@dataclass(frozen=True, kw_only=True)
class Both(Serving, Limits):
    """All."""


def test_options_are_declared_by_concern() -> None:
    assert concerns(Both) == (Serving, Limits)
    assert [(one.name, one.flag, one.keyword, one.concern) for one in options_of(Both)] == [
        ("port", "secure-port", "port", Serving),
        ("client-ca", "client-ca", "client_ca", Serving),
        ("proxy-headers", "proxy-headers", "proxy", Serving),
        ("low", "low", "limits", Limits),
        ("high", "high", "limits", Limits),
    ]


def test_values_become_keyword_arguments() -> None:
    assert keyword_arguments(Both, {}) == {}
    assert keyword_arguments(Both, {"port": 1, "high": 5, "proxy-headers": ("Y",)}) == {
        "port": 1,
        "limits": (1, 5),
        "proxy": Proxy(headers=("Y",)),
    }


@pytest.mark.parametrize(
    ("kind", "texts", "value"),
    [
        (TEXT, ["a", "b,c"], "b,c"),
        (LIST, ["a, b", "c"], ("a", "b", "c")),
        (BOOLEAN, ["TRUE"], True),
        (BOOLEAN, ["f"], False),
        (SECONDS, ["1m30s"], 90.0),
        (integer(1, 3), ["3"], 3),
    ],
)
def test_the_last_text_counts_unless_an_option_is_repeated(kind: Kind, texts: list[str], value: Any) -> None:
    assert kind.read(texts) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (integer(1, 3), "4", "4 is not in the range 1<=x<=3"),
        (INTEGER, "high", "'high' is not a valid integer"),
        (BOOLEAN, "maybe", "'maybe': expected true or false"),
        (SECONDS, "soon", "'soon': expected a duration such as 30s"),
    ],
)
def test_wrong_texts_are_errors(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind.read([text])


def test_other_spellings_have_a_hint() -> None:
    options = options_of(Both)
    assert suggestion("secure-port", options, "--") == "; use --port"
    assert suggestion("client_ca", options) == "; use client-ca"
    assert suggestion("prot", options) == "; did you mean port?"
    assert suggestion("zzzz", options) == ""


def test_names_of_options_are_unique() -> None:
    assert not [name for name, count in Counter(one.name for one in OPTIONS).items() if count > 1]
    flags = Counter(one.flag for one in OPTIONS if one.flag)
    assert not [name for name, count in flags.items() if count > 1]
    # A flag of kube-apiserver never means another option.
    names = {one.name: one for one in OPTIONS}
    assert not [one.flag for one in OPTIONS if one.flag in names and names[one.flag] is not one]


def test_every_field_but_those_for_programs_is_an_option() -> None:
    without = {each.name for each in fields(ControlPlaneOptions)} - {one.keyword for one in OPTIONS}
    assert without == {each.name for each in fields(EmbeddingOptions)}
    assert all(one.help.endswith(".") and one.concern.__doc__ for one in OPTIONS)


async def test_keyword_arguments_are_the_fields_of_the_options() -> None:
    by_keywords = ControlPlane(port=None, lease_duration=3.0)
    by_options = ControlPlane.from_options(ControlPlaneOptions(port=None, lease_duration=3.0))
    assert by_keywords.options == by_options.options


@pytest.mark.parametrize(
    ("name", "use"), [("prt", "port"), ("anonymous_auth", "anonymous"), ("secure_port", "port")]
)
def test_unknown_keyword_arguments_have_a_hint(name: str, use: str) -> None:
    wrong: dict[str, Any] = {name: 1}
    for function in (ControlPlane, partial(start_test_server, "in-process")):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; use {use}"):
            function(**wrong)


@pytest.mark.parametrize("keyword", sorted({one.keyword for one in OPTIONS}))
async def test_every_option_is_a_keyword_argument_of_python(keyword: str) -> None:
    options = declarations(ControlPlaneOptions)[keyword].options
    given: dict[str, Any] = {keyword: options[0].kind.example}
    assert getattr(ControlPlaneOptions(**given), keyword) == options[0].kind.example
    assert getattr(TestServerOptions("in-process", **given), keyword) == options[0].kind.example
