"""Changes between CustomResourceDefinitions and their classes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.manifests import compare_crds, compare_definitions

Edit = Callable[[dict[str, Any]], None]


def definition(spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a definition with one version."""
    fields = {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "default": 3},
        "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["Fast", "Safe"]},
        "hosts": {
            "type": "array",
            "minItems": 1,
            "maxItems": 8,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 5},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "limit": {"x-kubernetes-int-or-string": True, "nullable": True},
        "ratio": {"type": "number", "multipleOf": 2},
        "target": {
            "type": "object",
            "properties": {"host": {"type": "string"}, "url": {"type": "string"}},
            "oneOf": [{"required": ["host"]}, {"required": ["url"]}],
            "x-kubernetes-validations": [{"rule": "has(self.host)", "message": "host is required"}],
        },
    }
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": spec or {"type": "object", "required": ["name"], "properties": fields},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "kind": "Shop",
                "plural": "shops",
                "singular": "shop",
                "listKind": "ShopList",
                "shortNames": ["sh"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                    "selectableFields": [{"jsonPath": ".spec.mode"}],
                    "additionalPrinterColumns": [
                        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}
                    ],
                }
            ],
        },
        "status": {"storedVersions": ["v1"]},
    }


def spec_of(crd: dict[str, Any], version: int = 0) -> dict[str, Any]:
    """Return the schema of the spec."""
    return crd["spec"]["versions"][version]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def update(field: str, **keywords: Any) -> Edit:
    """Return an edit that sets keywords of a field; `None` removes one."""

    def edit(crd: dict[str, Any]) -> None:
        schema = spec_of(crd)
        for step in field.split("."):
            schema = schema["items"] if step == "[]" else schema["properties"][step]
        for keyword, value in keywords.items():
            name = keyword.replace("_", "-")
            if value is None:
                schema.pop(name, None)
            else:
                schema[name] = value

    return edit


def add_field(name: str, schema: dict[str, Any], *, required: bool = False) -> Edit:
    """Return an edit that adds a field to the spec."""

    def edit(crd: dict[str, Any]) -> None:
        spec_of(crd)["properties"][name] = schema
        if required:
            spec_of(crd)["required"].append(name)

    return edit


def remove_field(name: str, *, renamed: str = "") -> Edit:
    """Return an edit that removes or renames a field of the spec."""

    def edit(crd: dict[str, Any]) -> None:
        schema = spec_of(crd)["properties"].pop(name)
        if renamed:
            spec_of(crd)["properties"][renamed] = schema

    return edit


def set_path(*path: str | int, value: Any = None) -> Edit:
    """Return an edit that sets a value in the definition, or removes it."""

    def edit(crd: dict[str, Any]) -> None:
        node: Any = crd["spec"]
        for step in path[:-1]:
            node = node[step]
        if value is None:
            del node[path[-1]]
        else:
            node[path[-1]] = value

    return edit


def require(name: str) -> Edit:
    """Return an edit that makes a field required."""
    return lambda crd: spec_of(crd)["required"].append(name)


