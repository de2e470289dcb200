from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.rfc3339 import TimeError, parse_layout
from kubewright.api.values.times import format_micro_time, format_time

APPS = GroupVersionKind("apps", "v1", "Deployment")
LAYOUT = "2006-01-02T15:04:05Z07:00"


def core(kind: str) -> GroupVersionKind:
    return GroupVersionKind("", "v1", kind)


def test_dropped_added_and_rewritten_fields() -> None:
    sent = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "creationTimestamp": None, "labels": {}, "namespace": ""},
        "unknown": 1,
        "spec": {
            "replicas": 0,
            "paused": False,
            "minReadySeconds": 0,
            "revisionHistoryLimit": None,
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "a",
                            "image": "",
                            "args": [],
                            "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi", "x": None}},
                            "livenessProbe": {"httpGet": {"port": "http"}},
                        }
                    ],
                    "nodeSelector": {"disk": None},
                    "activeDeadlineSeconds": 0,
                }
            },
        },
    }
    before = repr(sent)
    assert builtin_resources.as_typed(APPS, sent) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": None,
            "strategy": {},
            "template": {
                "metadata": {},
                "spec": {
                    "containers": [
                        {
                            "name": "a",
                            "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "x": "0"}},
                            "livenessProbe": {"httpGet": {"port": "http"}},
                        }
                    ],
                    "nodeSelector": {"disk": ""},
                    "activeDeadlineSeconds": 0,
                },
            },
        },
        "status": {},
    }
    assert repr(sent) == before


@pytest.mark.parametrize(
    ("kind", "sent", "found"),
    [
        (core("Service"), {"spec": {"ports": [{"port": 80}]}}, {"ports": [{"port": 80, "targetPort": 0}]}),
        (core("Pod"), {"spec": {"containers": []}}, {"containers": None}),
        (core("Pod"), {"spec": None}, {"containers": None}),
    ],
)
def test_required_fields_are_always_present(kind: GroupVersionKind, sent: Any, found: Any) -> None:
    assert builtin_resources.as_typed(kind, sent)["spec"] == found


def test_times_and_bytes_become_canonical() -> None:
    secret = builtin_resources.as_typed(core("Secret"), {"data": {"a": "aGk=\n", "b": None}})
    assert secret["data"] == {"a": "aGk=", "b": ""}
    lease = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
    typed = builtin_resources.as_typed(
        lease,
        {
            "metadata": {"creationTimestamp": "2020-01-01T02:00:00.9+02:00"},
            "spec": {"renewTime": "2020-01-01T02:00:00.123456+02:00"},
        },
    )
    assert typed == {
        "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"renewTime": "2020-01-01T00:00:00.123456Z"},
    }


