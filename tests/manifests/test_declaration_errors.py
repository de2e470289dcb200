"""Declaration errors: message, place and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubewright.manifests import DeclarationError, generate, load_project

HEADER = """
from __future__ import annotations
from datetime import timedelta
from typing import Annotated
from kubewright.api.declaring.declarations import *
from kubewright.api.markers import *
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec, Struct, field

class Item(Struct):
    name: str | None = None
    tags: list[str] | None = None

class Key(Struct):
    name: list[str]

class Inner(Struct):
    outer: Outer | None = None

class Outer(Struct):
    inner: Inner | None = None

"""
LINES = HEADER.count("\n")


def complaints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> list[str]:
    name = f"broken_{abs(hash((str(tmp_path), body)))}"
    (tmp_path / f"{name}.py").write_text(HEADER + body)
    monkeypatch.syspath_prepend(str(tmp_path))
    project = load_project([name])
    try:
        generate(project)
    except DeclarationError as error:
        return [str(problem).replace(str(tmp_path / f"{name}.py"), "FILE") for problem in error.problems]
    return []


FIELDS = [
    ("Annotated[str, Ge(1)]", "write MinLen"),
    ("Annotated[list[str], MaxLen(1)]", "write MaxItems"),
    ("Annotated[int, MinItems(1)]", "write Ge"),
    ("Annotated[dict[str, str], MaxItems(1)]", "write MaxProperties"),
    ("Annotated[list[str], Pattern('x')]", "list[Annotated["),
    ("Annotated[int, Le(0.5)]", "whole number"),
    ("Annotated[str, Pattern('(?=x)')]", "RE2"),
    ("Annotated[str, ExternalDocs('nowhere')]", "absolute URL"),
    ("Annotated[str, Cel('a\\nb')]", "message="),
    ("Annotated[list[str], UniqueItems]", "ListSet"),
    ("Annotated[str, ListSet]", "array"),
    ("Annotated[str, MapType('atomic')]", "object"),
    ("float", "Quantity"),
    ("timedelta", "Duration"),
    ("Item | str", "ExactlyOneOf"),
    ("dict[int, str]", "dict[str, T]"),
    ("dict", "dict[str, T]"),
    ("list", "list[str]"),
    ("tuple[int, str]", "list[T]"),
    ("Outer", "Outer -> Inner -> Outer"),
    ("Annotated[list[Item], ListMap('nam')]", "its fields are: name, tags"),
    ("Annotated[list[Item], ListMap('name')]", "give it a default"),
    ("Annotated[list[Key], ListMap('name')]", "must be a scalar"),
    ("Annotated[list[str], ListMap('name')]", "write ListSet"),
    ("Annotated[list[Item], ListSet]", "write ListMap"),
    ("set[Item]", "write ListMap"),
    ("Annotated[str, Default(5)]", "rejected by its own schema"),
    ("Annotated[Item, Default({'nme': 'x'})]", "unknown field"),
    ("type", "has no schema"),
]


@pytest.mark.parametrize(("annotation", "advice"), FIELDS)
def test_a_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotation: str, advice: str) -> None:
    body = f"""class WrongSpec(Spec):
    a_field: {annotation} | None = None

@resource(group="x.example.com", version="v1")
class Wrong(CustomResource[WrongSpec, None]): ...
"""
    if annotation in ("Outer",):
        assert advice in complaints(tmp_path, monkeypatch, body)[0]
        return
    (complaint,) = complaints(tmp_path, monkeypatch, body)
    assert advice in complaint
    assert re.match(rf"FILE:{LINES + 2}: Wrong\.spec\.aField(\[\])?: ", complaint)


DEFAULTS = [
    ("Annotated[int, Le(10)] = 80", "less than or equal to 10"),
    ("Annotated[str, MinLen(3)] = 'ab'", "at least 3"),
    ("Annotated[str, Pattern('^b')] = 'ab'", "should match"),
    ("Annotated[Item, MaxProperties(0)] = field(default_factory=lambda: Item(name='x'))", "at most 0"),
    ("str | None", "write = None"),
]


@pytest.mark.parametrize(("declared", "advice"), DEFAULTS)
def test_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, advice: str) -> None:
    body = f"""class WrongSpec(Spec):
    size: {declared}

@resource(group="x.example.com", version="v1")
class Wrong(CustomResource[WrongSpec, None]): ...
"""
    (complaint,) = complaints(tmp_path, monkeypatch, body)
    assert advice in complaint
    assert complaint.startswith(f"FILE:{LINES + 2}: Wrong.spec.size: ")


ARGUMENTS = [
    ('columns=(Column("A", "spec.size"),)', "write '.spec.size'"),
    ('columns=(Column("A", ".spec.sise"),)', "its fields are: size, things"),
    ('columns=(Column("A", ".spec.things["),)', "not a JSONPath"),
    ('columns=(Column("A", ".spec.size", "int"),)', "must be one of string, integer"),
    ('columns=(Column("A", ".spec.size", format="x"),)', "format"),
    ('scale=Scale(".spec.size", ".spec.size")', "below .status"),
    ('scale=Scale(".spec.nope", ".status.size")', "no field 'nope'"),
    ('scale=Scale(".spec.things[0]", ".status.size")', "names joined by dots"),
    ('selectable_fields=(".spec.things",)', "must refer to a string"),
    ('selectable_fields=(".metadata.name",)', "is in metadata"),
    ('selectable_fields=(".spec.size", ".spec.size")', "named twice"),
    ("served=False", "no version is served"),
    ("skip=True", "every version is skipped"),
]


@pytest.mark.parametrize(("argument", "advice"), ARGUMENTS)
def test_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, advice: str) -> None:
    body = f"""class WrongSpec(Spec):
    size: int
    things: list[str] | None = None

