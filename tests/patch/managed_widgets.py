"""A kind with every type of list and map, and readers of its field managers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.patch import FieldManager, FieldSet
from kubewright.schema.structural import Node

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(seconds=1)
T2 = T0 + timedelta(seconds=2)
TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {**TEXT, "default": "TCP"},
                            "name": TEXT,
                        },
                    },
                },
                "plain": {"type": "array", "items": TEXT},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": TEXT,
                },
                "fine": {"type": "object", "additionalProperties": TEXT},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": TEXT}},
    },
}
NODE = Node(SCHEMA)
STATUS = FieldSet.of(("f:status",))
NOT_STATUS = FieldSet.of(("f:spec",), ("f:metadata",))


def manager(node: Node | None = NODE, **options: Any) -> FieldManager:
    return FieldManager("example.com/v1", "Widget", node, **options)


def widget(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    if spec is not None:
        obj["spec"] = spec
    return {**obj, **more}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def entry(obj: dict[str, Any], name: str) -> Any:
    [found] = [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == name]
    return found
