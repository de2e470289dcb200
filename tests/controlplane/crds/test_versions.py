"""Several versions of a custom resource: with and without a conversion webhook."""

from __future__ import annotations

import asyncio
import json

import pytest

from .conftest import CRDS, definition, widget

CRD = f"{CRDS}/widgets.example.com"
JSON_PATCH = "application/json-patch+json"
V2 = "/apis/example.com/v2/namespaces/default/widgets"


def version(name, *, storage=False, served=True, **properties):
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}}


STRING = {"type": "string"}


def two(**settings):
    crd = definition(**settings)
    crd["spec"]["versions"] = [
        version("v1", storage=True, host=STRING),
        version("v2", address={"type": "object", "properties": {"host": STRING}}),
    ]
    return crd


def converting(hooks, versions=("v1",)):
    webhook = {"conversionReviewVersions": list(versions), "clientConfig": hooks.config("convert")}
    hooks.handlers["convert"] = convert
    return two(conversion={"strategy": "Webhook", "webhook": webhook})


def convert(review):
    request = review["request"]
    wanted = request["desiredAPIVersion"]
    converted = []
    for obj in request["objects"]:
        spec = obj.get("spec") or {}
        if wanted.endswith("v2"):
            spec = {"address": {"host": spec["host"]}} if "host" in spec else {}
        else:
            spec = {"host": spec["address"]["host"]} if "address" in spec else {}
        converted.append({**obj, "apiVersion": wanted, "spec": spec})
    result = {"status": "Success"}
    response = {"uid": request["uid"], "result": result, "convertedObjects": converted}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


async def test_changed_storage_version(talk, base):
    crd = definition()
    crd["spec"]["versions"] = [version("v1", storage=True, a=STRING), version("v2", a=STRING)]
    await talk.ok("POST", CRDS, crd)
    await talk.ok("POST", base, widget("old", spec={"a": "x"}))
    patch = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    moved = await talk.ok("PATCH", CRD, patch, Content_Type=JSON_PATCH)
    assert moved["status"]["storedVersions"] == ["v1", "v2"]
    for path, name in ((base, "v1"), (V2, "v2")):
        assert (await talk.ok("GET", f"{path}/old"))["apiVersion"] == f"example.com/{name}"
        listed = await talk.ok("GET", path)
        assert [item["apiVersion"] for item in listed["items"]] == [f"example.com/{name}"]
    response = await talk.send("GET", f"{V2}?watch=true")
    assert json.loads(await anext(response.stream))["object"]["apiVersion"] == "example.com/v2"
    await talk.ok("DELETE", f"{V2}/old")
    gone = json.loads(await anext(response.stream))
    assert (gone["type"], gone["object"]["apiVersion"]) == ("DELETED", "example.com/v2")
    await response.stream.aclose()


async def test_conversion_webhook(talk, base, hooks):
    await talk.ok("POST", CRDS, converting(hooks))
    await talk.ok("POST", base, widget("a", spec={"host": "h"}))
    assert hooks.asked == []
    shown = await talk.ok("GET", f"{V2}/a")
    assert (shown["spec"], shown["metadata"]["resourceVersion"] > "0") == ({"address": {"host": "h"}}, True)
    review = hooks.asked[0][1]
    assert review["response"] == {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    assert "resourceVersion" not in review["request"]["objects"][0]["metadata"]
    made = await talk.ok("POST", V2, widget("b", "v2", spec={"address": {"host": "x"}}))
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"address": {"host": "x"}})
    assert (await talk.ok("GET", f"{base}/b"))["spec"] == {"host": "x"}
    hooks.asked.clear()
    listed = await talk.ok("GET", V2)
    assert [item["spec"]["address"]["host"] for item in listed["items"]] == ["h", "x"]
    assert len(hooks.asked) == 1
    changed = await talk.ok("PATCH", f"{V2}/a", {"spec": {"address": {"host": "new"}}})
    assert changed["metadata"]["generation"] == 2
    assert (await talk.ok("GET", f"{base}/a"))["spec"] == {"host": "new"}


