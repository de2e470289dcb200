"""Create, update, patch and apply."""

from __future__ import annotations

import asyncio
import json

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


async def test_create_sets_system_metadata(talk, widget, base):
    sent = widget(
        "a", spec={"size": 1}, status={"ready": 1}, metadata={"uid": "mine", "creationTimestamp": "x"}
    )
    sent["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    made = await talk.ok("POST", base, sent, User_Agent="tool/1.0")
    meta = made["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert meta["generation"] == 1
    assert meta["namespace"] == "default"
    assert made["spec"] == {"size": 1, "color": "red"}
    assert "status" not in made
    assert [entry["manager"] for entry in meta["managedFields"]] == ["tool"]
    stored = await talk.ok("GET", f"{base}/a")
    assert stored == made


async def test_duplicate_name_is_a_conflict(talk, widget, base):
    await talk.ok("POST", base, widget("a"))
    status, error = await talk("POST", base, widget("a"))
    assert (status, error["reason"]) == (409, "AlreadyExists")
    assert error["message"] == 'widgets.example.com "a" already exists'


async def test_generated_names(talk, widget, base):
    made = await talk.ok("POST", base, widget(metadata={"generateName": "w-"}))
    name = made["metadata"]["name"]
    assert name.startswith("w-")
    assert len(name) == 7
    status, error = await talk("POST", base, widget())
    assert status == 422
    assert error["details"]["causes"][0]["message"] == "Required value: name or generateName is required"


async def test_rejected_creates(talk, widget, base):
    status, error = await talk("POST", base, widget("a", spec={"size": 11}))
    assert status == 422
    assert error["details"]["causes"][0]["field"] == "spec.size"
    assert (await talk("POST", base, widget("Bad")))[0] == 422
    assert (await talk("POST", base, widget("a", metadata={"namespace": "other"})))[0] == 400
    assert (await talk("POST", base, b"{"))[0] == 400
    assert (await talk("POST", base, b"x", Content_Type="text/plain"))[0] == 415
    status, error = await talk("POST", base, {"apiVersion": "example.com/v1", "metadata": {"name": "a"}})
    assert (status, "Object 'Kind' is missing" in error["message"]) == (400, True)
    status, error = await talk("POST", base, widget("a", metadata={"resourceVersion": "5"}))
    assert (status, error["message"]) == (500, "resourceVersion should not be set on objects to be created")
    assert (await talk.ok("GET", base))["items"] == []


async def test_unknown_fields_warn_or_fail(talk, widget, base):
    response = await talk.send("POST", base, widget("a", spec={"nope": 1}))
    assert response.status == 201
    assert response.headers["Warning"] == ['299 - "unknown field \\"spec.nope\\""']
    status, error = await talk("POST", f"{base}?fieldValidation=Strict", widget("b", spec={"nope": 1}))
    assert status == 400
    assert error["message"].endswith('strict decoding error: unknown field "spec.nope"')
    twice = (
        b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c"},"spec":{"size":1,"size":2}}'
    )
    status, error = await talk("POST", f"{base}?fieldValidation=Strict", twice)
    assert (status, 'duplicate field "spec.size"' in error["message"]) == (400, True)
    assert "Warning" not in (await talk.send("POST", f"{base}?fieldValidation=Ignore", twice)).headers


async def test_dry_run_changes_nothing(talk, widget, base):
    status, made = await talk("POST", f"{base}?dryRun=All", widget("a"))
    assert status == 201
    assert "resourceVersion" not in made["metadata"]
    assert (await talk("GET", f"{base}/a"))[0] == 404
    await talk.ok("POST", base, widget("a"))
    assert (await talk("POST", f"{base}?dryRun=All", widget("a")))[0] == 409
    await talk.ok("DELETE", f"{base}/a?dryRun=All")
    await talk.ok("GET", f"{base}/a")
    assert (await talk("POST", f"{base}?dryRun=Some", widget("b")))[0] == 422


async def test_update_with_an_old_resource_version_conflicts(talk, widget, base):
    first = await talk.ok("POST", base, widget("a", spec={"size": 1}))
    first["spec"]["size"] = 2
    second = await talk.ok("PUT", f"{base}/a", first)
    assert second["metadata"]["generation"] == 2
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    status, error = await talk("PUT", f"{base}/a", first)
    assert (status, error["reason"]) == (409, "Conflict")
    status, error = await talk("PUT", f"{base}/a", widget("a"))
    assert (status, error["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    assert (await talk("PUT", f"{base}/b", widget("b")))[0] == 404
    assert (await talk("PUT", f"{base}/b", widget("a")))[0] == 400


async def test_unchanged_update_is_not_written(talk, widget, base):
    first = await talk.ok("POST", base, widget("a", spec={"size": 1}))
    assert await talk.ok("PUT", f"{base}/a", first) == first
    assert await talk.ok("PATCH", f"{base}/a", {"spec": {"size": 1}}, Content_Type=MERGE) == first


async def test_status_is_written_separately(talk, widget, base):
    obj = await talk.ok("POST", base, widget("a", spec={"size": 1}))
    obj["status"] = {"ready": 1}
    obj["spec"]["size"] = 5
    obj["metadata"]["labels"] = {"x": "y"}
    done = await talk.ok("PUT", f"{base}/a/status", obj)
    assert done["status"] == {"ready": 1}
    assert done["spec"]["size"] == 1
    assert "labels" not in done["metadata"]
    assert done["metadata"]["generation"] == 1
    done["status"] = {"ready": 9}
    done["spec"]["size"] = 6
    done = await talk.ok("PUT", f"{base}/a", done)
    assert (done["status"], done["spec"]["size"], done["metadata"]["generation"]) == ({"ready": 1}, 6, 2)


async def test_patches(talk, widget, base):
    await talk.ok("POST", base, widget("a", spec={"size": 1}, metadata={"labels": {"k": "v"}}))
    done = await talk.ok(
        "PATCH", f"{base}/a", {"spec": {"size": 2}, "metadata": {"labels": None}}, Content_Type=MERGE
    )
    assert done["spec"]["size"] == 2
    assert "labels" not in done["metadata"]
    operations = [
        {"op": "test", "path": "/spec/size", "value": 2},
        {"op": "add", "path": "/spec/size", "value": 3},
    ]
    assert (await talk.ok("PATCH", f"{base}/a", operations, Content_Type=JSON_PATCH))["spec"]["size"] == 3
    assert (await talk("PATCH", f"{base}/a", operations, Content_Type=JSON_PATCH))[0] == 422
    assert (await talk("PATCH", f"{base}/a", {}, Content_Type="application/strategic-merge-patch+json"))[
        0
    ] == 415
    assert (await talk("PATCH", f"{base}/a", {"metadata": {"name": "b"}}, Content_Type=MERGE))[0] == 400
    assert (await talk("PATCH", f"{base}/no", {}, Content_Type=MERGE))[0] == 404
    status, error = await talk(
        "PATCH", f"{base}/a", {"metadata": {"resourceVersion": "1"}}, Content_Type=MERGE
    )
    assert (status, error["reason"]) == (409, "Conflict")


async def test_concurrent_patches_are_all_applied(talk, widget, base):
    await talk.ok("POST", base, widget("a", spec={"size": 1}))
    patches = [{"metadata": {"annotations": {f"n{number}": "x"}}} for number in range(20)]
    await asyncio.gather(*(talk.ok("PATCH", f"{base}/a", patch, Content_Type=MERGE) for patch in patches))
    assert len((await talk.ok("GET", f"{base}/a"))["metadata"]["annotations"]) == 20


async def test_apply_creates_owns_and_conflicts(talk, widget, base):
    one = widget("a", spec={"size": 1, "tags": ["x"]})
    status, made = await talk("PATCH", f"{base}/a?fieldManager=one", one, Content_Type=APPLY)
    assert status == 201
    again = await talk.ok("PATCH", f"{base}/a?fieldManager=one", one, Content_Type=APPLY)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    two = widget("a", spec={"size": 2})
    status, error = await talk("PATCH", f"{base}/a?fieldManager=two", two, Content_Type=APPLY)
    assert (status, error["details"]["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    forced = await talk.ok("PATCH", f"{base}/a?fieldManager=two&force=true", two, Content_Type=APPLY)
    assert forced["spec"]["size"] == 2
    less = await talk.ok("PATCH", f"{base}/a?fieldManager=one", widget("a"), Content_Type=APPLY)
    assert "tags" not in less["spec"]
    assert (await talk("PATCH", f"{base}/a", one, Content_Type=APPLY))[0] == 422
    assert (await talk("PATCH", f"{base}/a?force=true", {}, Content_Type=MERGE))[0] == 422


async def test_server_owned_metadata_cannot_be_changed(talk, widget, base):
    made = await talk.ok("POST", base, widget("a"))
    kept = await talk.ok(
        "PATCH", f"{base}/a", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}, Content_Type=MERGE
    )
    assert kept["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    made["metadata"]["uid"] = "other"
    assert (await talk("PUT", f"{base}/a", made))[0] == 409
    status, error = await talk("PATCH", f"{base}/a", {"metadata": {"uid": "other"}}, Content_Type=MERGE)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "metadata.uid")


async def test_duplicate_owner_references_are_merged(talk, base, widget):
    one, same_uid, two = (
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
        for name, uid in (("a", "u1"), ("b", "u1"), ("c", "u2"))
    )
    sent = widget("a", metadata={"ownerReferences": [one, dict(one), same_uid, two, dict(two)]})
    start = '299 - ".metadata.ownerReferences contains duplicate entries'
    middle = (
        "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
        "please fix your requests; duplicate UID(s) observed: "
    )
    made = await talk.send("POST", base, sent)
    assert made.headers["Warning"] == [f'{start}{middle}u1, u2"']
    kept = json.loads(made.body)
    assert kept["metadata"]["ownerReferences"] == [one, same_uid, two]
    patch = [{"op": "add", "path": "/metadata/ownerReferences/-", "value": two}]
    patched = await talk.send("PATCH", f"{base}/a", patch, Content_Type="application/json-patch+json")
    assert patched.headers["Warning"] == [f'{start} after mutating admission happens{middle}u2"']
    assert json.loads(patched.body)["metadata"]["ownerReferences"] == [one, same_uid, two]
    kept["metadata"]["ownerReferences"] = [two, dict(two)]
    replaced = await talk.send("PUT", f"{base}/a", kept)
    assert replaced.headers["Warning"] == [f'{start}{middle}u2"']
    assert json.loads(replaced.body)["metadata"]["ownerReferences"] == [two]


async def test_patch_cannot_change_kind_or_version(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    status, error = await talk("PATCH", f"{base}/a", {"kind": None}, Content_Type=MERGE)
    assert status == 422
    assert "Object 'Kind' is missing in " in error["message"]
    status, error = await talk("PATCH", f"{base}/a", {"apiVersion": None}, Content_Type=MERGE)
    assert (status, error["reason"]) == (500, "InternalError")
    status, error = await talk("PATCH", f"{base}/a", {"apiVersion": "x/v1"}, Content_Type=MERGE)
    assert (status, error["details"]["group"]) == (422, "x")
    status, error = await talk(
        "PATCH", f"{base}/a", {"metadata": {"resourceVersion": None}}, Content_Type=MERGE
    )
    assert (status, error["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


async def test_invalid_patch_bodies(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    for body, word in ((b"[]", "array"), (b"5", "number"), (b'"x"', "string")):
        status, error = await talk("PATCH", f"{base}/a", body, Content_Type=MERGE)
        assert status == 400
        assert f"cannot unmarshal {word} into Go value of type map[string]interface {{}}" in error["message"]
        status, error = await talk("PATCH", f"{base}/a?fieldManager=m", body, Content_Type=APPLY)
        assert (status, error["message"].partition(": ")[0]) == (400, "error decoding YAML")
    assert (await talk("PATCH", f"{base}/a", b"null", Content_Type=MERGE))[1][
        "message"
    ] == "Invalid JSON Patch"
    assert (await talk("PATCH", f"{base}/a", b"null", Content_Type=JSON_PATCH))[0] == 200
    assert (await talk("PATCH", f"{base}/a", b"[null]", Content_Type=JSON_PATCH))[0] == 422


async def test_media_types_with_broken_parameters_are_unknown(talk, base, widget):
    for media, status in (
        ("application/json; charset=utf-8", 201),
        ("APPLICATION/JSON;", 201),
        ('application/json; a="b;c"', 201),
        ("application/json;;;", 415),
        ("application/json; charset", 415),
    ):
        made = widget(metadata={"generateName": "w-"})
        assert (await talk("POST", base, made, Content_Type=media))[0] == status


async def test_invalid_kinds_and_api_versions(talk, base, widget):
    for change, text in (
        ({"kind": 5}, "json: cannot unmarshal number into Go struct field .kind of type string"),
        (
            {"apiVersion": ["v1"]},
            "json: cannot unmarshal array into Go struct field .apiVersion of type string",
        ),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": None}, "the API version in the data () does not match the expected API version"),
    ):
        status, error = await talk("POST", base, widget("a") | change)
        assert status == 400
        assert text in error["message"]
    await talk.ok("POST", base, widget("a"))
    status, error = await talk("PATCH", f"{base}/a", {"kind": 5}, Content_Type=MERGE)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "patch")


async def test_operations_of_json_patches_are_read_strictly(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    extra = b'[{"op":"add","path":"/spec","value":{"size":1},"extra":1}]'
    twice = b'[{"op":"remove","op":"add","path":"/spec","value":{"size":1}}]'
    for body, problem in (
        (extra, 'json patch unknown field "[0].extra"'),
        (twice, 'json patch duplicate field "[0].op"'),
    ):
        status, error = await talk("PATCH", f"{base}/a?fieldValidation=Strict", body, Content_Type=JSON_PATCH)
        assert status == 422
        assert error["message"].endswith(f"strict decoding error: {problem}")
        response = await talk.send("PATCH", f"{base}/a", body, Content_Type=JSON_PATCH)
        assert response.status == 200
        assert problem.replace('"', '\\"') in response.headers["Warning"][0]


async def test_resource_version_zero_in_an_update(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    status, error = await talk("PUT", f"{base}/a", widget("a", metadata={"resourceVersion": "0"}))
    assert (status, error["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


async def test_names_with_special_meaning_in_paths(talk, base):
    for name in (".", "..", "a%25b"):
        status, error = await talk("GET", f"{base}/{name}")
        assert (status, error["message"].partition(":")[0]) == (400, "Name parameter invalid")


async def test_not_found_takes_precedence_over_malformed_bodies(talk, base, widget):
    assert (await talk("PATCH", f"{base}/a", b"{bad", Content_Type=MERGE))[0] == 404
    assert (await talk("PATCH", f"{base}/a?fieldManager=m", b"a: b: c", Content_Type=APPLY))[0] == 400
    await talk.ok("POST", base, widget("a"))
    assert (await talk("PATCH", f"{base}/a", b"{bad", Content_Type=MERGE))[0] == 400


async def test_content_types_of_patches(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    for media, status in ((f"{MERGE}; charset=utf-8", 200), (MERGE.upper(), 415), ("", 415)):
        assert (await talk("PATCH", f"{base}/a", {}, Content_Type=media))[0] == status


async def test_patch_to_an_unknown_version(talk, base, widget):
    await talk.ok("POST", base, widget("a", spec={"size": 1}))
    response = await talk.send("PATCH", f"{base}/a", {"apiVersion": "example.com/v9"}, Content_Type=MERGE)
    assert response.status == 422
    assert response.headers["Warning"] == ['299 - "unknown field \\"spec\\""']
    status, error = await talk("PATCH", f"{base}/a", {"apiVersion": "v1", "kind": "X"}, Content_Type=MERGE)
    assert status == 422
    assert {cause["field"] for cause in error["details"]["causes"]} == {"apiVersion", "kind"}
