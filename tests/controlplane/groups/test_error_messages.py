"""Exact texts of validation errors."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]
STORAGE = "/apis/storage.k8s.io/v1"
NETWORKING = "/apis/networking.k8s.io/v1"
RULE = "spec.validations[0].expression"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MATCH_ALL = {
    "resourceRules": [
        {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["y"]}
    ]
}
RESOURCES = "/apis/resource.k8s.io/v1"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
EVENT = {
    "eventTime": "2024-01-01T00:00:00.000000Z",
    "reportingController": "c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
}
COUNTER = {"name": "c", "counters": {"m": {"value": "1"}}}
SLICE = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}
INLINE_PATH = "spec.source.inlineVolumeSpec"
CONTEXT = "specified in the context of inline volumes"
INLINE = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}

CREATED: list[tuple[str, Object, list[str]]] = [
    (
        f"{STORAGE}/storageclasses",
        {
            "provisioner": "p",
            "allowedTopologies": [{}, {"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
        },
        ['allowedTopologies[0].matchLabelExpressions: Duplicate value: ""'] * 2,
    ),
    (
        f"{STORAGE}/volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": INLINE}}},
        [
            f"{INLINE_PATH}.capacity: Forbidden: may not be {CONTEXT}",
            f"{INLINE_PATH}.csi: Required value: has to be {CONTEXT}",
        ],
    ),
    (
        f"{NETWORKING}/namespaces/ns/networkpolicies",
        {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80, "endPort": 70}]}]}},
        ["spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"],
    ),
]

CREATED += [
    (
        f"{RESOURCES}/namespaces/ns/resourceclaimtemplates",
        {"spec": {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [REQUEST]}}}},
        ["spec.metadata.name: Forbidden: cannot be set"],
    ),
    (
        f"{RESOURCES}/resourceslices",
        {"spec": {**SLICE, "sharedCounters": [COUNTER], "devices": [{"name": "d"}]}},
        ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
    ),
    (
        f"{RESOURCES}/resourceslices",
        {"spec": {**SLICE, "devices": [{"name": "d", "attributes": {"a": {"version": "x"}, "b": {}}}]}},
        [
            'spec.devices[0].attributes[a].version: Invalid value: "x": must be a string compatible with '
            "semver.org spec 2.0.0",
            'spec.devices[0].attributes[b]: Invalid value: "": exactly one value must be specified',
        ],
    ),
]

CREATED += [
    (
        f"{ADMISSION}/validatingadmissionpolicies",
        {"spec": {"matchConstraints": MATCH_ALL, "validations": [{"expression": "[null]"}]}},
        [f'{RULE}: Invalid value: "[null]": must evaluate to bool but got list(null_type)'],
    ),
    (
        f"{ADMISSION}/mutatingadmissionpolicies",
        {
            "spec": {
                "matchConstraints": MATCH_ALL,
                "reinvocationPolicy": "Never",
                "variables": [{"name": "v", "expression": "Object{}"}],
                "mutations": [
                    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
                ],
            }
        },
        [
            'spec.variables[0].expression: Invalid value: "Object{}": compilation failed: ERROR: '
            "<input>:1:7: undeclared reference to 'Object' (in container '')\n | Object{}\n | ......^"
        ],
    ),
    (
        f"{ADMISSION}/validatingadmissionpolicies",
        {"spec": {"matchConstraints": MATCH_ALL, "validations": [{"expression": "''.format([1]) == ''"}]}},
        [
            f"{RULE}: Invalid value: \"''.format([1]) == ''\": compilation failed: ERROR: "
            "<input>:1:10: too many arguments supplied to string.format (expected 0, got 1)\n"
            " | ''.format([1]) == ''\n | .........^"
        ],
    ),
]

CHANGED: list[tuple[str, Object, Object, list[str]]] = [
    (
        f"{STORAGE}/storageclasses",
        {"provisioner": "p"},
        {"provisioner": "q", "parameters": {"a": "b"}},
        [
            'parameters: Invalid value: {"a":"b"}: field is immutable',
            'provisioner: Invalid value: "q": field is immutable',
        ],
    ),
    (
        f"{STORAGE}/volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
        {"spec": {"nodeName": "m"}},
        [
            'spec: Invalid value: {"Attacher":"a","Source":{"PersistentVolumeName":"v",'
            '"InlineVolumeSpec":null},"NodeName":"m"}: field is immutable'
        ],
    ),
    (
        f"{NETWORKING}/ipaddresses",
        {"metadata": {"name": "10.9.9.9"}, "spec": {"parentRef": {"resource": "services", "name": "a"}}},
        {"spec": {"parentRef": {"name": "b"}}},
        [
            'spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"","Name":"b"}: '
            "field is immutable"
        ],
    ),
]

CHANGED += [
    (
        f"{RESOURCES}/namespaces/ns/resourceclaims",
        {"spec": {"devices": {"requests": [REQUEST]}}},
        {"spec": {"devices": {"requests": [{**REQUEST, "name": "s"}]}}},
        [
            'spec: Invalid value: {"Devices":{"Requests":[{"Name":"s","Exactly":{"DeviceClassName":"gpu",'
            '"Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,'
            '"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}: field is immutable'
        ],
    ),
    (
        "/apis/events.k8s.io/v1/namespaces/ns/events",
        EVENT,
        {"regarding": {"name": "q"}},
        [
            'involvedObject: Invalid value: {"Kind":"Pod","Namespace":"ns","Name":"q","UID":"",'
            '"APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable'
        ],
    ),
]


def causes(response: Any) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in response["details"]["causes"]]


def named(fields: Object) -> Object:
    return {"metadata": {"name": "a"}, **fields}


@pytest.mark.parametrize(("path", "fields", "wanted"), CREATED)
async def test_errors_of_new_objects(api: Any, path: str, fields: Object, wanted: list[str]) -> None:
    status, response = await api("POST", path, named(fields))
    assert (status, causes(response)) == (422, wanted)


@pytest.mark.parametrize(("path", "fields", "change", "wanted"), CHANGED)
async def test_errors_of_updates(
    api: Any, path: str, fields: Object, change: Object, wanted: list[str]
) -> None:
    made = await api.ok("POST", path, named(fields))
    status, response = await api("PATCH", f"{path}/{made['metadata']['name']}", change)
    assert (status, causes(response)) == (422, wanted)


async def test_csi_drivers_have_no_initial_generation(api: Any) -> None:
    path = f"{STORAGE}/csidrivers"
    assert "generation" not in (await api.ok("POST", path, named({"spec": {}})))["metadata"]
    changed = await api.ok("PATCH", f"{path}/a", {"spec": {"podInfoOnMount": True}})
    assert changed["metadata"]["generation"] == 1


async def test_device_status_is_removed_with_its_allocation(api: Any) -> None:
    path = f"{RESOURCES}/namespaces/ns/resourceclaims"
    await api.ok("POST", path, named({"spec": {"devices": {"requests": [REQUEST]}}}))
    device = {"driver": "d", "pool": "p", "device": "x"}
    status: Object = {
        "allocation": {"devices": {"results": [{**device, "request": "r"}]}},
        "devices": [device],
    }
    await api.ok("PATCH", f"{path}/a/status", {"status": status})
    other = {"status": {"devices": [{**device, "pool": "q"}]}}
    assert (
        "must be an allocated device in the claim"
        in (await api("PATCH", f"{path}/a/status", other))[1]["message"]
    )
    freed = await api.ok("PATCH", f"{path}/a/status", {"status": {"allocation": None}})
    assert "devices" not in freed["status"]


async def test_unsupported_field_selector_names_the_kind(api: Any) -> None:
    _, response = await api("GET", f"{RESOURCES}/resourceslices?fieldSelector=spec.x%3D1")
    assert (
        response["message"] == "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
    )


async def test_system_priority_classes_cannot_be_deleted(api: Any) -> None:
    status, response = await api("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
    assert (status, response["message"].partition(": ")[2]) == (
        403,
        "this is a system priority class and cannot be deleted",
    )


async def test_unregistered_version_of_a_kind(api: Any) -> None:
    body = {"apiVersion": "networking.k8s.io/v1beta1", "kind": "NetworkPolicy", **named({})}
    _, response = await api("POST", f"{NETWORKING}/namespaces/ns/networkpolicies", body)
    assert (
        'no kind "NetworkPolicy" is registered for version "networking.k8s.io/v1beta1"' in response["message"]
    )


@pytest.mark.parametrize(
    ("path", "prefix", "spec"),
    [
        (f"{NETWORKING}/namespaces/ns/ingresses", "ingress", {"rules": [{"host": "a.com"}]}),
        (f"{NETWORKING}/namespaces/ns/networkpolicies", "networkpolicies", {"podSelector": {}}),
    ],
)
async def test_storage_keys_in_messages(api: Any, path: str, prefix: str, spec: Object) -> None:
    await api.ok("POST", path, named({"spec": spec}))
    body = {"metadata": {"name": "a", "uid": "x"}, "spec": spec}
    assert f"Key: /registry/{prefix}/ns/a," in (await api("PUT", f"{path}/a", body))[1]["message"]


async def test_empty_partial_metadata_list_has_null_items(api: Any) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, response = await api("GET", f"{NETWORKING}/namespaces/ns/ingresses", accept=accept)
    assert response["items"] is None
