"""RBAC, privilege escalation, and the access review kinds."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver import User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
ANN = User("ann", ("team", "system:authenticated"))


def role(name: str, *verbs: str, resources: tuple[str, ...] = ("configmaps",)) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": list(resources), "verbs": list(verbs)}]
    return {"metadata": {"name": name}, "rules": rules}


def binding(name: str, role: str, kind: str = "Role", **subject: str) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    who = subject or {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [who]}


async def test_binding_applies_immediately_until_it_is_deleted(send: Any) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    status, response = await send("GET", path, user=ANN)
    assert status == 403
    assert response["message"] == (
        'configmaps is forbidden: User "ann" cannot list resource "configmaps" in API group "" in the '
        'namespace "default"'
    )
    roles = f"{RBAC}/namespaces/default"
    assert (await send("POST", f"{roles}/roles", role("reader", "list")))[0] == 201
    assert (await send("POST", f"{roles}/rolebindings", binding("ann", "reader")))[0] == 201
    assert (await send("GET", path, user=ANN))[0] == 200
    assert (await send("GET", "/api/v1/namespaces/kube-system/configmaps", user=ANN))[0] == 403
    assert (await send("DELETE", f"{roles}/rolebindings/ann"))[0] == 200
    assert (await send("GET", path, user=ANN))[0] == 403


async def test_binding_to_a_missing_role_is_reported(send: Any) -> None:
    await send("POST", f"{RBAC}/clusterrolebindings", binding("gone", "nosuch", "ClusterRole"))
    _, response = await send("GET", "/api/v1/nodes", user=ANN)
    assert response["message"].endswith(
        'at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found'
    )


async def test_privilege_escalation_is_denied(send: Any) -> None:
    roles = f"{RBAC}/namespaces/default"
    editor = {
        "metadata": {"name": "editor"},
        "rules": [
            {
                "apiGroups": ["rbac.authorization.k8s.io"],
                "resources": ["roles", "rolebindings"],
                "verbs": ["create", "update"],
            },
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        ],
    }
    await send("POST", f"{roles}/roles", editor)
    await send("POST", f"{roles}/rolebindings", binding("ann", "editor"))
    assert (await send("POST", f"{roles}/roles", role("same", "get"), user=ANN))[0] == 201
    status, response = await send("POST", f"{roles}/roles", role("more", "get", "delete"), user=ANN)
    assert status == 403
    assert response["message"] == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["team" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
    )
    wanted = binding("all", "cluster-admin", "ClusterRole")
    assert (await send("POST", f"{roles}/rolebindings", wanted, user=ANN))[0] == 403
    status, response = await send("POST", f"{roles}/rolebindings", binding("x", "nosuch"), user=ANN)
    assert (status, response["message"]) == (404, 'rolebindings.rbac.authorization.k8s.io "nosuch" not found')


async def test_reviews_are_not_stored(send: Any) -> None:
    about = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec = {"user": "root", "groups": ["system:masters"], "resourceAttributes": about}
    status, response = await send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    assert (status, response["status"]) == (201, {"allowed": True})
    own = {"spec": {"resourceAttributes": about}}
    _, response = await send("POST", f"{REVIEWS}/selfsubjectaccessreviews", own, user=ANN)
    assert response["status"] == {"allowed": False}
    _, response = await send(
        "POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, user=ANN
    )
    assert {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    } in (response["status"]["resourceRules"])
    status, response = await send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "a"}})
    assert (status, response["details"]["causes"][0]["field"]) == (422, "spec.resourceAttributes")


async def test_bootstrap_roles_are_unique(send: Any) -> None:
    _, roles = await send("GET", f"{RBAC}/clusterroles")
    names = [item["metadata"]["name"] for item in roles["items"]]
    assert len(names) == len(set(names)) > 60
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery"} <= set(names)
    _, bindings = await send("GET", f"{RBAC}/clusterrolebindings")
    bound = {item["roleRef"]["name"] for item in bindings["items"]}
    assert bound <= set(names)


async def ask(send: Any, **about: Any) -> Any:
    question = {"verb": "list", "resource": "pods", **about}
    path = f"{REVIEWS}/subjectaccessreviews"
    return (await send("POST", path, {"spec": {"user": "ann", "resourceAttributes": question}}))[1]


async def test_invalid_selectors_are_ignored_and_reported(send: Any) -> None:
    where = "spec.resourceAttributes"
    response = await ask(send, fieldSelector={"rawSelector": "a>b"}, labelSelector={"rawSelector": "a in b"})
    assert response["status"]["evaluationError"] == (
        f"{where}.fieldSelector ignored due to parse error; {where}.labelSelector ignored due to parse error"
    )
    terms = [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}]
    response = await ask(send, fieldSelector={"requirements": terms}, labelSelector={"requirements": terms})
    assert (
        response["status"]["evaluationError"] == f"{where}.fieldSelector partially ignored due to parse error"
    )
    assert "evaluationError" not in (await ask(send, fieldSelector={"rawSelector": "a=b"}))["status"]


async def test_requirements_of_selectors_are_checked(send: Any) -> None:
    terms = [{"key": "", "operator": "In"}, {"key": "c", "operator": "Exists", "values": ["x"]}]
    response = await ask(send, fieldSelector={"requirements": terms})
    assert [
        (cause["field"].rpartition(".requirements")[2], cause["message"]) for cause in causes(response)
    ] == [
        ("[0].key", "Required value: must be specified"),
        ("[0].values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ("[1].values", "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
    ]
    response = await ask(
        send, labelSelector={"requirements": [{"key": "a b", "operator": "New", "values": ["-"]}]}
    )
    assert [cause["field"][-9:] for cause in causes(response)] == ["ts[0].key", "values[0]"]


def causes(response: Any) -> list[Any]:
    return list(response["details"]["causes"])


async def test_reviews_support_only_create(send: Any) -> None:
    path, body = f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "a", "nonResourceAttributes": {}}}
    assert (await send("GET", path))[0] == 405
    assert (await send("GET", f"{path}/x"))[0] == 404
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert (await send("POST", path, body, **table))[0] == 406
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    assert (await send("POST", path, body, **partial))[1]["kind"] == "PartialObjectMetadata"
    assert (await send("POST", path, body | {"metadata": {"namespace": "x"}}))[0] == 201
    named = (await send("POST", path, body | {"metadata": {"labels": {"a": "b"}, "name": "x"}}))[1]
    assert causes(named)[0]["message"].startswith(
        'Invalid value: {"name":"x","labels":{"a":"b"},"managedFields":[{"manager":"unknown",'
    )
    local = {"metadata": {"namespace": "x"}, **body}
    status, response = await send("POST", f"{REVIEWS}/namespaces/default/localsubjectaccessreviews", local)
    assert (status, response["message"][:32]) == (400, "the namespace of the provided ob")


async def test_deletecollection_is_authorized_without_name(send: Any) -> None:
    path = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da"
    assert (await send("DELETE", path, user=ANN))[1]["message"].startswith("configmaps is forbidden")
    assert (await send("GET", path, user=ANN))[1]["message"].startswith('configmaps "a" is forbidden')


async def test_rules_review_lists_rules_and_errors(send: Any) -> None:
    paths = [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]
    await send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "x"}, "rules": paths})
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await send("POST", bindings, binding("x", "x", "ClusterRole"))
    await send("POST", bindings, binding("gone", "nosuch"))
    review = {"spec": {"namespace": "default"}}
    _, response = await send("POST", f"{REVIEWS}/selfsubjectrulesreviews", review, user=ANN)
    assert {"nonResourceURLs": ["/x"], "verbs": ["get"]} in response["status"]["nonResourceRules"]
    assert response["status"]["incomplete"] is False
    assert "nosuch" in response["status"]["evaluationError"]


async def test_verbs_of_legacy_proxy_and_watch_paths(send: Any) -> None:
    for method, verb in (("GET", "watch"), ("POST", "watch"), ("GET", "proxy")):
        _, response = await send(method, f"/api/v1/{verb}/namespaces/default/pods", user=ANN)
        assert f'cannot {verb} resource "pods"' in response["message"]
    assert (await send("POST", "/api/v1/watch/namespaces/default/pods"))[0] == 405
    assert (await send("GET", "/api/v1/proxy/namespaces/default/pods"))[0] == 404
