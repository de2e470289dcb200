"""Custom resource definitions from creation to deletion."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from kubewright.controlplane import ControlPlane
from kubewright.storage import open_storage
from kubewright.storage.memory import MemoryStorage

from .conftest import CRDS, Talk, condition, definition, widget

CRD = f"{CRDS}/widgets.example.com"


async def test_served_when_the_create_returns(talk, base):
    created = await talk.ok("POST", CRDS, definition())
    assert created["status"] == {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": None,
        "storedVersions": ["v1"],
    }
    await talk.ok("POST", base, widget("a"))
    resources = await talk.ok("GET", "/apis/example.com/v1")
    assert [entry["name"] for entry in resources["resources"]] == ["widgets"]
    live = await talk.ok("GET", CRD)
    assert live["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert condition(live, "Established")["reason"] == "InitialNamesAccepted"
    assert live["metadata"]["generation"] == 1
    managers = {entry["manager"]: entry.get("subresource") for entry in live["metadata"]["managedFields"]}
    assert managers["kube-apiserver"] == "status"


async def test_dry_run_serves_nothing(talk, base):
    await talk.ok("POST", f"{CRDS}?dryRun=All", definition())
    assert (await talk("GET", base))[0] == 404
    assert (await talk("GET", CRD))[0] == 404


async def test_each_metadata_error_is_reported_once(talk):
    nameless = {**definition(), "metadata": {}}
    status, failure = await talk("POST", CRDS, nameless)
    assert status == 422
    assert [cause["field"] for cause in failure["details"]["causes"]] == ["metadata.name"]
    labelled = definition()
    labelled["metadata"] = {"name": "others.example.com", "labels": {"a b": "c"}}
    status, failure = await talk("POST", CRDS, labelled)
    assert status == 422
    fields = sorted(cause["field"] for cause in failure["details"]["causes"])
    assert fields == ["metadata.labels", "metadata.name"]
    protected = definition(group="example.k8s.io")
    status, failure = await talk("POST", CRDS, protected)
    assert status == 422
    fields = [cause["field"] for cause in failure["details"]["causes"]]
    assert fields == ["metadata.annotations[api-approved.kubernetes.io]"]


@pytest.mark.parametrize(("kind", "api_version"), [("Pod", "v1"), ("Other", "apiextensions.k8s.io/v1")])
async def test_other_kinds_are_unknown_in_apiextensions(talk, kind, api_version):
    body = {**definition(), "kind": kind, "apiVersion": api_version}
    status, failure = await talk("POST", CRDS, body)
    assert status == 400
    message = failure["message"]
    assert f'no kind "{kind}" is registered for version "{api_version}" in scheme' in message
    assert "apiextensions-apiserver" in message


async def test_conflicting_names_are_accepted_for_the_first_definition(talk):
    await talk.ok("POST", CRDS, definition(names={"shortNames": ["wd"]}))
    other = definition(names={"plural": "others", "shortNames": ["wd", "ot"]})
    await talk.ok("POST", CRDS, other)
    waiting = await talk.ok("GET", f"{CRDS}/others.example.com")
    assert waiting["status"]["acceptedNames"] == {"kind": "", "plural": "others"}
    assert condition(waiting, "NamesAccepted")["reason"] == "ListKindConflict"
    assert condition(waiting, "Established")["reason"] == "NotAccepted"
    assert (await talk("GET", "/apis/example.com/v1/others"))[0] == 404
    await talk.ok("DELETE", CRD)
    accepted = await talk.until(
        f"{CRDS}/others.example.com",
        lambda _, crd: (condition(crd, "Established") or {}).get("status") == "True",
    )
    assert accepted["status"]["acceptedNames"]["shortNames"] == ["wd", "ot"]
    await talk.ok("GET", "/apis/example.com/v1/others")


async def test_released_name_is_accepted_for_another_definition(talk):
    await talk.ok("POST", CRDS, definition(names={"shortNames": ["wd"]}))
    await talk.ok("POST", CRDS, definition(kind="Gadget", names={"shortNames": ["wd"]}))
    gadgets = f"{CRDS}/gadgets.example.com"
    assert condition(await talk.ok("GET", gadgets), "NamesAccepted")["reason"] == "ShortNamesConflict"
    await talk.ok("PATCH", CRD, {"spec": {"names": {"shortNames": ["w"]}}})
    live = await talk.ok("GET", gadgets)
    assert condition(live, "NamesAccepted")["reason"] == "NoConflicts"
    assert live["status"]["acceptedNames"]["shortNames"] == ["wd"]


async def test_later_name_conflict_keeps_the_resource_served(talk, base):
    await talk.ok("POST", CRDS, definition(names={"shortNames": ["wd"]}))
    await talk.ok("POST", CRDS, definition(kind="Gadget", names={"shortNames": ["gd"]}))
    await talk.ok("PATCH", CRD, {"spec": {"names": {"shortNames": ["gd"]}}})
    live = await talk.ok("GET", CRD)
    assert condition(live, "NamesAccepted")["message"] == '"gd" is already in use'
    assert condition(live, "Established")["status"] == "True"
    await talk.ok("GET", base)
    listed = await talk.ok("GET", "/apis/example.com/v1")
    assert {entry["name"]: entry["shortNames"] for entry in listed["resources"]}["widgets"] == ["wd"]


async def test_approval_condition_of_protected_groups(talk):
    crd = definition("x.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await talk.ok("POST", CRDS, crd)
    live = await talk.ok("GET", f"{CRDS}/widgets.x.k8s.io")
    found = condition(live, "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == ("False", "UnapprovedAnnotation")
    annotation = {"api-approved.kubernetes.io": "https://example.com/approval"}
    await talk.ok("PATCH", f"{CRDS}/widgets.x.k8s.io", {"metadata": {"annotations": annotation}})
    live = await talk.ok("GET", f"{CRDS}/widgets.x.k8s.io")
    assert condition(live, "KubernetesAPIApprovalPolicyConformant")["reason"] == "ApprovedAnnotation"


async def test_definition_with_invalid_ca_bundle_is_not_served(talk, base):
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "bm90IGEgY2VydGlmaWNhdGU="},
    }
    crd = definition(conversion={"strategy": "Webhook", "webhook": webhook})
    status, response = await talk("POST", CRDS, crd)
    if status == 201:
        live = await talk.ok("GET", CRD)
        assert condition(live, "Established")["reason"] == "InvalidCABundle"
    else:
        assert "caBundle" in response["message"]


async def test_built_in_resources_take_precedence_over_definitions(talk):
    crd = definition("networking.k8s.io", "Ingress", names={"plural": "ingresses"})
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await talk.ok("POST", CRDS, crd)
    listed = await talk.ok("GET", "/apis/networking.k8s.io/v1/ingresses")
    assert listed["kind"] == "IngressList"
    resources = await talk.ok("GET", "/apis/networking.k8s.io/v1")
    assert "ingresses/status" in [entry["name"] for entry in resources["resources"]]
    await talk.ok("DELETE", f"{CRDS}/ingresses.networking.k8s.io")
    await talk.until(f"{CRDS}/ingresses.networking.k8s.io", lambda status, _: status == 404)
    await talk.ok("GET", "/apis/networking.k8s.io/v1/ingresses")


async def test_deletion_waits_for_instances_with_finalizers(talk, base):
    await talk.ok("POST", CRDS, definition())
    await talk.ok("POST", base, widget("free"))
    await talk.ok("POST", base, widget("held", metadata={"finalizers": ["example.com/x"]}))
    deleted = await talk.ok("DELETE", CRD)
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert deleted["metadata"]["generation"] == 1
    assert condition(deleted, "Terminating")["reason"] == "InstanceDeletionPending"
    await talk.until(base, lambda _, found: len(found["items"]) == 1)
    status, response = await talk("POST", base, widget("new"))
    assert (status, response["reason"]) == (403, "Forbidden")
    assert "create not allowed while custom resource definition is terminating" in response["message"]
    resources = await talk.ok("GET", "/apis/example.com/v1")
    assert resources["resources"][0]["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
    again = await talk.ok("DELETE", CRD)
    assert "deletionTimestamp" in again["metadata"]
    await talk.ok("PATCH", CRD, {"spec": {"names": {"shortNames": ["changed"]}}})
    await talk.ok("PATCH", f"{base}/held", {"metadata": {"finalizers": None}})
    await talk.until(CRD, lambda status, _: status == 404)
    assert (await talk("GET", base))[0] == 404
    assert (await talk("GET", "/apis/example.com"))[0] == 404


async def test_watch_receives_deletions_of_instances(talk, base):
    await talk.ok("POST", CRDS, definition())
    for number in range(3):
        await talk.ok("POST", base, widget(f"w{number}"))
    stream = (await talk.send("GET", f"{base}?watch=1")).stream
    await talk.ok("DELETE", CRD)
    async with asyncio.timeout(60):
        events = [json.loads(line) async for chunk in stream for line in chunk.splitlines()]
    assert [event["type"] for event in events] == ["ADDED"] * 3 + ["DELETED"] * 3


@pytest.mark.parametrize(
    ("path", "resource"),
    [(CRD, "customresourcedefinitions.apiextensions.k8s.io"), ("/api/v1/namespaces/default", "namespaces")],
)
async def test_deletion_checks_preconditions(talk, path, resource):
    await talk.ok("POST", CRDS, definition())
    live = await talk.ok("GET", path)
    for what, field in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        status, response = await talk(
            "DELETE", path, {"kind": "DeleteOptions", "preconditions": {field: "0"}}
        )
        assert status == 409
        assert response["message"] == (
            f'Operation cannot be fulfilled on {resource} "{live["metadata"]["name"]}": Precondition failed: '
            f"{what} in precondition: 0, {what} in object meta: {live['metadata'][field]}"
        )


async def test_recreated_definition_has_no_old_instances(talk, base):
    await talk.ok("POST", CRDS, definition())
    for number in range(3):
        await talk.ok("POST", base, widget(f"w{number}"))
    await talk.ok("DELETE", CRD)
    await talk.until(CRD, lambda status, _: status == 404)
    await talk.ok("POST", CRDS, definition())
    assert (await talk.ok("GET", base))["items"] == []


async def test_restart_serves_stored_definitions(base):
    storage = MemoryStorage()
    settings = {"port": None, "controllers": False, "disable_admission_plugins": ["ServiceAccount"]}
    async with ControlPlane(store=storage, **settings) as plane:
        talk = Talk(plane)
        await talk.ok("POST", CRDS, definition())
        await talk.ok("POST", base, widget("a"))
        await talk.ok("POST", base, widget("held", metadata={"finalizers": ["example.com/x"]}))
        await talk.ok("DELETE", CRD)
        await talk.until(base, lambda _, found: len(found["items"]) == 1)
    async with ControlPlane(store=storage, **settings) as plane:
        talk = Talk(plane)
        assert (await talk("POST", base, widget("new")))[0] == 403
        await talk.ok("PATCH", f"{base}/held", {"metadata": {"finalizers": None}})
        await talk.until(CRD, lambda status, _: status == 404)


async def test_definitions_stored_by_another_server_are_served(talk, plane, base):
    """Two servers on one storage."""
    store = plane.definitions.store
    await talk.ok("POST", CRDS, definition(kind="Gadget"))
    gadget = json.loads((await store.storage.get(store.key("", "gadgets.example.com"))).value)
    text = json.dumps(gadget).replace("gadget", "widget").replace("Gadget", "Widget")
    raw = json.loads(text)
    raw["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    revision = await store.storage.create(store.key("", "widgets.example.com"), json.dumps(raw).encode())
    await talk.until(base, lambda status, _: status == 200)
    await store.storage.delete(store.key("", "widgets.example.com"), expected=revision)
    await talk.until(base, lambda status, _: status == 404)


async def test_instances_are_deleted_without_admission(talk, base, hooks):
    await talk.ok("POST", CRDS, definition())
    await talk.ok("POST", base, widget("a"))
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [
            {
                "name": "gone.example.com",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "apiGroups": ["example.com"],
                        "apiVersions": ["*"],
                        "operations": ["DELETE"],
                        "resources": ["*"],
                    }
                ],
            }
        ],
    }
    await talk.ok(
        "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration
    )
    assert (await talk("DELETE", f"{base}/a"))[0] == 500
    await talk.ok("DELETE", CRD)
    await talk.until(CRD, lambda status, _: status == 404)


@pytest.mark.parametrize("count", [30])
async def test_many_definitions_concurrently(talk, count):
    crds = [definition(f"g{number}.example.com") for number in range(count)]
    responses = await asyncio.gather(*(talk("POST", CRDS, crd) for crd in crds))
    assert {status for status, _ in responses} == {201}
    for crd in crds:
        listed = await talk.ok("GET", f"/apis/{crd['spec']['group']}/v1/widgets")
        assert listed["items"] == []


async def test_conflicting_names_concurrently(talk):
    crds = [definition(names={"plural": f"p{number}", "kind": "Same"}) for number in range(8)]
    await asyncio.gather(*(talk.ok("POST", CRDS, crd) for crd in crds))
    listed = await talk.ok("GET", CRDS)
    accepted = [crd for crd in listed["items"] if condition(crd, "Established")["status"] == "True"]
    assert len(accepted) == 1


async def test_any_number_of_definitions_can_wait_for_their_names(tmp_path: Path) -> None:
    """Definitions that another server has stored are reviewed one after the other, not recursively."""
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with ControlPlane(store=store, controllers=False) as plane:
        await Talk(plane).ok("POST", CRDS, definition())
        template = json.loads((await plane.store.list("/registry/apiextensions.k8s.io/")).items[0].value)
    count = sys.getrecursionlimit() // 2 + 50
    async with open_storage(store) as storage:
        for number in range(count):
            names = {"plural": f"w{number}s", "kind": f"W{number}", "singular": f"w{number}"}
            crd = {**template, "spec": {**template["spec"], "names": {**names, "listKind": f"W{number}List"}}}
            crd["metadata"] = {**template["metadata"], "name": f"w{number}s.example.com", "uid": str(number)}
            crd["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "conditions": []}
            key = f"/registry/apiextensions.k8s.io/customresourcedefinitions/w{number}s.example.com"
            await storage.create(key, json.dumps(crd).encode())
    async with ControlPlane(store=store, controllers=False) as plane:
        served = [each for each in plane.server.stores if each.resource.group == "example.com"]
        assert len(served) == count + 1
