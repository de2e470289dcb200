"""`Resource.handlers`: functions that serve verbs pass the same steps as stored resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.errors import Forbidden
from kubewright.apiserver import APIServer, Resource, Version
from kubewright.apiserver.admission import AdmissionPlugin
from kubewright.schema.structural import Node
from kubewright.storage.memory import MemoryStorage

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "maximum": 10},
                "color": {"type": "string", "default": "red"},
            },
        }
    },
}
MERGE = {"Content_Type": "application/merge-patch+json"}
PATH = "/apis/example.com/v1/namespaces/default/orders"


class Plugin(AdmissionPlugin):
    """Labels written objects; rejects sizes of 7, deletions of `kept`, and a size below the old one."""

    name = "TestPlugin"
    mutating = True
    validating = True

    async def mutate(self, request: Any) -> None:
        request.object["metadata"].setdefault("labels", {})["seen"] = request.operation

    async def validate(self, request: Any) -> None:
        size = ((request.object or {}).get("spec") or {}).get("size")
        if size == 7 or request.name == "kept":
            raise Forbidden("rejected by TestPlugin")
        if request.operation != "CREATE":
            old = request.old_object["spec"]["size"]
            if size is not None and size < old:
                raise Forbidden(f"{size} is less than {old}")


@pytest.fixture
def calls() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
async def orders(talk_to, calls):
    def record(verb: str, result: Any = None) -> Any:
        async def function(call: Any) -> Any:
            if verb != "get":
                calls.append((verb, call.body if call.object is None else call.object))
            return result if result is not None else call.object

        return function

    stored = {"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": "a"}, "spec": {"size": 1}}
    listed = {"apiVersion": "example.com/v1", "kind": "OrderList", "metadata": {}, "items": [stored]}

    async def events(call: Any) -> Any:
        async def stream() -> Any:
            yield "ADDED", stored
            yield "DELETED", stored

        return stream()

    functions = {
        "get": record("get", stored),
        "list": record("list", listed),
        "create": record("create"),
        "update": record("update"),
        "patch": record("patch"),
        "delete": record("delete", stored),
        "watch": events,
    }
    resource = Resource(
        group="example.com",
        kind="Order",
        plural="orders",
        versions=[Version(name="v1", schema=Node(SCHEMA))],
        handlers=functions,
        verbs=tuple(functions),
    )
    server = APIServer(MemoryStorage(), admission=[Plugin()])
    server.add(resource)
    async with server:
        yield talk_to(server)


def order(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": name}, "spec": spec}


async def test_created_objects_are_pruned_defaulted_admitted_and_validated(orders, calls):
    response = await orders.send("POST", PATH, order(size=1, other=1))
    assert response.status == 201
    assert response.headers["Warning"] == ['299 - "unknown field \\"spec.other\\""']
    ((verb, body),) = calls
    assert verb == "create"
    assert body["spec"] == {"size": 1, "color": "red"}
    assert body["metadata"] == {"name": "a", "namespace": "default", "labels": {"seen": "CREATE"}}
    status, error = await orders("POST", PATH, order(size=11))
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.size")
    status, error = await orders("POST", PATH, order(size=7))
    assert (status, error["message"]) == (403, "rejected by TestPlugin")
    assert len(calls) == 1


async def test_updates_and_deletions_are_admitted(orders, calls):
    updated = await orders.ok("PUT", f"{PATH}/a", order(size=2))
    assert updated["metadata"]["labels"] == {"seen": "UPDATE"}
    assert (await orders("PUT", f"{PATH}/a", order(size=7)))[0] == 403
    assert (await orders("DELETE", f"{PATH}/kept"))[0] == 403
    assert (await orders("DELETE", f"{PATH}/a"))[0] == 200
    assert [verb for verb, _ in calls] == ["update", "delete"]


async def test_a_dry_run_does_not_call_the_function(orders, calls):
    created = await orders.ok("POST", f"{PATH}?dryRun=All", order(size=1))
    assert created["spec"]["color"] == "red"
    assert (await orders("DELETE", f"{PATH}/a?dryRun=All"))[0] == 400
    patched = await orders.ok("PATCH", f"{PATH}/a?dryRun=All", {"spec": {"size": 2}}, **MERGE)
    assert patched["spec"] == {"size": 2, "color": "red"}
    assert calls == []


async def test_patched_objects_are_admitted_and_validated_with_the_old_object(orders, calls):
    patched = await orders.ok("PATCH", f"{PATH}/a", {"spec": {"size": 2, "other": 1}}, **MERGE)
    assert patched["spec"] == {"size": 2, "color": "red"}
    assert patched["metadata"]["labels"] == {"seen": "UPDATE"}
    assert calls == [("patch", patched)]
    status, error = await orders("PATCH", f"{PATH}/a", {"spec": {"size": 0}}, **MERGE)
    assert (status, error["message"]) == (403, "0 is less than 1")
    status, error = await orders("PATCH", f"{PATH}/a", {"spec": {"size": 11}}, **MERGE)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.size")
    operations = [{"op": "replace", "path": "/spec/size", "value": 7}]
    assert (await orders("PATCH", f"{PATH}/a", operations, Content_Type="application/json-patch+json"))[
        0
    ] == 403
    assert (await orders("PATCH", f"{PATH}/a", {}, Content_Type="text/plain"))[0] == 415
    assert len(calls) == 1


async def test_updates_see_the_old_object(orders, calls):
    status, error = await orders("PUT", f"{PATH}/a", order(size=0))
    assert (status, error["message"]) == (403, "0 is less than 1")
    assert calls == []


def test_a_patch_function_requires_the_verb_get():
    async def function(call: Any) -> Any:
        return call.object

    with pytest.raises(ValueError, match=r"the patch function of orders\.example\.com requires the verb get"):
        Resource(
            group="example.com",
            kind="Order",
            plural="orders",
            versions=[Version(name="v1")],
            handlers={"patch": function},
            verbs=("patch",),
        )


async def test_watch_functions_and_partial_metadata(orders):
    response = await orders.send("GET", f"{PATH}?watch=1")
    events = [json.loads(chunk) async for chunk in response.stream]
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert await orders.ok("GET", f"{PATH}/a", Accept=accept) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "a"},
    }
    accept = accept.replace("Metadata;", "MetadataList;")
    listed = await orders.ok("GET", PATH, Accept=accept)
    assert [item["kind"] for item in listed["items"]] == ["PartialObjectMetadata"]
