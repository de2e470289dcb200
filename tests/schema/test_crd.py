"""Validation of CRDs: which errors are reported, with path and message."""

# ruff: noqa: E501 - tables of cases read better in one line

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubewright.schema import crd_warnings, default_crd, validate_crd, validate_crd_status

OBJECT = {"type": "object"}
STRING = {"type": "string"}
AT = "spec.validation.openAPIV3Schema"


def crd(schema: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema if schema is not None else OBJECT}
    for name in (
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
        "deprecated",
        "deprecationWarning",
    ):
        if name in spec:
            version[name] = spec.pop(name)
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
            **spec,
        },
    }
    default_crd(made)
    return made


def texts(made: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in validate_crd(made, old)]


def props(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_defaults() -> None:
    made = crd()
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"] == {"storedVersions": ["v1"]}
    assert texts(made) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group": "nodot"}, 'spec.group: Invalid value: "nodot": should be a domain with at least one dot'),
        (
            {"scope": "Galaxy"},
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        (
            {"names": {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}},
            'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
        ),
        (
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            {"versions": []},
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
        ),
        (
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            {"conversion": {"strategy": "Webhook"}},
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}},
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ),
        (
            {
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v2"]},
                }
            },
            'spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
        ),
        (
            {"additionalPrinterColumns": [{"name": "x", "type": "text", "jsonPath": ".a"}]},
            'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
        ),
        (
            {"additionalPrinterColumns": [{"name": "x", "type": "string", "jsonPath": "a"}]},
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .',
        ),
        (
            {"subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}},
            'spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec',
        ),
        (
            {"deprecationWarning": "old"},
            'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions',
        ),
        (
            {"selectableFields": [{"jsonPath": ".spec.no"}]},
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec.no": is an invalid path: does not refer to a valid field',
        ),
    ],
)
def test_rejected(changes: dict[str, Any], expected: str) -> None:
    assert expected in texts(crd(props(spec=props(a=STRING)), **changes))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, [f'{AT}.type: Invalid value: "string": must be object at the root']),
        (props(a={}), [f"{AT}.properties[a].type: Required value: must not be empty for specified object fields"]),
        (props(a={"type": "array"}), [f"{AT}.properties[a].items: Required value: must be specified"]),
        (props(a={"$ref": "#/x"}), [f"{AT}.properties[a].$ref: Forbidden: $ref is not supported"]),
        (
            props(a={**STRING, "anyOf": [{"type": "string"}]}),
            [f"{AT}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            {**OBJECT, "anyOf": [{"required": ["b"], "properties": {"b": {"minLength": 1}}}]},
            [f"{AT}.properties[b]: Required value: because it is defined in {AT}.anyOf[0].properties[b]"],
        ),
        (
            props(metadata={**OBJECT, "properties": {"labels": OBJECT}}),
            [
                f"{AT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            ],
        ),
        (props(metadata={**OBJECT, "properties": {"name": {**STRING, "maxLength": 8}}}), []),
        (
            props(a={**STRING, "pattern": "("}),
            [
                f'{AT}.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ): `(`"
            ],
        ),
        (
            props(a={**STRING, "default": 1}),
            [f'{AT}.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer"'],
        ),
        (
            props(a={**props(b=STRING), "default": {"c": "x"}}),
            [f'{AT}.properties[a].default: Invalid value: {{"c":"x"}}: must not have unknown fields'],
        ),
        (
            props(a={"type": "array", "uniqueItems": True, "items": STRING}),
            [f"{AT}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
        ),
        (
            props(a={**props(b=STRING), "additionalProperties": STRING}),
            [f"{AT}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            props(a={"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"}),
            [f'{AT}.properties[a].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
        ),
        (
            props(a={"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"}),
            [f"{AT}.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"],
        ),
        (
            props(a={"type": "array", "items": props(k=STRING), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            [
                f"{AT}.properties[a].items.properties[k].default: Required value: this property is in "
                "x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ],
        ),
        (props(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}), []),
        (
            props(a={**OBJECT, "x-kubernetes-embedded-resource": True}),
            [
                f"{AT}.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            ],
        ),
    ],
)  # fmt: skip
def test_schemas(schema: dict[str, Any], expected: list[str]) -> None:
    assert texts(crd(schema)) == expected


def ruled(rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    return crd(props(a={"type": "integer", "x-kubernetes-validations": [rule], **more}))


def test_rules_are_compiled() -> None:
    at = f"{AT}.properties[a].x-kubernetes-validations[0]"
    assert texts(ruled({"rule": "self > 0"})) == []
    assert texts(ruled({"rule": " "})) == [f"{at}.rule: Required value: rule is not specified"]
    [text] = texts(ruled({"rule": "self == 'x'"}))
    assert text.startswith(f'{at}.rule: Invalid value: {{"Rule":"self == \'x\'","Message":"",')
    assert "found no matching overload for '_==_' applied to '(int, string)'" in text
    assert texts(ruled({"rule": "self + 1"}))[0].endswith("cel expression must evaluate to a bool")
    assert texts(ruled({"rule": "true", "message": "a\nb"})) == [
        f'{at}.message: Invalid value: "a\\nb": must not contain line breaks'
    ]
    assert texts(ruled({"rule": "self > 0", "optionalOldSelf": True})) == [
        f"{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
    ]


def test_transition_rules_need_correlation() -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    assert texts(crd(props(a={"type": "array", "items": item, "maxItems": 3}))) == [
        f'{AT}.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self > oldSelf": '
        f"oldSelf cannot be used on the uncorrelatable portion of the schema within {AT}.properties[a]"
    ]


def test_the_cost_of_rules_is_limited() -> None:
    expensive = {
        "type": "array",
        "items": STRING,
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}],
    }
    made = crd(props(a=expensive))
    found = texts(made)
    assert len(found) == 3
    assert "estimated rule cost exceeds budget by factor of more than 100x" in found[0]
    bounded = {**expensive, "maxItems": 10, "items": {**STRING, "maxLength": 10}}
    assert texts(crd(props(a=bounded))) == []


def test_an_update_does_not_report_existing_errors() -> None:
    old = crd(props(a={"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"}))
    assert texts(old) != []
    assert texts(copy.deepcopy(old), old) == []
    untyped = crd(props(a={}))
    assert texts(copy.deepcopy(untyped), untyped) != []


def test_immutable_fields() -> None:
    old = crd(OBJECT)
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"
    new["spec"]["group"] = "other.example.com"
    assert texts(new, old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Gadget": field is immutable',
        'spec.group: Invalid value: "other.example.com": field is immutable',
    ]


def test_stored_versions_stay() -> None:
    old = crd(OBJECT)
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    new["status"]["storedVersions"] = ["v1", "v2"]
    [text] = texts(new, old)
    assert text.startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously'
    )


def test_errors_of_schemas_per_version() -> None:
    made = crd(OBJECT)
    second = {
        "name": "v2",
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": {"type": "string"}},
    }
    made["spec"]["versions"].append(second)
    assert texts(made) == [
        'spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": must be object at the root'
    ]


def test_protected_groups_need_approval() -> None:
    made = crd(OBJECT, group="example.k8s.io")
    made["metadata"]["name"] = "widgets.example.k8s.io"
    assert [error.field for error in validate_crd(made)] == [
        "metadata.annotations[api-approved.kubernetes.io]"
    ]
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    assert texts(made) == []


def test_warnings_about_formats_that_are_not_enforced() -> None:
    made = crd(
        props(
            a={**STRING, "format": "colour"},
            b={**STRING, "format": "date-time"},
            c={"type": "integer", "format": "int8"},
        )
    )
    assert crd_warnings(made) == ['unrecognized format "colour"', 'unrecognized format "int8"']
    assert crd_warnings(made, made) == []


def test_root_keywords_are_restricted_with_a_status_subresource() -> None:
    [text] = texts(crd({**OBJECT, "maxProperties": 3}, subresources={"status": {}}))
    assert text.startswith(
        f'{AT}: Invalid value: {{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",'
    )
    assert text.endswith("fields are allowed at the root of the schema if the status subresource is enabled")


def test_status_updates_check_names_only() -> None:
    made = crd(OBJECT)
    made["status"]["acceptedNames"] = {"plural": "Bad"}
    assert [error.field for error in validate_crd_status(made)] == ["status.acceptedNames.plural"]


def test_the_default_of_an_integer_or_string_may_have_any_type() -> None:
    either = {"x-kubernetes-int-or-string": True}
    assert texts(crd(props(a={**either, "default": True}))) == []
    inside = {**props(b=either), "default": {"b": [1]}}
    assert texts(crd(props(a=inside))) == []
    assert texts(crd(props(a={**either, "maximum": 3, "default": 4}))) != []


def test_unsupported_keywords() -> None:
    assert texts(crd(props(a={**STRING, "$schema": "x"}))) == [
        f"{AT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    ]
