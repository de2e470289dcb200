"""Refusals in full: clients and people read these sentences."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]
STORAGE = "/apis/storage.k8s.io/v1"
NETWORKING = "/apis/networking.k8s.io/v1"
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


def causes(answer: Any) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]


def named(fields: Object) -> Object:
    return {"metadata": {"name": "a"}, **fields}


@pytest.mark.parametrize(("path", "fields", "wanted"), CREATED)
async def test_what_is_wrong_with_a_new_object(
    talk: Any, path: str, fields: Object, wanted: list[str]
) -> None:
    status, answer = await talk("POST", path, named(fields))
    assert (status, causes(answer)) == (422, wanted)


@pytest.mark.parametrize(("path", "fields", "change", "wanted"), CHANGED)
async def test_what_is_wrong_with_a_change(
    talk: Any, path: str, fields: Object, change: Object, wanted: list[str]
) -> None:
    made = await talk.ok("POST", path, named(fields))
    status, answer = await talk("PATCH", f"{path}/{made['metadata']['name']}", change)
    assert (status, causes(answer)) == (422, wanted)


async def test_drivers_count_their_changes_from_none(talk: Any) -> None:
    path = f"{STORAGE}/csidrivers"
    assert "generation" not in (await talk.ok("POST", path, named({"spec": {}})))["metadata"]
    changed = await talk.ok("PATCH", f"{path}/a", {"spec": {"podInfoOnMount": True}})
    assert changed["metadata"]["generation"] == 1