class WrongStatus(Struct):
    size: int | None = None

@resource(group="x.example.com", version="v1", {argument})
class Wrong(CustomResource[WrongSpec, WrongStatus]): ...
"""
    found = complaints(tmp_path, monkeypatch, body)
    assert any(advice in complaint for complaint in found), found
    assert all(complaint.startswith(f"FILE:{LINES + 8}: Wrong v1: ") for complaint in found)


def test_versions_with_different_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
@resource(group="x.example.com", version="v1", storage=True, hub=True, scope="Cluster")
class Wrong(CustomResource[Item, None]): ...

@resource(group="x.example.com", version="v2", kind="Wrong", storage=True, hub=True, short_names=("w",))
class Wrong2(CustomResource[Item, None]): ...
"""
    found = complaints(tmp_path, monkeypatch, body)
    assert [complaint.split("; ")[0].split(": ", 2)[2].split(" is ")[0] for complaint in found] == [
        "scope",
        "short_names",
        "two storage versions, the other",
        "two hubs, the other",
    ]


def test_no_storage_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
@resource(group="x.example.com", version="v1")
class Wrong(CustomResource[Item, None]): ...

@resource(group="x.example.com", version="v2", kind="Wrong")
class Wrong2(CustomResource[Item, None]): ...
"""
    (complaint,) = complaints(tmp_path, monkeypatch, body)
    assert "storage=True" in complaint


def test_protected_groups_require_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
@resource(group="x.k8s.io", version="v1")
class Wrong(CustomResource[Item, None]): ...
"""
    (complaint,) = complaints(tmp_path, monkeypatch, body)
    assert "api-approved.kubernetes.io" in complaint


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("self.nope == 1", "undefined field 'nope'"),
        ("self.a ==", "Syntax error"),
        ("self.a", "must evaluate to a bool"),
    ],
)
def test_rules_that_do_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, words: str
) -> None:
    body = f"""
@mark(Cel({rule!r}))
class WrongSpec(Spec):
    a: str

@resource(group="x.example.com", version="v1")
class Wrong(CustomResource[WrongSpec, None]): ...
"""
    (complaint,) = complaints(tmp_path, monkeypatch, body)
    assert words in complaint
    assert complaint.startswith(
        f"FILE:{LINES + 3}: Wrong.spec: an API server rejects x-kubernetes-validations[0]"
    )


def test_expensive_rule_is_reported_at_its_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """class WrongSpec(Spec):
    fine: str
    names: Annotated[list[str], Cel("self.all(x, self.all(y, x == y))")]

@resource(group="x.example.com", version="v1", kind="Other")
class Wrong(CustomResource[WrongSpec, None]): ...
"""
    found = complaints(tmp_path, monkeypatch, body)
    assert any(
        re.match(rf"FILE:{LINES + 3}: Other\.spec\.names: .*exceeds budget", line) for line in found
    ), found


def test_union_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
@mark(ExactlyOneOf("a", "zzz"), AtMostOneOf("a", "b"))
class WrongSpec(Spec):
    a: str | None = None
    b: str

@resource(group="x.example.com", version="v1")
class Wrong(CustomResource[WrongSpec, None]): ...
"""
    required, unknown = complaints(tmp_path, monkeypatch, body)
    assert "no field 'zzz'; the fields are: a, b" in unknown
    assert "b is required" in required


def test_all_errors_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """class WrongSpec(Spec):
    a: float
    b: Annotated[str, Ge(1)]

@resource(group="x.example.com", version="v1", columns=(Column("A", "a"),))
class Wrong(CustomResource[WrongSpec, None]): ...

RULES = [Rbac(groups=("apps",), resources=("deployments",)), Rbac(resources=("pods",), verbs=("get",))]
HOOKS = [Webhook(Wrong, timeout_seconds=99), Webhook(groups=("a",), name="a")]
"""
    found = complaints(tmp_path, monkeypatch, body)
    assert len(found) == 10
    assert all(re.match(r"FILE:\d+: ", complaint) for complaint in found)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"group": "nodot", "version": "v1"}, ValueError),
        ({"group": "Upper.example.com", "version": "v1"}, ValueError),
        ({"group": "x.example.com", "version": "V1"}, ValueError),
        ({"group": "x.example.com", "version": "v1", "scope": "Everywhere"}, ValueError),
        ({"group": "x.example.com", "version": "v1", "short_names": "x"}, TypeError),
        ({"group": "x.example.com", "version": "v1", "nonsense": 1}, TypeError),
    ],
)
def test_invalid_declarations_fail_at_import(arguments: dict[str, object], error: type[Exception]) -> None:
    from kubewright.api.declaring.declarations import resource

    with pytest.raises(error):
        resource(**arguments)  # type: ignore[arg-type]


def test_invalid_markers_fail_at_import() -> None:
    from kubewright.api.markers import ExactlyOneOf, Ge, ListMap, MarkerError, MinLen, mark

    with pytest.raises(TypeError, match="write it in Annotated"):
        mark(Ge(1))
    with pytest.raises(TypeError, match="accepts markers"):
        mark("text")  # type: ignore[arg-type]
    with pytest.raises(MarkerError):
        MinLen(-1)
    with pytest.raises(MarkerError):
        ExactlyOneOf("a")
    with pytest.raises(MarkerError):
        ListMap()
