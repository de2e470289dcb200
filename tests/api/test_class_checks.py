"""Errors at the definition of a class: attributes and annotations that would be ignored."""

import re
from typing import Annotated, ClassVar

import pytest

from kubewright.api import Cel, Column, Description, Ge, MaxLen, Rbac, Spec, Webhook, resource
from kubewright.api.markers import Marker

HEADER = "from __future__ import annotations\nfrom typing import Annotated\nfrom kubewright.api import Spec\n"


def define(body: str, names: str = "") -> None:
    exec(f"{HEADER}{names}\nclass ShopSpec(Spec):\n    {body}\n", {"__name__": "shop"})


def test_value_without_type_is_an_error() -> None:
    message = re.escape("ShopSpec.size has a value but no type, so it is not a field; write size: int = 5")
    with pytest.raises(TypeError, match=message):

        class ShopSpec(Spec):
            size = 5


def test_value_for_an_inherited_field_is_an_error() -> None:
    class Base(Spec):
        size: int = 1

    with pytest.raises(TypeError, match=re.escape("Large.size has a value but no type")):

        class Large(Base):
            size = 5


def test_members_that_are_not_fields_are_allowed() -> None:
    class ShopSpec(Spec):
        size: int = 5
        limit: ClassVar[int] = 10
        _private = 1
        Name = Annotated[str, MaxLen(63)]
        Either = int | str
        alias: Name = ""

        class Nested(Spec):
            name: str = ""

        @property
        def double(self) -> int:
            return 2 * self.size

        @classmethod
        def empty(cls) -> "ShopSpec":
            return cls()

    assert ShopSpec.empty().double == 10
    assert ShopSpec.__struct_fields__ == ("size", "alias")


def test_text_in_annotated_is_an_error() -> None:
    message = re.escape("ShopSpec.size: 'min=1' in Annotated[...] is not a marker and would be ignored")
    with pytest.raises(TypeError, match=message):

        class ShopSpec(Spec):
            size: Annotated[int, "min=1"]

    with pytest.raises(TypeError, match=message):
        define('size: Annotated[int, "min=1"]')


def test_marker_class_without_arguments_is_an_error() -> None:
    message = re.escape("ShopSpec.sizes: Ge in Annotated[...] is a class; write Ge(...)")
    with pytest.raises(TypeError, match=message):

        class ShopSpec(Spec):
            sizes: list[Annotated[int, Ge]]

    with pytest.raises(TypeError, match=message):
        define("sizes: list[Annotated[int, Ge]]", "from kubewright.api import Ge")


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("Gee(1)", "no marker is named Gee; did you mean Ge?"),
        ("MaxLenght(1)", "no marker is named MaxLenght; did you mean MaxLen?"),
        ("Minimum(1)", "no marker is named Minimum; did you mean Ge?"),
        ("MinItems(1)", "MinItems is not imported; write from kubewright.api import MinItems"),
    ],
)
def test_unknown_markers_in_postponed_annotations(marker: str, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"ShopSpec.size: {message}")):
        define(f"size: Annotated[int, {marker}]")


def test_metadata_of_other_libraries_is_allowed() -> None:
    class Unit:
        pass

    class ShopSpec(Spec):
        size: Annotated[int, Unit(), Description("units")] = 0

    assert ShopSpec().size == 0
    define("size: Annotated[int, Later(1)] = 0")


def test_markers_of_an_enclosing_function_are_found() -> None:
    exec(
        "from __future__ import annotations\nfrom typing import Annotated\n"
        "from kubewright.api import Spec\n"
        "def build():\n    from kubewright.api import Ge as Gee\n"
        "    class ShopSpec(Spec):\n        size: Annotated[int, Gee(1)]\n    return ShopSpec\nbuild()\n",
        {"__name__": "shop"},
    )


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (
            lambda: resource(group="a.b", version="v1", short_name="x"),
            "@resource: unknown argument 'short_name'",
        ),
        (lambda: Webhook(failurePolicy="Fail"), "unknown argument 'failurePolicy'; write failure_policy="),
        (lambda: Rbac(resource=("pods",)), "unknown argument 'resource'; write resources="),
        (lambda: Column("A", ".a", prio=1), "unknown argument 'prio'; did you mean priority=?"),
        (lambda: Cel("true", messageExpression="x"), "write message_expression="),
        (lambda: Rbac(anything=1), "unknown argument 'anything'; the arguments are groups, resources"),
    ],
)
def test_unknown_keyword_arguments_name_the_right_one(create, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match=re.escape(message)):
        create()


def test_declarations_keep_the_place_of_their_creation() -> None:
    assert Rbac(groups=("apps",)).where.startswith(__file__)
    assert isinstance(Cel("true"), Marker)
