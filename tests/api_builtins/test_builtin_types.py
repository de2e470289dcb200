from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import hints, struct_value

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.builtin.schemas import definitions, module_of
from kubewright.api.builtin.types import types_of
from kubewright.api.encoding.codec import decode, encode, from_plain, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.kubernetes_version import NEWEST
from kubewright.api.objects import Object, Struct
from kubewright.apiserver.encoding.protobuf import ProtobufCodec
from kubewright.schema.structural import Node

ROOT = Path(__file__).resolve().parents[2]
EXTRA_KINDS = [
    GroupVersionKind("autoscaling", "v1", "Scale"),
    GroupVersionKind("policy", "v1", "Eviction"),
    GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
    GroupVersionKind("apps", "v1", "DeploymentList"),
    GroupVersionKind("", "v1", "PodList"),
]
KINDS = [row.gvk for row in builtin_resources.resources()] + EXTRA_KINDS
PROTOBUF = ProtobufCodec(builtin_resources.wire_messages(), builtin_resources.message_name)


def class_of(gvk: GroupVersionKind) -> type[Object]:
    found: type[Object] = getattr(import_module(module_of(gvk)), gvk.kind)
    return found


@pytest.mark.parametrize("gvk", KINDS, ids=str)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_round_trips(gvk: GroupVersionKind, seed: int) -> None:
    obj = struct_value(class_of(gvk), Random(seed))
    assert (obj.api_version, obj.kind) == (gvk.api_version, gvk.kind)
    assert decode(encode(obj), type(obj)) == obj
    plain = to_plain(obj)
    assert from_plain(plain, type(obj)) == obj
    assert msgspec.json.decode(encode(obj)) == plain

    through = PROTOBUF.decode(PROTOBUF.encode(plain))
    assert_adds_only_zeros(through, plain, gvk.kind)
    assert PROTOBUF.decode(PROTOBUF.encode(through)) == through

    typed = builtin_resources.as_typed(gvk, plain)
    assert builtin_resources.as_typed(gvk, typed) == typed
    assert builtin_resources.as_typed(gvk, through) == through
    assert without_nested_kinds(typed) == through


def without_nested_kinds(value: Any, nested: bool = False) -> Any:
    """Drop what objects inside an object say of their kind, which protobuf has no place for."""
    if isinstance(value, list):
        return [without_nested_kinds(item, True) for item in value]
    if not isinstance(value, dict):
        return value
    is_object = "metadata" in value or value.get("kind") == "DeleteOptions"
    dropped = ("apiVersion", "kind") if nested and is_object else ()
    return {key: without_nested_kinds(item, True) for key, item in value.items() if key not in dropped}


def assert_adds_only_zeros(found: Any, given: Any, path: str) -> None:
    """Protobuf gives back all that was given, and beside it only the zero values that JSON shows."""
    if isinstance(given, dict):
        nested_kind = "kind" not in found and ("metadata" in given or given.get("kind") == "DeleteOptions")
        for key, value in given.items():
            if nested_kind and key in ("apiVersion", "kind"):
                continue  # only the envelope says the kind, and what lies inside an object has none
            assert_adds_only_zeros(found[key], value, f"{path}.{key}")
        for key in found.keys() - given.keys():
            assert is_zero(found[key]), f"{path}.{key} was made up: {found[key]!r}"
    elif isinstance(given, list):
        assert len(found) == len(given), path
        for index, (one, other) in enumerate(zip(found, given, strict=True)):
            assert_adds_only_zeros(one, other, f"{path}[{index}]")
    else:
        assert found == given, path


def is_zero(value: Any) -> bool:
    return all(map(is_zero, value.values())) if isinstance(value, dict) else value in (None, "", 0, "0")


@pytest.mark.parametrize("gvk", KINDS, ids=str)
def test_schema_and_class_have_the_same_fields(gvk: GroupVersionKind) -> None:
    schema, known = builtin_resources.schema_for(gvk)
    compare(Node(schema, known), class_of(gvk), gvk.kind, set())


def compare(node: Node, cls: type[Struct], path: str, seen: set[type]) -> None:
    if cls in seen:
        return
    seen.add(cls)
    assert set(node.properties) == set(cls.__struct_encode_fields__), path
    for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        part = node.properties[wire]
        below = part.items or part.additional or part
        if part.preserve_unknown or below.preserve_unknown:
            continue
        structs = [
            one for one in leaves(hints(cls)[name]) if isinstance(one, type) and issubclass(one, Struct)
        ]
        assert (below.type == "object") == bool(structs), f"{path}.{wire}"
        for struct in structs:
            compare(below, struct, f"{path}.{wire}", seen)


