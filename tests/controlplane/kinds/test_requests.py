"""Requests that are handled independently of the kind: paths, bodies, patches, watches, lists, scales."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM

NS = "/api/v1/namespaces/ns"
APPS = "/apis/apps/v1/namespaces/ns"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


@pytest.mark.parametrize(
    "path", ["/api/v2/pods", "/api/v1//pods", "/apis/apps/v2/namespaces/ns/deployments/x"]
)
async def test_not_found_in_groups_with_types(cluster: Any, path: str) -> None:
    status, error = await cluster.call("GET", path)
    assert (status, error["reason"], error["details"]) == (404, "NotFound", {})


async def test_other_groups_have_no_page(cluster: Any) -> None:
    request = HTTPRequest("GET", "/apis/nothing.example.com/v1/things", user=SYSTEM)
    response = await cluster.server.handle(request)
    assert (response.status, response.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("path", "expected"), [(NS, 405), ("/version", 405), ("/apis/apps/v1", 405), ("/healthz", 200)]
)
async def test_head_requests(cluster: Any, path: str, expected: int) -> None:
    assert (await cluster.call("HEAD", path))[0] == expected


async def test_the_version_is_json_only(cluster: Any) -> None:
    request = HTTPRequest("GET", "/version", headers={"Accept": "application/yaml"}, user=SYSTEM)
    assert (await cluster.server.handle(request)).status == 406


async def test_update_of_a_deleted_object(cluster: Any) -> None:
    gone = {"metadata": {"name": "x", "uid": "1"}}
    assert (await cluster.call("PUT", f"{NS}/configmaps/x", gone))[0] == 404
    status, error = await cluster.call("PUT", f"{LEASES}/x", gone)
    assert (status, error["reason"]) == (409, "Conflict")
    old = {"metadata": {"name": "x", "resourceVersion": "5"}}
    assert (await cluster.call("PUT", f"{LEASES}/x", old))[0] == 201


async def test_apply_with_a_resource_version_creates(cluster: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "5"}}
    status, _ = await cluster.call("PATCH", f"{NS}/configmaps/x?fieldManager=m", body, type=APPLY)
    assert status == 201


async def test_dry_run_may_be_repeated(cluster: Any) -> None:
    body = {"metadata": {"name": "x"}}
    assert (await cluster.call("POST", f"{NS}/configmaps?dryRun=All&dryRun=All", body))[0] == 201
    assert (await cluster.call("GET", f"{NS}/configmaps/x"))[0] == 404
    assert (await cluster.call("POST", f"{NS}/configmaps?dryRun=All&dryRun=Some", body))[0] == 422


async def test_patch_must_not_change_kind_or_name(cluster: Any) -> None:
    await cluster.create(f"{NS}/configmaps", "x", data={"a": "b"})
    for body, why in (
        ({"apiVersion": "v9"}, 'no kind "ConfigMap" is registered for version "v9"'),
        ({"kind": "Secret"}, "unknown conversion"),
    ):
        status, error = await cluster.patch(f"{NS}/configmaps/x", body)
        assert (status, error["reason"]) == (422, "Invalid")
        assert why in error["message"]
    await cluster.create("/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers", "h", spec=_HPA)
    path = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/h"
    assert (await cluster.patch(path, {"apiVersion": "autoscaling/v1"}))[0] == 200


_HPA = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}


async def test_clients_cannot_set_the_deletion_timestamp(cluster: Any) -> None:
    await cluster.create(f"{NS}/configmaps", "x")
    body = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
    status, error = await cluster.patch(f"{NS}/configmaps/x", body)
    assert status == 422
    assert {cause["field"] for cause in error["details"]["causes"]} == {"metadata.deletionTimestamp"}
    assert (await cluster.patch(f"{NS}/configmaps/x", {"metadata": {"deletionTimestamp": None}}))[0] == 200


async def test_yaml_1_1_booleans(cluster: Any) -> None:
    for name in ("y", "N", "yes", "off"):
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
        request = HTTPRequest(
            "POST",
            f"{NS}/configmaps",
            headers={"Content-Type": "application/yaml"},
            body=text.encode(),
            user=SYSTEM,
        )
        response = await cluster.server.handle(request)
        assert response.status == 400
        assert b"cannot unmarshal bool" in response.body


async def test_repeated_keys_of_an_apply_are_warned_about(cluster: Any) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b, a: c}\n"
    request = HTTPRequest(
        "PATCH",
        f"{NS}/configmaps/a",
        query="fieldManager=m",
        headers={"Content-Type": APPLY},
        body=text.encode(),
        user=SYSTEM,
    )
    assert (await cluster.server.handle(request)).status == 201
    assert list(request.warnings) == ['line 4: key "a" already set in map']


async def test_a_list_at_any_version_is_complete(cluster: Any) -> None:
    for name in "abc":
        await cluster.create(f"{NS}/configmaps", name)
    _, some = await cluster.call("GET", f"{NS}/configmaps?limit=2")
    _, everything = await cluster.call("GET", f"{NS}/configmaps?limit=2&resourceVersion=0")
    assert [len(some["items"]), len(everything["items"])] == [2, 3]
    assert "continue" not in everything["metadata"]


async def test_watches_of_future_revisions(cluster: Any) -> None:
    request = HTTPRequest(
        "GET", f"{NS}/configmaps", query="watch=1&resourceVersion=99999&timeoutSeconds=1", user=SYSTEM
    )
    response = await cluster.server.handle(request)
    assert response.status == 200
    await response.stream.aclose()


async def test_watches_reject_media_types_that_cannot_be_streamed(cluster: Any) -> None:
    assert (await cluster.call("GET", f"{NS}/configmaps?watch=1&continue=x"))[0] == 422
    request = HTTPRequest(
        "GET", f"{NS}/configmaps", query="watch=1", headers={"Accept": "application/yaml"}, user=SYSTEM
    )
    assert (await cluster.server.handle(request)).status == 406


async def test_strategic_merge_patch_of_a_scale_ignores_its_kind(cluster: Any) -> None:
    """The Ansible collection kubernetes.core sends the kind of the scaled object."""
    await cluster.create(f"{APPS}/deployments", "d", **DEPLOYMENT)
    body = {"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"replicas": 2}}
    strategic = "application/strategic-merge-patch+json"
    status, scale = await cluster.call("PATCH", f"{APPS}/deployments/d/scale", body, type=strategic)
    assert (status, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 2})
    status, error = await cluster.patch(f"{APPS}/deployments/d/scale", {"kind": "Deployment"})
    assert status == 422
    assert 'no kind "Deployment" is registered for version "autoscaling/v1"' in error["message"]


async def test_applying_a_scale_conflicts_with_the_owner_of_the_replicas(cluster: Any) -> None:
    path = f"{APPS}/deployments/d"
    assert (await cluster.call("PATCH", f"{path}?fieldManager=one", DEPLOYMENT, type=APPLY))[0] == 201
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 5},
    }
    status, error = await cluster.call("PATCH", f"{path}/scale?fieldManager=two", scale, type=APPLY)
    assert (status, error["details"]["causes"][0]["field"]) == (409, ".spec.replicas")
    forced = await cluster.call("PATCH", f"{path}/scale?fieldManager=two&force=1", scale, type=APPLY)
    assert (forced[0], forced[1]["spec"]) == (200, {"replicas": 5})
    _, live = await cluster.call("GET", path)
    owners = {entry["manager"]: entry for entry in live["metadata"]["managedFields"]}
    assert "f:replicas" not in owners["one"]["fieldsV1"]["f:spec"]
    assert owners["two"]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert (owners["two"]["subresource"], "time" in owners["two"]) == ("scale", False)


async def test_unchanged_scale_is_not_written(cluster: Any) -> None:
    await cluster.call("POST", f"{APPS}/deployments", DEPLOYMENT)
    path = f"{APPS}/deployments/d/scale"
    first = await cluster.patch(path, {"spec": {"replicas": 4}})
    again = await cluster.patch(path, {"spec": {"replicas": 4}})
    assert first == again


async def test_a_scale_names_itself_and_has_no_other_fields(cluster: Any) -> None:
    await cluster.call("POST", f"{APPS}/deployments", DEPLOYMENT)
    path = f"{APPS}/deployments/d/scale"
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1, "other": 2}}
    status, error = await cluster.call("PUT", path, body)
    assert (status, error["message"]) == (
        400,
        "the name of the object (d based on URL) was undeterminable: name must be provided",
    )
    body["metadata"] = {"name": "d", "namespace": "elsewhere"}
    assert (await cluster.call("PUT", path, body))[0] == 400
    body["metadata"] = {"name": "d"}
    status, error = await cluster.call("PUT", f"{path}?fieldValidation=Strict", body)
    assert (status, 'strict decoding error: unknown field "spec.other"' in error["message"]) == (400, True)
    assert (await cluster.call("PUT", path, body))[0] == 200
    patched = await cluster.patch(f"{path}?fieldValidation=Strict", {"spec": {"other": 1}})
    assert (patched[0], patched[1]["reason"]) == (422, "Invalid")
    for wrong in ({"kind": "Other"}, {"apiVersion": "v1"}, {"spec": 5}, {"spec": {"replicas": 1.5}}):
        assert (await cluster.patch(path, wrong))[0] == 422
    assert (await cluster.patch(path, {"metadata": {"namespace": "elsewhere"}}))[0] == 400
    assert (await cluster.call("PUT", path, {**body, "spec": "x"}))[0] == 400
    status, scale = await cluster.call("PUT", path, {**body, "spec": {"replicas": None}})
    assert (status, scale["spec"]) == (200, {})


async def test_applied_scale_without_replicas_keeps_them(cluster: Any) -> None:
    await cluster.call("POST", f"{APPS}/deployments", DEPLOYMENT)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {}}
    path = f"{APPS}/deployments/d/scale?fieldManager=two"
    status, applied = await cluster.call("PATCH", path, scale, type=APPLY)
    assert (status, applied["spec"]) == (200, {"replicas": 3})


async def test_scales_have_tables_and_metadata(cluster: Any) -> None:
    await cluster.call("POST", f"{APPS}/deployments", DEPLOYMENT)
    path = f"{APPS}/deployments/d/scale"
    header, rows = await cluster.table(path)
    assert header == ["Name", "Desired", "Available", "Age"]
    assert rows[0][:3] == ["d", 3, 0]
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    _, metadata = await cluster.call("GET", path, accept=partial)
    assert (metadata["kind"], "spec" in metadata) == ("PartialObjectMetadata", False)


async def test_deleted_object_has_a_new_resource_version(cluster: Any) -> None:
    made = await cluster.create(f"{NS}/services", "s", spec={"ports": [{"port": 80}]})
    _, gone = await cluster.call("DELETE", f"{NS}/services/s")
    assert int(gone["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert "deletionTimestamp" not in gone["metadata"]


async def test_scales_are_of_their_type(cluster: Any) -> None:
    await cluster.call("POST", f"{APPS}/deployments", DEPLOYMENT)
    path = f"{APPS}/deployments/d/scale"
    body = {"apiVersion": "apps/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 1}}
    assert (await cluster.call("PUT", path, body))[0] == 400
    assert (await cluster.patch(path, {"spec": {"replicas": "x"}}))[0] == 422
    body = {**body, "apiVersion": "autoscaling/v1", "spec": {"unknown": 1}}
    status, error = await cluster.call("PATCH", f"{path}?fieldManager=m", body, type=APPLY)
    assert status == 500
    assert error["message"].endswith(".spec.unknown: field not declared in schema")


async def test_a_proxy_needs_endpoints(cluster: Any) -> None:
    for name, expected in (
        ("x", 404),
        ("x:http", 404),
        ("https:x:443", 404),
        ("a:b:c:d", 400),
        ("ftp:x:1", 400),
    ):
        assert (await cluster.call("GET", f"{NS}/services/{name}/proxy"))[0] == expected
    await cluster.call(
        "POST", f"{NS}/services", {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}
    )
    _, response = await cluster.call("GET", f"{NS}/services/x:81/proxy")
    assert response["message"] == 'no service port 81 found for service "x"'
    assert (await cluster.call("GET", f"{NS}/services/x:80/proxy"))[0] == 404
    await cluster.call("POST", f"{NS}/endpoints", {"metadata": {"name": "x"}})
    assert (await cluster.call("GET", f"{NS}/services/x:80/proxy"))[0] == 503
    _, response = await cluster.call("GET", f"{NS}/pods/p:80/proxy")
    assert response["message"] == 'pods "p" not found'


async def test_fields_that_every_kind_can_be_selected_by(cluster: Any) -> None:
    for path in ("/api/v1/persistentvolumes", "/api/v1/componentstatuses"):
        for field in ("metadata.name", "metadata.namespace"):
            status, response = await cluster.call("GET", f"{path}?fieldSelector={field}=none")
            assert (status, response["items"]) == (200, [])
        status, response = await cluster.call("GET", f"{path}?fieldSelector=name=none")
        assert status == 400
        assert response["message"].startswith('"name" is not a known field selector')
    status, _ = await cluster.call("GET", "/api/v1/nodes?fieldSelector=metadata.namespace=none")
    assert status == 400


async def test_versions_that_kinds_are_stored_in(cluster: Any) -> None:
    found = {}
    for path in ("/api/v1", "/apis/events.k8s.io/v1", "/apis/apiextensions.k8s.io/v1"):
        _, document = await cluster.call("GET", path)
        assert ("apiVersion" in document) is (path != "/api/v1")
        found |= {entry["name"]: entry.get("storageVersionHash") for entry in document["resources"]}
    assert found["customresourcedefinitions"] == "jfWCUB31mvA="
    assert found["events"] == "r2yiGXH7wu8="
    assert found["componentstatuses"] is None


async def test_openapi_omits_unserved_kinds(cluster: Any) -> None:
    for path in ("nosuch", "nosuch/apps/v1", "apis/nosuch", "apis/apps/v9"):
        assert (await cluster.call("GET", f"/openapi/v3/{path}"))[0] == 404
