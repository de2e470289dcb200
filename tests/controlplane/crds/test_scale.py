"""Scale subresource of custom resources: validation and field managers of the replicas."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import CRDS, definition, widget

APPLY = "application/apply-patch+yaml"
SCALE: dict[str, Any] = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}


@pytest.fixture
async def scaled(talk: Any, base: str) -> str:
    fields = {"replicas": {"type": "integer", "minimum": 0}, "size": {"type": "string"}}
    spec = {"type": "object", "properties": fields}
    crd = definition(schema={"type": "object", "properties": {"spec": spec}})
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    crd["spec"]["versions"][0]["subresources"] = {"scale": paths}
    await talk.ok("POST", CRDS, crd)
    return base


def scale(replicas: Any, **more: Any) -> dict[str, Any]:
    return {**SCALE, "spec": {"replicas": replicas}, **more}


async def owners(talk: Any, path: str) -> set[tuple[str, str, bool]]:
    live = await talk.ok("GET", path)
    return {
        (entry["manager"], entry.get("subresource", ""), "f:replicas" in entry["fieldsV1"]["f:spec"])
        for entry in live["metadata"]["managedFields"]
    }


@pytest.mark.parametrize(
    "body",
    [
        scale("x"),
        scale(1.5),
        scale(1 << 40),
        scale(1, kind="Widget"),
        scale(1, apiVersion="apps/v1"),
        [],
    ],
)
async def test_other_kinds_than_scale_are_rejected(talk: Any, scaled: str, body: Any) -> None:
    await talk.ok("POST", scaled, widget("a"))
    status, error = await talk("PUT", f"{scaled}/a/scale", body)
    assert (status, error["reason"]) == (400, "BadRequest")
    assert error["message"].startswith("no kind is registered for the type v1.Scale in scheme ")


async def test_negative_replicas_are_rejected_by_schema_and_scale(talk: Any, scaled: str) -> None:
    await talk.ok("POST", scaled, widget("a"))
    status, error = await talk("PUT", f"{scaled}/a/scale", scale(-1))
    assert status == 422
    assert [cause["field"] for cause in error["details"]["causes"]] == ["spec.replicas", ".spec.replicas"]


async def test_unmanaged_replicas_get_no_manager(talk: Any, scaled: str) -> None:
    await talk.ok("POST", f"{scaled}?fieldManager=maker", widget("a", spec={"size": "s"}))
    await talk.ok("PUT", f"{scaled}/a/scale?fieldManager=scaler", scale(3))
    assert await owners(talk, f"{scaled}/a") == {("maker", "", False)}


async def test_managed_replicas_are_transferred_to_the_writer(talk: Any, scaled: str) -> None:
    body = widget("a", spec={"size": "s", "replicas": 2})
    await talk.ok("POST", f"{scaled}?fieldManager=maker", body)
    await talk.ok("PUT", f"{scaled}/a/scale?fieldManager=scaler", scale(3))
    assert await owners(talk, f"{scaled}/a") == {("maker", "", False), ("scaler", "scale", True)}


async def test_applying_a_scale_changes_nothing(talk: Any, scaled: str) -> None:
    """As in Kubernetes, which cannot convert a Scale to the versions of a custom resource."""
    body = widget("a", spec={"size": "s", "replicas": 2})
    await talk.ok("POST", f"{scaled}?fieldManager=maker", body)
    path = f"{scaled}/a/scale?fieldManager=two"
    await talk.ok("PATCH", path, scale(2), Content_Type=APPLY)
    status, error = await talk("PATCH", f"{path}&force=true", scale(3), Content_Type=APPLY)
    assert status == 500
    assert error["message"].startswith("failed to convert new object (")
    await talk.ok("POST", scaled, widget("b", spec={"size": "s"}))
    named = {**scale(3), "metadata": {"name": "b"}}
    status, error = await talk("PATCH", f"{scaled}/b/scale?fieldManager=two", named, Content_Type=APPLY)
    assert status == 500
    assert error["message"].startswith("failed to create manager for existing fields: ")


async def test_metadata_list_of_a_scale_is_not_acceptable(talk: Any, scaled: str) -> None:
    await talk.ok("POST", scaled, widget("a", spec={"replicas": 2}))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    status, error = await talk("GET", f"{scaled}/a/scale", Accept=accept)
    assert (status, error["reason"]) == (406, "NotAcceptable")