def leaves(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [annotation]
    return [leaf for argument in get_args(annotation) for leaf in leaves(argument)] or [annotation]


def test_references_and_list_keys_exist() -> None:
    known = definitions()
    assert len(known) > 700

    def visit(schema: dict[str, Any], path: str) -> None:
        if "$ref" in schema:
            assert schema["$ref"] in known, path
        assert "description" not in schema or isinstance(schema["description"], dict), path
        if schema.get("x-kubernetes-list-type") == "map":
            element = Node(schema, known).items
            assert element is not None, path
            for key in schema["x-kubernetes-list-map-keys"]:
                assert key in element.properties, f"{path}: {key}"
        for name, child in (schema.get("properties") or {}).items():
            visit(child, f"{path}.{name}")
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                visit(schema[keyword], path)

    for name, schema in known.items():
        visit(schema, name)


def test_merge_keys_and_list_types() -> None:
    schema, known = builtin_resources.schema_for(GroupVersionKind("apps", "v1", "Deployment"))
    assert schema["x-kubewright-nulls"] == "absent"
    pod = Node(schema, known).properties["spec"].properties["template"].properties["spec"]
    containers = pod.properties["containers"]
    assert (containers.list_type, containers.list_map_keys) == ("map", ("name",))
    assert (containers.patch_merge_key, containers.patch_strategy) == ("name", ("merge",))
    assert containers.items is not None
    ports = containers.items.properties["ports"]
    assert ports.list_map_keys == ("containerPort", "protocol")
    assert ports.items is not None
    assert ports.items.properties["protocol"].default == "TCP"
    assert pod.properties["volumes"].patch_strategy == ("merge", "retainKeys")
    assert Node(schema, known).properties["spec"].properties["selector"].map_type == "atomic"
    limits = containers.items.properties["resources"].properties["limits"].additional
    assert limits is not None
    assert limits.int_or_string
    with pytest.raises(KeyError, match="not a built-in kind"):
        builtin_resources.schema_for(GroupVersionKind("apps", "v1", "Guestbook"))


def test_published_definitions_have_no_own_extensions() -> None:
    for name in definitions():
        text = msgspec.json.encode(builtin_resources.published(name))
        assert b"x-kubewright-" not in text
    quantity = builtin_resources.published("io.k8s.apimachinery.pkg.api.resource.Quantity")
    assert quantity == {"oneOf": [{"type": "string"}, {"type": "number"}]}
    pod = builtin_resources.published("io.k8s.api.core.v1.Pod")
    reference = {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}
    assert pod["properties"]["spec"] == {"allOf": [reference], "default": {}}
    container = builtin_resources.published("io.k8s.api.core.v1.Container")["properties"]
    assert container["name"]["default"] == ""
    assert container["securityContext"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.SecurityContext"}]
    }
    assert container["args"]["items"] == {"type": "string", "default": ""}
    assert container["env"]["items"]["default"] == {}
    rule = builtin_resources.published("io.k8s.api.networking.v1.IngressRule")["properties"]
    assert rule["http"] == {"$ref": "#/components/schemas/io.k8s.api.networking.v1.HTTPIngressRuleValue"}
    assert "default" not in definitions()["io.k8s.api.core.v1.Pod"]["properties"]["spec"]


def test_enumerations_are_not_part_of_schemas() -> None:
    container = builtin_resources.published("io.k8s.api.core.v1.Container")["properties"]
    assert container["imagePullPolicy"]["enum"] == ["Always", "IfNotPresent", "Never"]
    claim = builtin_resources.published("io.k8s.api.core.v1.PersistentVolumeClaimSpec")["properties"]
    assert "ReadWriteOnce" in claim["accessModes"]["items"]["enum"]
    status = builtin_resources.published("io.k8s.api.core.v1.PersistentVolumeClaimStatus")["properties"]
    assert "NodeResizePending" in status["allocatedResourceStatuses"]["additionalProperties"]["enum"]
    known = {".".join(name.rsplit(".", 3)[1:]): schema for name, schema in definitions().items()}
    for kind, fields in types_of(NEWEST).enumerations.items():
        for field, values in fields.items():
            assert field in known[kind]["properties"], (kind, field)
            assert len(set(values)) == len(values) > 0
            assert "enum" not in known[kind]["properties"][field]


def test_delete_options_of_any_group() -> None:
    options = {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "dryRun": ["All"],
    }
    assert PROTOBUF.decode(PROTOBUF.encode(options)) == options
    assert builtin_resources.message_name("example.com/v1", "Guestbook") is None


def test_watch_event_objects_keep_their_kind() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    inside = PROTOBUF.encode(pod)
    raw = b"\x0a\x05ADDED\x12" + bytes([len(inside) + 2, 0x0A, len(inside)]) + inside
    event = PROTOBUF.decode_message("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", raw)
    assert event["type"] == "ADDED"
    assert event["object"] == {**pod, "spec": {"containers": None}, "status": {}}


def test_python_names() -> None:
    from kubewright.api.apiextensions.v1 import CustomResourceValidation, JSONSchemaProps
    from kubewright.api.core.v1 import PodStatus, ServiceSpec
    from kubewright.api.networking.v1 import NetworkPolicyIngressRule

    service = ServiceSpec(cluster_ip="None", external_ips=["1.2.3.4"], load_balancer_source_ranges=["a"])
    assert to_plain(service) == {
        "clusterIP": "None",
        "externalIPs": ["1.2.3.4"],
        "loadBalancerSourceRanges": ["a"],
    }
    assert "pod_ips" in PodStatus.__struct_fields__
    assert to_plain(NetworkPolicyIngressRule(from_=[])) == {"from": []}
    schema = JSONSchemaProps(ref="#", x_kubernetes_list_type="map", additional_properties=False)
    assert to_plain(CustomResourceValidation(openapi_v3_schema=schema)) == {
        "openAPIV3Schema": {"$ref": "#", "x-kubernetes-list-type": "map", "additionalProperties": False}
    }


def test_recursive_types_decode() -> None:
    from kubewright.api.apiextensions.v1 import JSONSchemaProps

    plain = {"type": "array", "items": {"properties": {"a": {"items": [{"type": "string"}]}}}}
    value = decode(msgspec.json.encode(plain), JSONSchemaProps)
    assert isinstance(value.items, JSONSchemaProps)
    assert to_plain(value) == plain


def test_generated_files_are_up_to_date() -> None:
    if not os.environ.get("KUBERNETES_SOURCES"):
        pytest.skip("KUBERNETES_SOURCES does not name a clone of the repository of Kubernetes")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_builtins.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
