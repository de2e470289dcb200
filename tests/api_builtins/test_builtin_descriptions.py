"""Every built-in type and field has a description, and every description belongs to one."""

import re
from collections import defaultdict
from importlib.resources import files

import pytest

from kubewright.api.builtin.descriptions import _group_of, _types, describe
from kubewright.api.builtin.openapi import published
from kubewright.api.builtin.schemas import definitions

GROUPS = sorted(
    path.name.removesuffix(".txt") for path in (files("kubewright.api") / "descriptions").iterdir()
)


def described(name: str) -> dict[str, object]:
    schema = published(name)
    describe(name, schema)
    return schema


@pytest.mark.parametrize("name", sorted(definitions()))
def test_type_and_its_fields_are_described(name: str) -> None:
    schema = published(name)
    describe(name, schema)
    assert schema["description"]
    missing = [
        field
        for field, part in schema.get("properties", {}).items()
        if "description" not in part and "$ref" not in part
    ]
    assert missing == []


def test_descriptions_name_existing_types_and_fields() -> None:
    known: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in definitions():
        known[_group_of(name)][name.rpartition(".")[2]].update(definitions()[name].get("properties", {}))
    unknown = [
        f"{group}: {name}: {field}"
        for group in GROUPS
        if group != "common"
        for name, entry in _types(group).items()
        for field in (*entry.fields, *(f"base {base}" for base in entry.bases if base not in _types(group)))
        if field not in known[group][name]
    ]
    assert unknown == []


@pytest.mark.parametrize("group", GROUPS)
def test_descriptions_are_sentences(group: str) -> None:
    for name, entry in _types(group).items():
        for field, text in {"": entry.text, **entry.fields}.items():
            assert re.fullmatch(r'[A-Z"$/A-Za-z][^\n]*\.', text), f"{name} {field}: {text!r}"


def test_specific_descriptions_take_precedence() -> None:
    ephemeral = described("io.k8s.api.core.v1.EphemeralContainer")["properties"]
    assert isinstance(ephemeral, dict)
    assert ephemeral["ports"]["description"] == "Not allowed for ephemeral containers."
    assert ephemeral["image"]["description"] == "Name of the image, such as nginx:1.27."
    condition = described("io.k8s.api.core.v1.NodeCondition")["properties"]
    assert isinstance(condition, dict)
    assert condition["status"]["description"] == "Status of the condition: True, False or Unknown."
    assert described("io.k8s.api.core.v1.PodList")["description"] == "List of Pod objects."