RULE = {"rule": "has(self.host)", "message": "host is required"}
BREAKING: list[tuple[Edit, str, str, str]] = [
    (remove_field("mode"), "field-removed", ".spec.mode", "field removed"),
    (remove_field("mode", renamed="speed"), "field-renamed", ".spec.mode", "perhaps renamed to speed"),
    (update("size", type="string"), "type", ".spec.size", "type changed from integer to string"),
    (update("name", type=None, x_kubernetes_int_or_string=True), "type", ".spec.name", "to int-or-string"),
    (update("mode", enum=["Fast"]), "enum", ".spec.mode", "enum value removed: Safe"),
    (update("name", enum=["a"]), "enum", ".spec.name", "only these values are allowed now: a"),
    (update("size", minimum=2), "minimum", ".spec.size", "minimum changed from 1 to 2"),
    (update("size", maximum=9), "maximum", ".spec.size", "maximum changed from 10 to 9"),
    (update("size", exclusiveMaximum=True), "maximum", ".spec.size", "maximum is exclusive now"),
    (update("name", minLength=2), "minLength", ".spec.name", "minLength changed from 1 to 2"),
    (update("name", maxLength=62), "maxLength", ".spec.name", "maxLength changed from 63 to 62"),
    (update("mode", maxLength=62), "maxLength", ".spec.mode", "maxLength 62 added"),
    (update("hosts", minItems=2), "minItems", ".spec.hosts", "minItems changed from 1 to 2"),
    (update("hosts", maxItems=7), "maxItems", ".spec.hosts", "maxItems changed from 8 to 7"),
    (update("labels", maxProperties=4), "maxProperties", ".spec.labels", "from 5 to 4"),
    (update("labels", minProperties=1), "minProperties", ".spec.labels", "minProperties 1 added"),
    (update("ratio", multipleOf=3), "multipleOf", ".spec.ratio", "multipleOf changed from 2 to 3"),
    (update("name", pattern="^[a-z0-9]+$"), "pattern", ".spec.name", "pattern changed"),
    (update("mode", pattern="^F"), "pattern", ".spec.mode", "pattern ^F added"),
    (update("name", format="uuid"), "format", ".spec.name", "format uuid added"),
    (require("mode"), "required", ".spec.mode", "field is required now"),
    (
        add_field("new", {"type": "string"}, required=True),
        "required-field-added",
        ".spec.new",
        "without a default",
    ),
    (update("limit", nullable=None), "nullable", ".spec.limit", "null is no longer allowed"),
    (update("size", default=4), "default", ".spec.size", "default changed from 3 to 4"),
    (update("size", default=None), "default", ".spec.size", "default 3 removed"),
    (update("mode", default="Safe"), "default", ".spec.mode", "default 'Safe' added"),
    (
        update("hosts", **{"x-kubernetes-list-type": "atomic", "x-kubernetes-list-map-keys": None}),
        "list-type",
        ".spec.hosts",
        "list-type changed from map to atomic",
    ),
    (
        update("hosts", **{"x-kubernetes-list-map-keys": ["name", "port"]}),
        "list-map-keys",
        ".spec.hosts",
        "keys of the list changed from name to name, port",
    ),
    (
        update("target", **{"x-kubernetes-map-type": "atomic"}),
        "map-type",
        ".spec.target",
        "granular to atomic",
    ),
    (
        update("raw", **{"x-kubernetes-preserve-unknown-fields": None}),
        "preserve-unknown-fields",
        ".spec.raw",
        "unknown fields are pruned now",
    ),
    (
        update("raw", **{"x-kubernetes-embedded-resource": True}),
        "embedded-resource",
        ".spec.raw",
        "must be a complete object",
    ),
    (
        update("target", **{"x-kubernetes-validations": [RULE, {"rule": "has(self.url)"}]}),
        "cel-rule-added",
        ".spec.target",
        "CEL rule added: has(self.url)",
    ),
    (
        update("target", **{"x-kubernetes-validations": [{**RULE, "rule": "self.host != ''"}]}),
        "cel-rule-changed",
        ".spec.target",
        "CEL rule changed from has(self.host) to self.host != ''",
    ),
    (
        update("target", **{"x-kubernetes-validations": [{**RULE, "optionalOldSelf": True}]}),
        "cel-rule-changed",
        ".spec.target",
        "is evaluated on creation as well",
    ),
    (update("target", oneOf=[{"required": ["host"]}]), "oneOf", ".spec.target", "oneOf changed"),
    (update("name", **{"not": {"enum": ["a"]}}), "not", ".spec.name", "not added"),
    (update("hosts.[].port", type="string"), "type", ".spec.hosts[].port", "to string"),
    (
        update("labels", additionalProperties={"type": "integer"}),
        "type",
        ".spec.labels{}",
        "from string to integer",
    ),
    (
        update("labels", additionalProperties=None, properties={"a": {"type": "string"}}),
        "type",
        ".spec.labels",
        "map replaced by fixed fields",
    ),
    (set_path("scope", value="Cluster"), "scope", "", "scope changed from Namespaced to Cluster"),
    (set_path("group", value="other.com"), "group", "", "group changed"),
    (set_path("names", "kind", value="Store"), "names", "", "kind changed from Shop to Store"),
    (set_path("names", "plural", value="stores"), "names", "", "plural changed"),
    (set_path("names", "shortNames"), "names", "", "short name sh removed"),
    (set_path("versions", 0, "served", value=False), "served", "", "version is no longer served"),
    (set_path("versions", 0, "subresources", "status"), "subresource", "", "status subresource removed"),
    (set_path("versions", 0, "subresources", "scale"), "subresource", "", "scale subresource removed"),
    (
        set_path("versions", 0, "subresources", "scale", "specReplicasPath", value=".spec.other"),
        "subresource",
        "",
        "paths of the scale subresource changed",
    ),
    (set_path("versions", 0, "selectableFields"), "selectable-field", "", ".spec.mode removed"),
    (set_path("versions", 0, "name", value="v2"), "stored-version-removed", "", "stored version removed"),
]
COMPATIBLE: list[tuple[Edit, str, str]] = [
    (add_field("new", {"type": "string"}), "field-added", "optional field added"),
    (
        add_field("new", {"type": "string", "default": "a"}, required=True),
        "field-added",
        "required field with a default added",
    ),
    (update("mode", enum=["Fast", "Safe", "Slow"]), "enum", "enum value added: Slow"),
    (update("mode", enum=None), "enum", "any value is allowed now"),
    (update("size", minimum=0), "minimum", "minimum changed from 1 to 0"),
    (update("size", maximum=None), "maximum", "maximum 10 removed"),
    (update("name", pattern=None), "pattern", "removed"),
    (update("size", format="int64"), "format", "format changed from int32 to int64"),
    (update("name", nullable=True), "nullable", "null is allowed"),
    (update("ratio", multipleOf=1), "multipleOf", "multipleOf changed from 2 to 1"),
    (update("labels", minProperties=0), "minProperties", "minProperties 0 added"),
    (lambda crd: spec_of(crd).update(required=[]), "required", "field is optional now"),
    (require("size"), "required", "its default is used where it is absent"),
    (update("target", **{"x-kubernetes-validations": None}), "cel-rule-removed", "CEL rule removed"),
    (
        update("target", **{"x-kubernetes-validations": [{**RULE, "message": "set host"}]}),
        "cel-message",
        "message of CEL rule",
    ),
    (update("target", oneOf=None), "oneOf", "oneOf removed"),
    (
        update("target", **{"x-kubernetes-preserve-unknown-fields": True}),
        "preserve-unknown-fields",
        "unknown fields are preserved now",
    ),
    (set_path("names", "categories"), "names", "category all removed"),
    (set_path("names", "shortNames", value=["sh", "shp"]), "names", "short name shp added"),
    (set_path("versions", 0, "additionalPrinterColumns"), "columns", "printer columns changed"),
    (set_path("versions", 0, "deprecated", value=True), "deprecated", "version is deprecated now"),
    (set_path("conversion", value={"strategy": "Webhook"}), "conversion", "from None to Webhook"),
]


