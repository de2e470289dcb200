"""Errors of constructors name the class and the field that was probably meant."""

import pytest

from kubewright.api import Spec, core
from kubewright.api.constructor_errors import add_explanation, explain
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import ObjectMeta


class Size(Spec):
    height: int


def _unknown_field():
    return ConfigMap(metadata=ObjectMeta(name="a"), date={"a": "b"})


def _several_lines():
    return [
        ObjectMeta(
            name="ä",
            labls={"a": "b"},
        )
    ]


def _through_a_module():
    return core.v1.Secret(string_date={})


def _nothing_similar():
    return ConfigMap(qqqq=1)


def _missing():
    return Size()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_unknown_field, "ConfigMap has no field 'date'; did you mean 'data'?"),
        (_several_lines, "ObjectMeta has no field 'labls'; did you mean 'labels'?"),
        (_through_a_module, "Secret has no field 'string_date'; did you mean 'string_data'?"),
        (_nothing_similar, "ConfigMap has no field 'qqqq'; its fields are api_version, kind, metadata, "),
        (_missing, "Size requires height="),
    ],
)
def test_the_class_is_named(function, expected):
    with pytest.raises(TypeError) as caught:
        function()

    assert explain(caught.value).startswith(expected)
    add_explanation(caught.value)
    add_explanation(caught.value)
    assert len(caught.value.__notes__) == 1


def test_other_errors_are_not_explained():
    with pytest.raises(TypeError) as caught:
        int([])  # not a constructor of a struct
    assert explain(caught.value) == ""
    with pytest.raises(TypeError) as caught:
        exec("ConfigMap(date=1)", {"ConfigMap": ConfigMap})  # without source
    assert explain(caught.value) == ""
