"""Custom resources: pruning, defaults, validation, subresources, and changed definitions."""

from __future__ import annotations

import json

from .conftest import CRDS, definition, widget

CRD = f"{CRDS}/widgets.example.com"
JSON_PATCH = "application/json-patch+json"


def schema(**properties):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


async def test_pruned_defaulted_validated(talk, base):
    size = {"type": "integer", "minimum": 1, "default": 3}
    await talk.ok("POST", CRDS, definition(schema=schema(size=size)))
    made = await talk.ok("POST", base, widget("a", spec={"unknown": 1}))
    assert made["spec"] == {"size": 3}
    assert made["metadata"]["generation"] == 1
    status, response = await talk("POST", base, widget("b", spec={"size": 0}))
    assert (status, response["details"]["causes"][0]["field"]) == (422, "spec.size")
    changed = await talk.ok("PATCH", f"{base}/a", {"spec": {"size": 5}})
    assert changed["metadata"]["generation"] == 2


async def test_new_schema_applies_to_stored_objects(talk, base):
    await talk.ok("POST", CRDS, definition(schema=schema(a={"type": "string"}, b={"type": "string"})))
    await talk.ok("POST", base, widget("old", spec={"a": "x", "b": "y"}))
    changed = schema(a={"type": "string"}, c={"type": "integer", "default": 7})
    patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": changed}]
    await talk.ok("PATCH", CRD, patch, Content_Type=JSON_PATCH)
    assert (await talk.ok("GET", f"{base}/old"))["spec"] == {"a": "x", "c": 7}
    assert (await talk.ok("GET", base))["items"][0]["spec"] == {"a": "x", "c": 7}
    made = await talk.ok("POST", base, widget("new", spec={}))
    assert made["spec"] == {"c": 7}


async def test_watches_end_when_the_definition_changes(talk, base):
    await talk.ok("POST", CRDS, definition(schema=schema(a={"type": "string"})))
    response = await talk.send("GET", f"{base}?watch=true")
    await talk.ok("POST", base, widget("a"))
    event = json.loads(await anext(response.stream))
    assert event["type"] == "ADDED"
    await talk.ok("PATCH", CRD, {"spec": {"names": {"shortNames": ["w"]}}})
    assert [chunk async for chunk in response.stream] == []


async def test_changed_labels_of_a_definition_keep_watches_open(talk, base):
    await talk.ok("POST", CRDS, definition())
    response = await talk.send("GET", f"{base}?watch=true")
    await talk.ok("PATCH", CRD, {"metadata": {"labels": {"a": "b"}}})
    await talk.ok("POST", base, widget("a"))
    assert json.loads(await anext(response.stream))["object"]["metadata"]["name"] == "a"
    await response.stream.aclose()


async def test_status_and_scale(talk, base):
    crd = definition(schema={**schema(replicas={"type": "integer"})})
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
    }
    crd["spec"]["versions"][0]["subresources"] = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    await talk.ok("POST", CRDS, crd)
    made = await talk.ok("POST", base, widget("a", spec={"replicas": 2}, status={"replicas": 9}))
    assert "status" not in made
    status = {"status": {"replicas": 1, "selector": "a=b"}, "spec": {"replicas": 7}}
    written = await talk.ok("PATCH", f"{base}/a/status", status)
    assert (written["spec"]["replicas"], written["metadata"]["generation"]) == (2, 1)
    scale = await talk.ok("GET", f"{base}/a/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await talk.ok("PATCH", f"{base}/a/scale", {"spec": {"replicas": 4}})
    assert (await talk.ok("GET", f"{base}/a"))["spec"] == {"replicas": 4}


async def test_metadata_list_of_one_object_is_not_acceptable(talk, base):
    await talk.ok("POST", CRDS, definition())
    await talk.ok("POST", base, widget("a"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    status, error = await talk("GET", f"{base}/a", Accept=accept)
    assert (status, error["message"]) == (500, "content is not a list")
    assert (await talk("GET", f"{base}/none", Accept=accept))[0] == 404


async def test_columns_and_selectable_fields(talk, base):
    crd = definition(schema=schema(size={"type": "integer"}, color={"type": "string"}))
    crd["spec"]["versions"][0] |= {
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    await talk.ok("POST", CRDS, crd)
    await talk.ok("POST", base, widget("a", spec={"size": 1, "color": "red"}))
    await talk.ok("POST", base, widget("b", spec={"size": 2, "color": "blue"}))
    table = await talk.ok("GET", base, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"] for row in table["rows"]] == [["a", 1], ["b", 2]]
    found = await talk.ok("GET", f"{base}?fieldSelector=spec.color=blue")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    assert (await talk("GET", f"{base}?fieldSelector=spec.size=1"))[0] == 400


async def test_warnings_of_unqualified_finalizers(talk, base):
    await talk.ok("POST", CRDS, definition())
    response = await talk.send("POST", base, widget("a", metadata={"finalizers": ["mine", "a.b", "c.d/e"]}))
    assert response.status == 201
    texts = [value.split('"', 1)[1] for value in response.headers["Warning"]]
    assert len(texts) == 2
    assert "including a path (/)" in texts[0]


async def test_cluster_scope(talk):
    await talk.ok("POST", CRDS, definition(scope="Cluster"))
    await talk.ok("POST", "/apis/example.com/v1/widgets", widget("a"))
    assert (await talk("GET", "/apis/example.com/v1/namespaces/default/widgets"))[0] == 404
    await talk.ok("DELETE", CRD)
    await talk.until(CRD, lambda status, _: status == 404)


async def test_schemas_are_compiled_on_first_use(talk, plane, base):
    await talk.ok("POST", CRDS, definition(schema=schema(size={"type": "integer"})))
    version = plane.server.store("example.com", "widgets").resource.versions[0]
    assert version._compiled is None
    await talk.ok("GET", base)
    assert version._compiled is None
    await talk.ok("POST", base, widget("a"))
    assert version._compiled is not None


async def test_applied_null_is_a_value(talk, base):
    spec = {
        "type": "object",
        "properties": {"s": {"type": "string"}, "n": {"type": "string", "nullable": True}},
    }
    crd = definition()
    schema = {"type": "object", "properties": {"spec": spec}}
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    await talk.ok("POST", CRDS, crd)
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    path = f"{base}/a?fieldManager=m"
    apply = {"Content_Type": "application/apply-patch+yaml"}
    status, error = await talk("PATCH", path, {**body, "spec": {"s": None}}, **apply)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.s")
    applied = await talk.ok("PATCH", path, {**body, "spec": {"n": None}}, **apply)
    assert applied["spec"] == {"n": None}
    await talk.ok("DELETE", f"{base}/a")
    assert (await talk.ok("POST", base, {**body, "spec": {"s": None, "n": None}}))["spec"] == {"n": None}


async def test_list_doubling_in_a_rule_is_stopped(talk, base):
    text = "[0, 1]"
    for number in range(30):
        text = f"[{text}].map(v{number}, v{number} + v{number})[0]"
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec["x-kubernetes-validations"] = [{"rule": f"{text}.size() > 0"}]
    await talk.ok("POST", CRDS, definition(schema={"type": "object", "properties": {"spec": spec}}))
    status, response = await talk("POST", base, widget("a", spec={"size": 1}))
    assert status == 422
    assert "exceed" in response["message"]