@pytest.mark.parametrize(
    ("kind", "sent", "message"),
    [
        (core("ConfigMap"), [], "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            core("ConfigMap"),
            {"data": "x"},
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            core("ConfigMap"),
            {"data": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            core("ConfigMap"),
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            core("ConfigMap"),
            {"kind": 3},
            "json: cannot unmarshal number into Go struct field ConfigMap.kind of type string",
        ),
        (
            APPS,
            {"spec": {"replicas": "3"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            APPS,
            {"spec": {"replicas": 3.5}},
            "json: cannot unmarshal number 3.5 into Go struct field DeploymentSpec.spec.replicas "
            "of type int32",
        ),
        (
            APPS,
            {"spec": {"replicas": 1 << 31}},
            "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas "
            "of type int32",
        ),
        (
            APPS,
            {"spec": {"template": {"spec": {"containers": {}}}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers "
            "of type []v1.Container",
        ),
        (
            core("Pod"),
            {"spec": {"containers": [{"ports": [{"protocol": 6}]}]}},
            "json: cannot unmarshal number into Go struct field ContainerPort.spec.containers.ports.protocol "
            "of type v1.Protocol",
        ),
        (
            core("Pod"),
            {"spec": {"containers": ["x"]}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            core("Pod"),
            {"spec": {"containers": [{"securityContext": {"capabilities": {"add": [1]}}}]}},
            "json: cannot unmarshal number into Go struct field "
            "Capabilities.spec.containers.securityContext.capabilities.add of type v1.Capability",
        ),
        (
            core("Service"),
            {"spec": {"ports": [{"targetPort": True}]}},
            "json: cannot unmarshal bool into Go struct field "
            "ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            core("Pod"),
            {"spec": {"overhead": {"cpu": "lots"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (core("Secret"), {"data": {"a": "abc"}}, "illegal base64 data at input byte 0"),
        (core("Secret"), {"data": {"a": "abcdab=x"}}, "illegal base64 data at input byte 6"),
        (core("Secret"), {"data": {"a": "ab="}}, "illegal base64 data at input byte 3"),
        (core("Secret"), {"data": {"a": "YQ==YQ=="}}, "illegal base64 data at input byte 4"),
        (
            core("Pod"),
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field "
            "ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ],
)
def test_values_of_the_wrong_type(kind: GroupVersionKind, sent: Any, message: str) -> None:
    with pytest.raises(TypedDecodeError) as caught:
        builtin_resources.as_typed(kind, sent)
    assert str(caught.value) == message


def test_json_schemas_in_definitions() -> None:
    crd = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "items": {"type": "string", "nullable": False},
                "additionalProperties": True,
                "default": {},
            },
            "b": {"dependencies": {"x": ["y"], "z": {"type": ""}}, "maximum": 3.5, "enum": [None, 1]},
        },
    }
    sent = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    typed = builtin_resources.as_typed(crd, sent)
    assert typed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "a": {"items": {"type": "string"}, "additionalProperties": True, "default": {}},
            "b": {"dependencies": {"x": ["y"], "z": {}}, "maximum": 3.5, "enum": [None, 1]},
        },
    }
    schema["properties"]["a"]["items"] = 3  # type: ignore[index]
    versions = builtin_resources.as_typed(crd, sent)["spec"]["versions"]
    assert not versions[0]["schema"]["openAPIV3Schema"]["properties"]["a"].get("items")
    schema["properties"]["a"]["additionalProperties"] = 3  # type: ignore[index]
    with pytest.raises(TypedDecodeError, match="boolean or JSON schema expected"):
        builtin_resources.as_typed(crd, sent)


@given(st.text(alphabet="AQ=\n*", max_size=9))
def test_malformed_base64(text: str) -> None:
    plain = text.replace("\n", "")
    try:
        base64.b64decode(plain, validate=True)
        fits = len(plain) % 4 == 0 and "=" not in plain[:-2] and "=A" not in plain and "=Q" not in plain
    except binascii.Error:
        fits = False
    if fits:
        builtin_resources.as_typed(core("Secret"), {"data": {"a": text}})
    else:
        with pytest.raises(TypedDecodeError, match="illegal base64 data at input byte"):
            builtin_resources.as_typed(core("Secret"), {"data": {"a": text}})


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_formatted_times_round_trip(value: datetime) -> None:
    micro = format_micro_time(value)
    if len(micro) == 27:
        assert parse_layout(micro, 6) == value
        assert parse_layout(format_time(value)) == value.replace(microsecond=0)


@pytest.mark.parametrize(
    ("text", "fraction", "message"),
    [
        ("", 0, f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("2020", 0, f'parsing time "2020" as "{LAYOUT}": cannot parse "" as "-"'),
        ("2020-1-01", 0, f'parsing time "2020-1-01" as "{LAYOUT}": cannot parse "1-01" as "01"'),
        ("2020-13-01T00:00:00Z", 0, 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-30T00:00:00Z", 0, 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-01-01T25:00:00Z", 0, 'parsing time "2020-01-01T25:00:00Z": hour out of range'),
        ("2020-01-01T00:00:00Zx", 0, 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
        (
            "2020-01-01T00:00:00",
            0,
            f'parsing time "2020-01-01T00:00:00" as "{LAYOUT}": cannot parse "" as "Z07:00"',
        ),
        (
            "2020-01-01T00:00:00Z",
            6,
            'parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": '
            'cannot parse "Z" as ".000000"',
        ),
    ],
)
def test_malformed_times(text: str, fraction: int, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        parse_layout(text, fraction)
    assert str(caught.value) == message