@pytest.mark.parametrize(("edit", "check", "path", "reason"), BREAKING)
def test_breaking_changes(edit: Edit, check: str, path: str, reason: str) -> None:
    new = definition()
    edit(new)
    found = [change for change in compare_crds(definition(), new) if change.breaking]
    assert [(change.check, change.path) for change in found] == [(check, path)], found
    assert reason in found[0].reason


@pytest.mark.parametrize(("edit", "check", "reason"), COMPATIBLE)
def test_compatible_changes(edit: Edit, check: str, reason: str) -> None:
    new = definition()
    edit(new)
    found = compare_crds(definition(), new)
    assert [(change.check, change.compatibility) for change in found] == [(check, "compatible")], found
    assert reason in found[0].reason


def test_equal_definitions_have_no_changes() -> None:
    described = definition()
    spec_of(described)["properties"]["size"]["description"] = "How many."
    assert compare_crds(definition(), described) == []
    for path in sorted((Path(__file__).parents[1] / "scaffold" / "crds").glob("*.yaml")):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert compare_crds(crd, copy.deepcopy(crd)) == [], path.name


def test_enum_additions_are_breaking_if_strict() -> None:
    new = definition()
    update("mode", enum=["Fast", "Safe", "Slow"])(new)
    (change,) = compare_crds(definition(), new, strict=True)
    assert change.breaking