async def test_watch_through_a_webhook_keeps_order(talk, base, hooks):
    await talk.ok("POST", CRDS, converting(hooks))
    response = await talk.send("GET", f"{V2}?watch=true")
    for number in range(5):
        await talk.ok("POST", base, widget(f"w{number}", spec={"host": str(number)}))
    events = []
    while len(events) < 5:
        chunk = await asyncio.wait_for(anext(response.stream), 60)
        events += [json.loads(line) for line in chunk.splitlines()]
    assert [event["object"]["spec"]["address"]["host"] for event in events] == list("01234")
    await response.stream.aclose()


async def test_review_version_v1beta1(talk, base, hooks):
    await talk.ok("POST", CRDS, converting(hooks, ("v1beta1",)))
    await talk.ok("POST", base, widget("a", spec={"host": "h"}))
    assert (await talk.ok("GET", f"{V2}/a"))["spec"] == {"address": {"host": "h"}}
    assert hooks.asked[0][1]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


def corrupt(change):
    def handler(review):
        converted = convert(review)
        change(converted["response"], converted)
        return converted

    return handler


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda response, _: response.update(uid="other"), "expected response.uid="),
        (
            lambda response, _: response.update(result={"status": "Failed", "message": "no, thanks"}),
            "failed: no, thanks",
        ),
        (
            lambda response, _: response.update(result={"status": "Failed"}),
            "response.result.status was 'Failed', not 'Success'",
        ),
        (lambda response, _: response.update(convertedObjects=[]), "returned 0 objects, expected 1"),
        (
            lambda response, _: response["convertedObjects"][0].update(apiVersion="example.com/v1"),
            "invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
        (
            lambda response, _: response["convertedObjects"][0].update(kind="Gadget"),
            "invalid kind (expected Widget, received Gadget)",
        ),
        (
            lambda response, _: response["convertedObjects"][0]["metadata"].update(name="b"),
            "must have the same name: a != b",
        ),
        (
            lambda response, _: response["convertedObjects"][0]["metadata"].update(labels={"a": 1}),
            "metadata.labels[a] must be a string",
        ),
        (
            lambda response, _: response["convertedObjects"][0]["metadata"].update(labels={"a": "-b-"}),
            "metadata.labels",
        ),
        (lambda _, review: review.pop("response"), "no response provided"),
        (lambda _, review: review.update(kind="Other"), 'no kind "Other" is registered for version'),
        (lambda _, review: review.pop("kind"), "expected webhook response of"),
        (
            lambda _, review: review.update(apiVersion="apiextensions.k8s.io/v1beta1"),
            "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        (lambda _, review: review.update(response="x"), "json: cannot unmarshal string into Go struct field"),
    ],
)
async def test_invalid_conversion_responses(talk, base, hooks, change, text):
    await talk.ok("POST", CRDS, converting(hooks))
    await talk.ok("POST", base, widget("a", spec={"host": "h"}))
    hooks.handlers["convert"] = corrupt(change)
    status, response = await talk("GET", f"{V2}/a")
    assert status == 500
    assert response["message"].startswith("Internal error occurred: StorageError: corrupt object, Code: 7, ")
    assert "conversion webhook for example.com/v1, Kind=Widget " in response["message"]
    assert text in response["message"]
    status, response = await talk("GET", V2)
    assert (status, response["reason"]) == (500, "StorageReadError")
    assert [cause["field"] for cause in response["details"]["causes"]] == [
        "/registry/example.com/widgets/default/a"
    ]


