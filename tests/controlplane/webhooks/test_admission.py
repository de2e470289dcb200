"""Admission webhooks: matching, requests, and effects of responses."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode

import pytest
from aiohttp import web

from kubewright.apiserver import User
from kubewright.apiserver.tracing.context import SpanContext, current
from kubewright.controlplane import ControlPlane
from kubewright.testing.time import fake_time

from .conftest import CRDS, Talk, definition, serve_hooks, widget

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def config_map(name, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


async def register(talk, hooks, kind, *webhooks, name="hooks"):
    made = [
        {
            "name": f"{path}.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": hooks.config(path),
            "rules": [RULE],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 30,
            **settings,
        }
        for path, settings in webhooks
    ]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": made,
    }
    await talk.ok("POST", f"{ADMISSION}/{kind.lower()}webhookconfigurations", body)


def reply(review, **response):
    inside = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": inside}


def patching(*operations):
    text = b64encode(json.dumps(operations).encode()).decode()
    return lambda review: reply(review, patch=text, patchType="JSONPatch")


def label(key, value="yes"):
    return patching({"op": "add", "path": f"/metadata/labels/{key}", "value": value})


async def test_configurations_apply_immediately(talk, hooks, plane):
    hooks.handlers["deny"] = lambda review: reply(review, allowed=False)
    await register(talk, hooks, "Validating", ("deny", {}))
    status, response = await talk("POST", MAPS, config_map("a"))
    text = 'admission webhook "deny.example.com" denied the request without explanation'
    assert (status, response["message"]) == (400, text)
    counted = {family.name: family.samples for family in plane.server.metrics.admission.collect()}
    (rejection,) = counted["apiserver_admission_webhook_rejection_count"]
    assert rejection.value == 1
    assert rejection.labels == {
        "error_type": "no_error",
        "name": "deny.example.com",
        "operation": "CREATE",
        "rejection_code": "400",
        "type": "validating",
    }
    await talk.ok("DELETE", f"{ADMISSION}/validatingwebhookconfigurations/hooks")
    await talk.ok("POST", MAPS, config_map("a"))


async def test_admission_request_fields(talk, hooks, plane):
    hooks.handlers["see"] = reply
    await register(talk, hooks, "Validating", ("see", {}))
    jane = Talk(plane, User("jane", ("system:masters",), "u1", {"k": ("v",)}))
    await jane.ok("POST", f"{MAPS}?dryRun=All&fieldManager=me", config_map("a"))
    asked = hooks.requests("see")[0]
    asked.pop("uid")
    obj = asked.pop("object")
    assert obj["metadata"]["name"] == "a"
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "uid": "u1", "groups": ["system:masters"], "extra": {"k": ["v"]}},
        "oldObject": None,
        "dryRun": True,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "dryRun": ["All"],
            "fieldManager": "me",
        },
    }
    assert hooks.paths == ["/see?timeout=30s"]


async def test_requests_of_patches_and_deletions(talk, hooks):
    await talk.ok("POST", MAPS, config_map("a"))
    hooks.handlers["see"] = reply
    await register(talk, hooks, "Validating", ("see", {}))
    await talk.ok("PATCH", f"{MAPS}/a", {"data": {"k": "v"}})
    await talk.ok("DELETE", f"{MAPS}/a")
    update, delete = hooks.requests("see")
    assert (update["operation"], update["options"]["kind"]) == ("UPDATE", "UpdateOptions")
    assert update["object"]["data"] == {"k": "v"}
    assert "data" not in update["oldObject"]
    assert (delete["operation"], delete["options"]["kind"]) == ("DELETE", "DeleteOptions")
    assert delete["object"] is None
    assert delete["oldObject"]["data"] == {"k": "v"}


async def test_mutating_webhooks_run_in_order_and_again(talk, hooks):
    hooks.handlers.update(first=label("first"), second=label("second"), third=label("third"))
    await register(talk, hooks, "Mutating", ("third", {}), name="z")
    await register(
        talk, hooks, "Mutating", ("first", {"reinvocationPolicy": "IfNeeded"}), ("second", {}), name="a"
    )
    made = await talk.ok("POST", MAPS, config_map("m", labels={"x": "y"}))
    assert made["metadata"]["labels"] == {"x": "y", "first": "yes", "second": "yes", "third": "yes"}
    assert [name for name, _ in hooks.asked] == ["first", "second", "third", "first"]
    seen = [question["object"]["metadata"]["labels"] for question in hooks.requests("first")]
    assert [sorted(labels) for labels in seen] == [["x"], ["first", "second", "third", "x"]]


async def test_webhooks_are_not_reinvoked_without_a_change(talk, hooks):
    hooks.handlers.update(first=label("first"), second=reply)
    await register(talk, hooks, "Mutating", ("first", {"reinvocationPolicy": "IfNeeded"}), ("second", {}))
    await talk.ok("POST", MAPS, config_map("m", labels={"x": "y"}))
    assert [name for name, _ in hooks.asked] == ["first", "second"]


async def test_rejections_have_code_reason_and_details(talk, hooks):
    status = {"code": 409, "reason": "Conflict", "message": "no", "details": {"name": "x"}}
    hooks.handlers["deny"] = lambda review: reply(review, allowed=False, status=status, warnings=["w"])
    await register(talk, hooks, "Mutating", ("deny", {}))
    response = await talk.send("POST", MAPS, config_map("a"))
    status = json.loads(response.body)
    assert (response.status, status["reason"], status["details"]) == (409, "Conflict", {"name": "x"})
    assert status["message"] == 'admission webhook "deny.example.com" denied the request: no'
    assert response.headers["Warning"] == ['299 - "w"']


@pytest.mark.parametrize(
    ("corrupt", "text"),
    [
        (lambda review: {**reply(review), "kind": "Other"}, 'no kind "Other" is registered for version'),
        (lambda review: {"response": reply(review)["response"]}, "expected webhook response of"),
        (lambda review: reply(review, allowed="yes"), "response.allowed of type bool"),
        (lambda review: reply(review, warnings=[1]), "response.warnings of type string"),
        (lambda review: {**reply(review), "response": 5}, "AdmissionReview.response of type"),
        (lambda review: web.Response(body=b""), "0-length response with status code: 200"),
        (lambda review: reply(review, uid="x"), "expected response.uid="),
        (lambda review: {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}, "was absent"),
        (lambda review: reply(review, patch="W10="), "response.patch but not response.patchType"),
        (lambda review: reply(review, patchType="JSONPatch"), "response.patchType but not response.patch"),
        (lambda review: reply(review, patch="e30=", patchType="JSONPatch"), "undecodable patch"),
        (lambda review: web.Response(status=500, text="boom"), 'an error on the server ("boom")'),
        (lambda review: web.Response(status=302), "status code 302"),
        (lambda review: web.Response(text="[1"), "couldn't get version/kind"),
        (
            lambda review: web.json_response(
                {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "busy"}, status=503
            ),
            "failed to call webhook: busy",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_invalid_responses(talk, hooks, corrupt, text, policy):
    hooks.handlers["bad"] = corrupt
    await register(talk, hooks, "Mutating", ("bad", {"failurePolicy": policy}))
    status, response = await talk("POST", MAPS, config_map("a"))
    if policy == "Ignore":
        assert status == 201
    else:
        assert (status, response["reason"]) == (500, "InternalError")
        assert response["message"].startswith(
            'Internal error occurred: failed calling webhook "bad.example.com": '
        )
        assert text in response["message"]


async def test_validating_webhook_must_not_patch(talk, hooks):
    hooks.handlers["see"] = patching({"op": "add", "path": "/data", "value": {}})
    await register(talk, hooks, "Validating", ("see", {}))
    status, response = await talk("POST", MAPS, config_map("a"))
    assert status == 500
    assert "validating webhook may not return response.patch" in response["message"]


async def test_v1beta1_reviews_are_less_strict(talk, hooks):
    text = b64encode(b'[{"op":"add","path":"/data","value":{"k":"v"}}]').decode()
    hooks.handlers["old"] = lambda review: {"response": {"allowed": True, "patch": text}}
    await register(talk, hooks, "Mutating", ("old", {"admissionReviewVersions": ["v9", "v1beta1"]}))
    assert (await talk.ok("POST", MAPS, config_map("a")))["data"] == {"k": "v"}
    assert hooks.asked[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"


async def test_a_patch_that_does_not_apply(talk, hooks):
    hooks.handlers["bad"] = patching({"op": "remove", "path": "/nosuch/path"})
    await register(talk, hooks, "Mutating", ("bad", {"failurePolicy": "Ignore"}))
    status, response = await talk("POST", MAPS, config_map("a"))
    assert (status, response["reason"]) == (500, "InternalError")
    assert "remove operation does not apply" in response["message"]


async def test_patched_objects_are_decoded_like_requests(talk, hooks, base):
    size = {"type": "integer", "default": 3}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}
    await talk.ok("POST", CRDS, definition(schema=schema))
    hooks.handlers["patch"] = patching({"op": "add", "path": "/spec", "value": {"unknown": 1}})
    rule = {**RULE, "apiGroups": ["example.com"], "resources": ["widgets"]}
    await register(talk, hooks, "Mutating", ("patch", {"rules": [rule]}))
    assert (await talk.ok("POST", base, widget("a")))["spec"] == {"size": 3}
    hooks.handlers["patch"] = patching({"op": "add", "path": "/spec", "value": {"size": "x"}})
    assert (await talk("POST", base, widget("b")))[0] == 422


async def test_rules(talk, hooks):
    hooks.handlers.update(status=reply, cluster=reply, spaced=reply, star=reply)
    await register(
        talk,
        hooks,
        "Validating",
        ("status", {"rules": [{**RULE, "resources": ["*/status"]}]}),
        ("cluster", {"rules": [{**RULE, "resources": ["*"], "scope": "Cluster"}]}),
        (
            "spaced",
            {"rules": [{**RULE, "resources": ["*"], "scope": "Namespaced", "operations": ["CREATE"]}]},
        ),
        ("star", {"rules": [{**RULE, "resources": ["*/*"], "apiGroups": ["*"], "apiVersions": ["*"]}]}),
    )
    await talk.ok("POST", MAPS, config_map("a"))
    assert sorted(name for name, _ in hooks.asked) == ["spaced", "star"]
    hooks.asked.clear()
    await talk.ok("DELETE", f"{MAPS}/a")
    assert [name for name, _ in hooks.asked] == ["star"]
    hooks.asked.clear()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    await talk.ok("POST", "/api/v1/namespaces", namespace)
    assert sorted(name for name, _ in hooks.asked) == ["cluster", "star"]
    assert hooks.requests("star")[0]["namespace"] == "new"
    hooks.asked.clear()
    await talk.ok("PATCH", "/api/v1/namespaces/new/status", {"status": {"phase": "Active"}})
    assert sorted({name for name, _ in hooks.asked}) == ["star", "status"]


async def test_selectors(talk, hooks):
    await talk.ok("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"team": "a"}}})
    hooks.handlers.update(spaces=reply, objects=reply)
    await register(
        talk,
        hooks,
        "Validating",
        ("spaces", {"namespaceSelector": {"matchLabels": {"team": "b"}}}),
        ("objects", {"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}),
    )
    await talk.ok("POST", MAPS, config_map("a"))
    assert hooks.asked == []
    await talk.ok("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}})
    await talk.ok("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"x": None}}})
    assert [name for name, _ in hooks.asked] == ["objects", "objects"]
    await talk.ok("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"team": "b"}}})
    await talk.ok("PATCH", f"{MAPS}/a", {"data": {"k": "v"}})
    assert hooks.asked[-1][0] == "spaces"


async def test_match_conditions(talk, hooks):
    hooks.handlers["see"] = reply
    conditions = [
        {"name": "user", "expression": "request.userInfo.username != 'jane'"},
        {"name": "data", "expression": "object.data.k == 'v'"},
    ]
    await register(talk, hooks, "Validating", ("see", {"matchConditions": conditions}))
    await talk.ok("POST", MAPS, {**config_map("a"), "data": {"k": "other"}})
    assert hooks.asked == []
    await talk.ok("POST", MAPS, {**config_map("b"), "data": {"k": "v"}})
    assert len(hooks.asked) == 1
    status, response = await talk("POST", MAPS, config_map("c"))
    assert (status, response["reason"]) == (403, "Forbidden")
    assert "expression 'object.data.k == 'v'' resulted in error: no such key: data" in response["message"]


async def test_authorizer_in_match_conditions(talk, hooks):
    hooks.handlers["see"] = reply
    allowed = "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"
    conditions = [{"name": "may", "expression": f"!{allowed}"}]
    await register(talk, hooks, "Validating", ("see", {"matchConditions": conditions}))
    await talk.ok("POST", MAPS, config_map("a"))
    assert hooks.asked == []


async def test_equivalent_versions_are_converted(talk, hooks, base):
    crd = definition()
    first = crd["spec"]["versions"][0]
    crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False}]
    await talk.ok("POST", CRDS, crd)
    rule = {**RULE, "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]}
    hooks.handlers["patch"] = patching({"op": "add", "path": "/spec", "value": {"seen": True}})
    hooks.handlers["exact"] = reply
    await register(
        talk,
        hooks,
        "Mutating",
        ("patch", {"rules": [rule]}),
        ("exact", {"rules": [rule], "matchPolicy": "Exact"}),
    )
    made = await talk.ok("POST", base, widget("a"))
    assert (made["apiVersion"], made["spec"]) == ("example.com/v1", {"seen": True})
    (asked,) = hooks.requests("patch")
    assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v2", "v1")
    assert (asked["object"]["apiVersion"], asked["resource"]["version"]) == ("example.com/v2", "v2")
    assert hooks.requests("exact") == []


async def test_the_configuration_of_admission_is_exempt(talk, hooks):
    hooks.handlers["deny"] = lambda review: reply(review, allowed=False)
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    await register(talk, hooks, "Validating", ("deny", {"rules": [rule]}))
    assert (await talk("POST", MAPS, config_map("a")))[0] == 400
    await talk.ok("DELETE", f"{ADMISSION}/validatingwebhookconfigurations/hooks")


async def test_validating_webhooks_run_concurrently(talk, hooks):
    everybody = asyncio.Event()

    async def meet(review):
        if len(hooks.asked) == 3:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), 60)
        return reply(review)

    hooks.handlers.update(a=meet, b=meet, c=meet)
    await register(talk, hooks, "Validating", ("a", {}), ("b", {}), ("c", {}))
    await talk.ok("POST", MAPS, config_map("m"))


async def never(review):
    await asyncio.Event().wait()


def test_timeouts():
    async def main():
        async with ControlPlane(port=None, controllers=False) as plane, serve_hooks() as hooks:
            talk = Talk(plane)
            hooks.handlers["slow"] = never
            await register(talk, hooks, "Validating", ("slow", {"timeoutSeconds": 1}))
            status, response = await talk("POST", MAPS, config_map("a"))
            assert status == 500
            assert response["message"].endswith('/slow?timeout=1s": context deadline exceeded')

    fake_time(main())


def test_the_timeout_of_the_request_bounds_that_of_the_webhook():
    async def main():
        async with ControlPlane(port=None, controllers=False) as plane, serve_hooks() as hooks:
            talk = Talk(plane)
            hooks.handlers["slow"] = never
            settings = {"timeoutSeconds": 30, "failurePolicy": "Ignore"}
            await register(talk, hooks, "Mutating", ("slow", settings))
            status, response = await talk("POST", f"{MAPS}?timeout=1s", config_map("a"))
            assert (status, json.loads(response)["reason"]) == (504, "Timeout")
            assert hooks.paths == ["/slow?timeout=1s"]

    fake_time(main())


async def test_managed_fields_that_a_webhook_corrupts_are_restored(talk, hooks):
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "Odd"}
    hooks.handlers["odd"] = patching({"op": "add", "path": "/metadata/managedFields", "value": [entry]})
    await register(talk, hooks, "Mutating", ("odd", {}))
    response = await talk.send("POST", MAPS, {**config_map("a"), "data": {"k": "v"}}, User_Agent="me")
    (managed,) = json.loads(response.body)["metadata"]["managedFields"]
    assert (managed["manager"], managed["fieldsType"]) == ("me", "FieldsV1")
    (warning,) = response.headers["Warning"]
    assert ".metadata.managedFields was in an invalid state after admission" in warning


async def test_connects_send_the_options_of_the_stream(talk, hooks):
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await talk.ok("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    hooks.handlers["see"] = lambda review: reply(review, allowed=False)
    rule = {**RULE, "operations": ["CONNECT"], "resources": ["pods/*"]}
    await register(talk, hooks, "Validating", ("see", {"rules": [rule]}))
    await talk("POST", f"{pods}/p/exec?command=a&command=b&tty=true&stdin=false&container=c")
    await talk("GET", f"{pods}/p/portforward?ports=80&ports=81")
    await talk("GET", f"{pods}/p/proxy/a/b")
    seen = hooks.requests("see")
    assert [asked["object"] for asked in seen] == [
        {
            "apiVersion": "v1",
            "kind": "PodExecOptions",
            "tty": True,
            "container": "c",
            "command": ["a", "b"],
        },
        {"apiVersion": "v1", "kind": "PodPortForwardOptions", "ports": [80, 81]},
        {"apiVersion": "v1", "kind": "PodProxyOptions", "path": "/a/b"},
    ]
    assert [asked["kind"]["kind"] for asked in seen] == [asked["object"]["kind"] for asked in seen]
    assert all(asked["options"] is None and asked["name"] == "p" for asked in seen)


async def test_core_events_match_rules_of_the_events_group(talk, hooks):
    hooks.handlers["note"] = patching({"op": "add", "path": "/note", "value": "changed"})
    rule = {**RULE, "apiGroups": ["events.k8s.io"], "resources": ["events"]}
    await register(talk, hooks, "Mutating", ("note", {"rules": [rule]}))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
    }
    made = await talk.ok("POST", "/api/v1/namespaces/default/events", event)
    assert (made["apiVersion"], made["message"], made["involvedObject"]["name"]) == ("v1", "changed", "a")
    (asked,) = hooks.requests("note")
    assert asked["kind"] == {"group": "events.k8s.io", "version": "v1", "kind": "Event"}
    assert asked["requestKind"]["group"] == ""
    assert asked["object"]["regarding"]["name"] == "a"


async def test_scales_match_rules_of_other_versions(talk, hooks, base):
    crd = definition()
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    first = crd["spec"]["versions"][0] | {"subresources": {"scale": paths}}
    crd["spec"]["versions"] = [first, first | {"name": "v2", "storage": False}]
    await talk.ok("POST", CRDS, crd)
    await talk.ok("POST", base, widget("a", spec={"replicas": 1}))
    hooks.handlers["see"] = reply
    rule = {**RULE, "apiGroups": ["example.com"], "resources": ["widgets/scale"]}
    await register(talk, hooks, "Validating", ("see", {"rules": [rule]}))
    await talk.ok("PATCH", f"{base.replace('/v1/', '/v2/')}/a/scale", {"spec": {"replicas": 2}})
    (asked,) = hooks.requests("see")
    assert asked["kind"] == asked["requestKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (asked["resource"]["version"], asked["requestResource"]["version"]) == ("v1", "v2")


async def test_names_are_generated_after_mutation(talk, hooks):
    hooks.handlers["see"] = reply
    await register(talk, hooks, "Mutating", ("see", {}))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    await talk.ok("POST", MAPS, body)
    (asked,) = hooks.requests("see")
    assert "name" not in asked
    assert asked["object"]["metadata"].get("name", "") == ""


async def test_webhooks_of_the_scale_subresource(talk, hooks, base):
    crd = definition()
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    crd["spec"]["versions"][0]["subresources"] = {"scale": paths}
    await talk.ok("POST", CRDS, crd)
    await talk.ok("POST", base, widget("a", spec={"replicas": 1, "other": True}))
    rule = {**RULE, "apiGroups": ["example.com"], "resources": ["widgets/scale"]}
    hooks.handlers["cap"] = patching({"op": "replace", "path": "/spec/replicas", "value": 5})
    await register(talk, hooks, "Mutating", ("cap", {"rules": [rule]}))
    scaled = await talk.ok("PATCH", f"{base}/a/scale", {"spec": {"replicas": 9}})
    assert scaled["spec"]["replicas"] == 5
    (asked,) = hooks.requests("cap")
    assert asked["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (asked["oldObject"]["spec"], asked["object"]["spec"]) == ({"replicas": 1}, {"replicas": 9})
    assert (await talk.ok("GET", f"{base}/a"))["spec"] == {"replicas": 5, "other": True}


async def test_posts_to_subresources_create_their_kind(talk, hooks):
    hooks.handlers["see"] = lambda review: reply(review, allowed=False)
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await talk.ok("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    rule = {**RULE, "resources": ["pods/binding", "pods/eviction"]}
    await register(talk, hooks, "Validating", ("see", {"rules": [rule]}))
    target = {"kind": "Node", "name": "n"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await talk("POST", f"{pods}/p/binding", binding))[0] == 400
    assert (await talk("POST", f"{pods}/p/eviction", eviction))[0] == 400
    asked = [(one["operation"], one["subResource"], one["kind"]["kind"]) for one in hooks.requests("see")]
    assert asked == [("CREATE", "binding", "Binding"), ("CREATE", "eviction", "Eviction")]
    assert "nodeName" not in (await talk.ok("GET", f"{pods}/p"))["spec"]


async def test_patch_must_not_change_name_or_kind(talk, hooks):
    hooks.handlers["ns"] = patching({"op": "replace", "path": "/metadata/namespace", "value": "other"})
    await register(talk, hooks, "Mutating", ("ns", {}), name="one")
    text = "the namespace of the provided object does not match the namespace sent on the request"
    status, response = await talk("POST", MAPS, config_map("a"))
    assert (status, response["message"]) == (400, text)
    hooks.handlers["ns"] = patching({"op": "replace", "path": "/kind", "value": "Secret"})
    status, response = await talk("POST", MAPS, config_map("a"))
    text = "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
    assert (status, response["message"]) == (500, text)
    hooks.handlers["ns"] = patching({"op": "replace", "path": "/kind", "value": "Foo"})
    assert (
        'no kind "Foo" is registered for version "v1"'
        in (await talk("POST", MAPS, config_map("a")))[1]["message"]
    )


async def test_warnings_with_control_characters_are_dropped(talk, hooks):
    hooks.handlers["warn"] = lambda review: reply(review, warnings=["two\nlines", "one line"])
    await register(talk, hooks, "Validating", ("warn", {}))
    response = await talk.send("POST", MAPS, config_map("a"))
    assert response.headers["Warning"] == ['299 - "one line"']


async def test_deletion_requests_of_pods_without_grace_period(talk, hooks):
    hooks.handlers["see"] = reply
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await talk.ok("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    await register(talk, hooks, "Validating", ("see", {"rules": [{**RULE, "resources": ["pods"]}]}))
    await talk.ok("DELETE", f"{pods}/p")
    first, second = (one["oldObject"]["metadata"] for one in hooks.requests("see"))
    assert ("deletionTimestamp" in first, first["generation"]) == (False, 1)
    assert (second["deletionGracePeriodSeconds"], second["generation"]) == (0, 2)


async def test_webhooks_of_token_requests(talk, hooks):
    hooks.handlers["see"] = reply
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}
    made = await talk.ok("POST", accounts, account)
    await register(
        talk, hooks, "Validating", ("see", {"rules": [{**RULE, "resources": ["serviceaccounts/token"]}]})
    )
    await talk.ok("POST", f"{accounts}/bot/token", {"spec": {"audiences": ["a"]}})
    (asked,) = hooks.requests("see")
    assert (asked["object"]["metadata"]["name"], asked["object"]["metadata"]["uid"]) == (
        "bot",
        made["metadata"]["uid"],
    )
    assert asked["object"]["spec"]["expirationSeconds"] == 3600


async def test_reviews_of_access_are_admitted_too(talk, hooks):
    hooks.handlers["deny"] = lambda review: reply(review, allowed=False)
    rule = {**RULE, "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"]}
    await register(talk, hooks, "Validating", ("deny", {"rules": [rule]}))
    body = {"spec": {"user": "a", "nonResourceAttributes": {"path": "/", "verb": "get"}}}
    assert (await talk("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body))[0] == 400


async def test_update_that_creates_is_a_create_operation(talk, hooks):
    hooks.handlers["see"] = reply
    rule = {**RULE, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    await register(talk, hooks, "Validating", ("see", {"rules": [rule]}))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    for _ in range(2):
        lease = await talk.ok("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease)
    seen = [(one["operation"], one["options"]["kind"]) for one in hooks.requests("see")]
    assert seen == [("CREATE", "CreateOptions"), ("UPDATE", "UpdateOptions")]


async def test_webhooks_continue_the_trace_of_a_request(talk, hooks):
    hooks.handlers["check"] = reply
    await register(talk, hooks, "Validating", ("check", {}))
    await talk.ok("POST", MAPS, config_map("untraced"))
    token = current.set(SpanContext(b"\x01" * 16, b"\x02" * 8, True))
    try:
        await talk.ok("POST", MAPS, config_map("traced"))
    finally:
        current.reset(token)
    assert hooks.traceparents == ["", f"00-{'01' * 16}-{'02' * 8}-01"]
