"""Several versions of one resource: conversion, storage, deprecation, scale, typed declarations."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.errors import BadRequest
from kubewright.apiserver import (
    APIServer,
    HubConverter,
    Operation,
    Resource,
    ScaleSubresource,
    Strategy,
    Subresource,
    Version,
)
from kubewright.schema.field_errors import invalid
from kubewright.schema.structural import Node

MERGE = "application/merge-patch+json"


def to_hub(obj):
    counts = {}
    for name in obj["spec"].get("toppings", []):
        counts[name] = counts.get(name, 0) + 1
    return {
        **obj,
        "spec": {"toppings": [{"name": name, "quantity": count} for name, count in counts.items()]},
    }


def from_hub(obj):
    toppings = obj["spec"].get("toppings", [])
    return {**obj, "spec": {"toppings": [each["name"] for each in toppings for _ in range(each["quantity"])]}}


CONVERTER = HubConverter("r.io", "v1", {"v1alpha1": to_hub}, {"v1alpha1": from_hub})


class Rules(Strategy):
    """A strategy that is called with the hub version only."""

    def validate(self, op: Operation, obj):
        return [
            invalid(f"spec.toppings[{index}].quantity", each["quantity"], "must be positive")
            for index, each in enumerate(obj["spec"]["toppings"])
            if each["quantity"] < 1
        ]


def pizzas(**settings) -> Resource:
    deprecated = Version(name="v1alpha1", deprecated=True)
    return Resource(
        group="r.io",
        kind="Pizza",
        plural="pizzas",
        versions=[deprecated, Version(name="v1")],
        hub_version="v1",
        converter=settings.pop("converter", CONVERTER),
        strategy=Rules(),
        **settings,
    )


def pizza(version, toppings):
    return {
        "apiVersion": f"r.io/{version}",
        "kind": "Pizza",
        "metadata": {"name": "p"},
        "spec": {"toppings": toppings},
    }


OLD = "/apis/r.io/v1alpha1/namespaces/d/pizzas"
NEW = "/apis/r.io/v1/namespaces/d/pizzas"


async def test_every_version_serves_the_stored_object(talk, server):
    server.add(pizzas())
    response = await talk.send("POST", OLD, pizza("v1alpha1", ["a", "b", "a"]))
    assert response.status == 201
    assert response.headers["Warning"] == ['299 - "r.io/v1alpha1 Pizza is deprecated; use r.io/v1 Pizza"']
    assert json.loads(response.body)["spec"] == {"toppings": ["a", "a", "b"]}
    new = await talk.ok("GET", f"{NEW}/p")
    assert new["apiVersion"] == "r.io/v1"
    assert new["spec"]["toppings"] == [{"name": "a", "quantity": 2}, {"name": "b", "quantity": 1}]
    stored = await server.storage.get("/registry/r.io/pizzas/d/p")
    assert stored.value.startswith(b'{"apiVersion":"r.io/v1","kind":"Pizza","metadata":{')
    listed = await talk.ok("GET", OLD)
    assert listed["apiVersion"] == "r.io/v1alpha1"
    assert listed["items"][0]["spec"]["toppings"] == ["a", "a", "b"]
    done = await talk.ok("PATCH", f"{OLD}/p", {"spec": {"toppings": ["c"]}}, Content_Type=MERGE)
    assert done["spec"]["toppings"] == ["c"]
    status, error = await talk("PUT", f"{NEW}/p", pizza("v1", [{"name": "x", "quantity": 0}]))
    assert status == 422
    new["spec"]["toppings"][0]["quantity"] = 0
    new["metadata"]["resourceVersion"] = (await talk.ok("GET", f"{NEW}/p"))["metadata"]["resourceVersion"]
    new["metadata"]["name"] = "q"
    new["metadata"].pop("resourceVersion")
    status, error = await talk("POST", NEW, new)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.toppings[0].quantity")


async def test_watches_convert_once_per_version(talk, server):
    server.add(pizzas())
    streams = [(await talk.send("GET", f"{path}?watch=1")).stream for path in (OLD, OLD, NEW)]
    await talk.ok("POST", NEW, pizza("v1", [{"name": "a", "quantity": 2}]))
    chunks = [await stream.__anext__() for stream in streams]
    assert chunks[0] is chunks[1]
    assert json.loads(chunks[0])["object"]["spec"]["toppings"] == ["a", "a"]
    assert json.loads(chunks[2])["object"]["spec"]["toppings"] == [{"name": "a", "quantity": 2}]


class Remote:
    """An asynchronous converter that can fail, like a webhook."""

    def __init__(self) -> None:
        self.broken = False

    async def convert(self, objects, from_version, to_version):
        await asyncio.sleep(0)
        if self.broken:
            raise BadRequest("the converter is unavailable")
        return CONVERTER.convert(objects, from_version, to_version)


async def test_async_conversion_and_its_failure(talk, server):
    remote = Remote()
    server.add(pizzas(converter=remote))
    await talk.ok("POST", OLD, pizza("v1alpha1", ["a", "a"]))
    stream = (await talk.send("GET", f"{OLD}?watch=1")).stream
    assert json.loads(await stream.__anext__())["object"]["spec"]["toppings"] == ["a", "a"]
    await talk.ok(
        "PATCH", f"{NEW}/p", {"spec": {"toppings": [{"name": "b", "quantity": 1}]}}, Content_Type=MERGE
    )
    async with asyncio.timeout(60):
        assert json.loads(await stream.__anext__())["object"]["spec"]["toppings"] == ["b"]
    remote.broken = True
    await talk.ok("GET", f"{NEW}/p")
    assert (await talk("GET", f"{OLD}/p"))[0] == 400
    assert (await talk("GET", OLD))[0] == 400


@given(st.lists(st.sampled_from("abc"), max_size=6))
def test_conversion_round_trips(toppings):
    obj = pizza("v1alpha1", toppings)
    (hub,) = CONVERTER.convert([obj], "v1alpha1", "v1")
    (back,) = CONVERTER.convert([hub], "v1", "v1alpha1")
    assert sorted(back["spec"]["toppings"]) == sorted(toppings)
    assert back["metadata"] == obj["metadata"]


async def test_new_schema_applies_to_stored_objects(talk, server: APIServer):
    def things(properties, revision=0):
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
        version = Version(name="v1", schema=Node(schema))
        return Resource(
            group="t.io",
            kind="Thing",
            plural="things",
            versions=[version],
            namespaced=False,
            schema_revision=revision,
        )

    server.add(things({"a": {"type": "string"}, "b": {"type": "string"}}))
    path = "/apis/t.io/v1/things"
    body = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"a": "1", "b": "2"}}
    await talk.ok("POST", path, body)
    changed = {"a": {"type": "string"}, "c": {"type": "string", "default": "new"}}
    server.add(things(changed, await server.storage.revision()))
    assert (await talk.ok("GET", f"{path}/x"))["spec"] == {"a": "1", "c": "new"}
    assert (await talk.ok("GET", path))["items"][0]["spec"] == {"a": "1", "c": "new"}


async def test_scale(talk, server):
    version = Version(
        name="v1", subresources={"scale": ScaleSubresource(label_selector_path=".status.selector")}
    )
    server.add(Resource(group="s.io", kind="Set", plural="sets", versions=[version]))
    path = "/apis/s.io/v1/namespaces/d/sets"
    body = {"apiVersion": "s.io/v1", "kind": "Set", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    await talk.ok("POST", path, body | {"status": {"replicas": 1, "selector": "a=b"}})
    scale = await talk.ok("GET", f"{path}/a/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 1, "selector": "a=b"},
    )
    scale["spec"]["replicas"] = 5
    await talk.ok("PUT", f"{path}/a/scale", scale)
    assert (await talk.ok("GET", f"{path}/a"))["spec"]["replicas"] == 5
    assert (await talk("PUT", f"{path}/a/scale", scale))[0] == 409
    done = await talk.ok("PATCH", f"{path}/a/scale", {"spec": {"replicas": 6}}, Content_Type=MERGE)
    assert done["spec"]["replicas"] == 6
    assert (await talk("PATCH", f"{path}/a/scale", {"spec": {"replicas": -1}}, Content_Type=MERGE))[0] == 422


async def test_custom_subresources(talk, server, base, widget):
    async def double(asked):
        parent = await asked.get()
        return {"kind": "Double", "value": 2 * parent["spec"]["size"], "sent": asked.body}

    version = Version(
        name="v1", subresources={"double": Subresource(handler=double, verbs=("get", "create"))}
    )
    server.add(Resource(group="example.com", kind="Widget", plural="widgets", versions=[version]))
    await talk.ok("POST", base, widget("a", spec={"size": 3}))
    assert (await talk.ok("GET", f"{base}/a/double"))["value"] == 6
    assert (await talk.ok("POST", f"{base}/a/double", {"x": 1}))["sent"] == {"x": 1}
    assert (await talk("PUT", f"{base}/a/double", {}))[0] == 405
    assert (await talk("GET", f"{base}/no/double"))[0] == 404
    assert (await talk("GET", f"{base}/a/triple"))[0] == 404