async def test_conversion_may_change_only_labels_and_annotations(talk, base, hooks):
    await talk.ok("POST", CRDS, converting(hooks))
    await talk.ok("POST", base, widget("a", metadata={"labels": {"a": "b"}}, spec={"host": "h"}))

    def change(response, _):
        metadata = response["convertedObjects"][0]["metadata"]
        metadata.update(labels={"c": "d"}, annotations={"e": "f"}, finalizers=["x.y/z"], generation=77)

    hooks.handlers["convert"] = corrupt(change)
    metadata = (await talk.ok("GET", f"{V2}/a"))["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"c": "d"}, {"e": "f"})
    assert metadata["generation"] == 1
    assert "finalizers" not in metadata


async def test_unreachable_webhook(talk, base, hooks):
    await talk.ok("POST", CRDS, converting(hooks))
    await talk.ok("POST", base, widget("a", spec={"host": "h"}))
    config = {"conversion": {"webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}}}}
    await talk.ok("PATCH", CRD, {"spec": config})
    status, response = await talk("GET", f"{V2}/a")
    assert status == 500
    assert response["message"].endswith(
        "conversion webhook for example.com/v1, Kind=Widget failed: "
        'Post "https://127.0.0.1:1/convert?timeout=30s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


async def test_version_that_is_no_longer_served(talk, base):
    crd = definition()
    crd["spec"]["versions"] = [version("v1", storage=True), version("v2")]
    await talk.ok("POST", CRDS, crd)
    await talk.ok("GET", V2)
    patch = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    await talk.ok("PATCH", CRD, patch, Content_Type=JSON_PATCH)
    assert (await talk("GET", V2))[0] == 404
    assert (await talk("GET", "/apis/example.com/v2"))[0] == 404
    await talk.ok("GET", base)


async def test_field_managers_of_another_version(talk, base, hooks):
    """An apply conflicts with the manager of the same field in another version."""
    await talk.ok("POST", CRDS, converting(hooks))
    await talk.ok("POST", f"{base}?fieldManager=one", widget("a", spec={"host": "h"}))
    await talk.ok("PATCH", f"{V2}/a?fieldManager=two", {"spec": {"address": {"host": "other"}}})
    live = await talk.ok("GET", f"{base}/a")
    owners = {entry["manager"]: entry["apiVersion"] for entry in live["metadata"]["managedFields"]}
    assert owners == {"one": "example.com/v1", "two": "example.com/v2"}
    config = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"host": "mine"}}
    apply = "application/apply-patch+yaml"
    status, response = await talk("PATCH", f"{base}/a?fieldManager=three", config, Content_Type=apply)
    assert status == 409
    assert response["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "two" using example.com/v2',
            "field": ".spec.address.host",
        }
    ]


async def test_objects_of_a_removed_version_cannot_be_read(talk, base):
    await talk.ok("POST", CRDS, two())
    await talk.ok("POST", base, widget("a", host="h"))
    moved = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    await talk.ok("PATCH", CRD, moved, Content_Type=JSON_PATCH)
    await talk.ok("PATCH", f"{CRD}/status", {"status": {"storedVersions": ["v2"]}})
    await talk.ok("PATCH", CRD, [{"op": "remove", "path": "/spec/versions/0"}], Content_Type=JSON_PATCH)
    for path in (V2, f"{V2}/a"):
        status, error = await talk("GET", path)
        text = "request to convert CR from an invalid group/version: example.com/v1"
        assert (status, error["message"]) == (500, text)


async def test_selectable_fields_are_those_of_the_requested_version(talk, base, hooks):
    """Lists and watches evaluate them after conversion."""
    crd = converting(hooks)
    crd["spec"]["versions"][1]["selectableFields"] = [{"jsonPath": ".spec.address.host"}]
    await talk.ok("POST", CRDS, crd)
    for name, host in (("a", "x"), ("b", "y")):
        await talk.ok("POST", base, widget(name, spec={"host": host}))
    found = await talk.ok("GET", f"{V2}?fieldSelector=spec.address.host=y")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    version = found["metadata"]["resourceVersion"]
    response = await talk.send(
        "GET", f"{V2}?watch=true&fieldSelector=spec.address.host=y&resourceVersion={version}"
    )
    await talk.ok("POST", base, widget("c", spec={"host": "x"}))
    await talk.ok("POST", base, widget("d", spec={"host": "y"}))
    await talk.ok("PATCH", f"{base}/a", {"spec": {"host": "y"}})
    await talk.ok("PATCH", f"{base}/b", {"spec": {"host": "x"}})
    events = []
    while len(events) < 3:
        chunk = await asyncio.wait_for(anext(response.stream), 60)
        events += [json.loads(line) for line in chunk.splitlines()]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "d"),
        ("ADDED", "a"),
        ("DELETED", "b"),
    ]
    await response.stream.aclose()