def test_a_removed_field_is_compatible_if_unknown_fields_are_preserved() -> None:
    new = definition()
    remove_field("mode")(new)
    spec_of(new)["x-kubernetes-preserve-unknown-fields"] = True
    assert not [change for change in compare_crds(definition(), new) if change.breaking]


def with_versions(*names: str) -> dict[str, Any]:
    """Return a definition with several served versions; the last one is stored."""
    crd = definition()
    first = crd["spec"]["versions"][0]
    crd["spec"]["versions"] = [
        {**copy.deepcopy(first), "name": name, "storage": name == names[-1]} for name in names
    ]
    crd["status"]["storedVersions"] = [names[-1]]
    return crd


def test_a_served_version_that_is_removed_is_breaking() -> None:
    new = with_versions("v1")
    (change,) = compare_crds(with_versions("v1beta1", "v1"), new)
    assert (change.check, change.version, change.breaking) == ("served-version-removed", "v1beta1", True)


def test_an_unserved_version_can_be_removed() -> None:
    old = with_versions("v1beta1", "v1")
    old["spec"]["versions"][0]["served"] = False
    (change,) = compare_crds(old, with_versions("v1"))
    assert (change.check, change.breaking) == ("version-removed", False)
    old["status"]["storedVersions"] = ["v1beta1", "v1"]
    (change,) = compare_crds(old, with_versions("v1"))
    assert (change.check, change.breaking) == ("stored-version-removed", True)


def test_versions_must_agree_without_conversion() -> None:
    new = with_versions("v1beta1", "v1")
    spec_of(new, 1)["properties"]["size"]["maximum"] = 5
    spec_of(new, 1)["properties"]["size"]["default"] = 3
    found = compare_crds(definition(), new)
    assert ("v1beta1 -> v1", ".spec.size", "maximum") in [
        (change.version, change.path, change.check) for change in found if change.breaking
    ]
    new["spec"]["conversion"] = {"strategy": "Webhook"}
    assert not [change for change in compare_crds(definition(), new) if "->" in change.version]


def test_known_differences_between_versions_are_not_reported_again() -> None:
    old = with_versions("v1beta1", "v1")
    spec_of(old, 1)["properties"]["size"]["maximum"] = 5
    assert compare_crds(old, copy.deepcopy(old)) == []


def test_conversion_cannot_be_removed_with_several_served_versions() -> None:
    old = with_versions("v1beta1", "v1")
    old["spec"]["conversion"] = {"strategy": "Webhook"}
    (change,) = compare_crds(old, with_versions("v1beta1", "v1"))
    assert (change.check, change.breaking) == ("conversion", True)


def test_definitions_that_are_removed_or_added() -> None:
    (removed,) = compare_definitions([definition()], [])
    assert (removed.check, removed.breaking) == ("crd-removed", True)
    (added,) = compare_definitions([], [definition()])
    assert (added.check, added.breaking) == ("crd-added", False)
    assert str(added) == "shops.example.com: definition added"
