"""Invalid patches and apply configurations of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM

NS = "/api/v1/namespaces/ns"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"data": {"a": 5}}, "cannot convert int64 to string"),
        ({"data": {"a": True}}, "unrecognized type: string"),
        ({"data": [1]}, "cannot restore map from slice"),
        ({"immutable": "x"}, "unrecognized type: bool"),
        ({"metadata": {"labels": {"a": 5}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": "x"}}, "cannot restore map from string"),
    ],
)
async def test_a_strategic_patch_of_the_wrong_type(cluster: Any, patch: Any, problem: str) -> None:
    await cluster.create(f"{NS}/configmaps", "a", data={"a": "1"})
    status, error = await cluster.call("PATCH", f"{NS}/configmaps/a", patch, type=STRATEGIC)
    assert (status, error["details"]["causes"][0]["field"]) == (422, "patch")
    assert error["message"].endswith(problem)


async def test_an_applied_value_that_fits_the_schema_but_not_the_type(cluster: Any) -> None:
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "no base64!"}}
    status, error = await cluster.call("PATCH", f"{NS}/secrets/s?fieldManager=m", config, type=APPLY)
    assert (status, error["message"]) == (
        500,
        "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert "
        "unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input "
        "byte 2",
    )


@pytest.mark.parametrize("kind", [STRATEGIC, JSON_PATCH])
async def test_a_null_patch_changes_nothing(cluster: Any, kind: str) -> None:
    made = await cluster.create(f"{NS}/configmaps", "a", data={"a": "1"})
    response = await cluster.server.handle(
        HTTPRequest("PATCH", f"{NS}/configmaps/a", headers={"Content-Type": kind}, body=b"null", user=SYSTEM)
    )
    assert response.status == 200
    assert made["metadata"]["resourceVersion"].encode() in response.body


async def test_unknown_fields_are_ignored_on_request(cluster: Any) -> None:
    await cluster.create(f"{NS}/configmaps", "a")
    await cluster.call("PATCH", f"{NS}/configmaps/a?fieldValidation=Ignore", {"foo": 1}, type=STRATEGIC)
    assert cluster.warnings == []
    await cluster.call("PATCH", f"{NS}/configmaps/a", {"foo": 1}, type=STRATEGIC)
    assert cluster.warnings == ['unknown field "foo"']


async def test_empty_managed_fields_reset_ownership(cluster: Any) -> None:
    await cluster.create(f"{NS}/configmaps", "a", data={"a": "1"})
    body = {"metadata": {"name": "a", "managedFields": []}, "data": {"a": "2"}}
    status, written = await cluster.call("PUT", f"{NS}/configmaps/a", body)
    assert status == 200
    assert "managedFields" not in written["metadata"]


@pytest.mark.parametrize(
    ("entry", "field", "text"),
    [
        ({"manager": "q\n"}, "manager", "invalid character U+000A (at position 1)"),
        ({"manager": "m" * 129}, "manager", "Too long: may not be more than 128 bytes"),
        ({"manager": "q", "subresource": "s" * 257}, "subresource", "Too long"),
    ],
)
async def test_manager_names_must_be_printable(cluster: Any, entry: Any, field: str, text: str) -> None:
    await cluster.create(f"{NS}/configmaps", "a", data={"a": "1"})
    owner = {
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
        **entry,
    }
    status, error = await cluster.call(
        "PATCH", f"{NS}/configmaps/a", {"metadata": {"managedFields": [owner]}}, type=MERGE
    )
    assert status == 422
    assert f"metadata.managedFields[0].{field}: " in error["message"]
    assert text in error["message"]


async def test_duplicate_fields_are_merged(cluster: Any) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"1","b":"2"},"data":{"b":"3","c":"4"}}'
    request = HTTPRequest("POST", f"{NS}/configmaps", headers={}, body=body, user=SYSTEM)
    assert (await cluster.server.handle(request)).status == 201
    assert list(request.warnings) == ['duplicate field "data"']
    _, made = await cluster.call("GET", f"{NS}/configmaps/a")
    assert made["data"] == {"a": "1", "b": "3", "c": "4"}


async def test_invalid_metadata_is_reported_by_every_rule(cluster: Any) -> None:
    await cluster.create(f"{NS}/secrets", "s")
    await cluster.create(
        f"{NS}/podtemplates", "t", template={"spec": {"containers": [{"name": "c", "image": "i"}]}}
    )
    for path, times in ((f"{NS}/secrets/s", 4), (f"{NS}/podtemplates/t", 3)):
        status, error = await cluster.call("PATCH", path, {"metadata": {"labels": {"a b": "c"}}}, type=MERGE)
        assert status == 422
        assert (
            len([cause for cause in error["details"]["causes"] if cause["field"] == "metadata.labels"])
            == times
        )
        assert error["message"].count("a b") == 1


@pytest.mark.parametrize("kind", [STRATEGIC, APPLY])
async def test_integers_may_be_written_as_floats(cluster: Any, kind: str) -> None:
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    path = "/apis/apps/v1/namespaces/ns/deployments"
    await cluster.create(path, "d", spec=spec)
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2.0},
    }
    query = "?fieldManager=m&force=true" if kind == APPLY else ""
    status, made = await cluster.call("PATCH", f"{path}/d{query}", body, type=kind)
    assert (status, made["spec"]["replicas"]) == (200, 2)
    status, error = await cluster.call("PATCH", f"{path}/d", {"spec": {"replicas": 2.0}}, type=MERGE)
    assert status == 422
    shown = error["details"]["causes"][0]["message"]
    order = (
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "restartPolicy",
        "dnsPolicy",
    )
    places = [shown.rindex(f'\\"{name}\\"') for name in order]
    assert places == sorted(places)


async def test_references_are_owned_as_a_whole(cluster: Any) -> None:
    made = await cluster.create(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings",
        "r",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    )
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:roleRef": {}}


async def test_the_template_generation_of_a_daemon_set_is_owned_by_its_writer(cluster: Any) -> None:
    made = await cluster.create(
        "/apis/apps/v1/namespaces/ns/daemonsets",
        "d",
        spec={
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    )
    key = "deprecated.daemonset.template.generation"
    assert made["metadata"]["annotations"] == {key: "1"}
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]
    assert owned["f:metadata"] == {"f:annotations": {".": {}, f"f:{key}": {}}}


async def test_the_default_metric_is_owned_by_its_writer(cluster: Any) -> None:
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    made = await cluster.create(
        "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers",
        "h",
        spec={"maxReplicas": 3, "scaleTargetRef": target},
    )
    assert made["spec"]["targetCPUUtilizationPercentage"] == 80
    assert "f:targetCPUUtilizationPercentage" in made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
