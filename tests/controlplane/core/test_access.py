"""RBAC over live objects, escalation, and the kinds that ask about access."""

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


async def test_a_binding_counts_from_the_moment_it_is_written_until_it_is_gone(send: Any) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    status, answer = await send("GET", path, user=ANN)
    assert status == 403
    assert answer["message"] == (
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


async def test_a_binding_to_a_missing_role_is_named_as_the_reason(send: Any) -> None:
    await send("POST", f"{RBAC}/clusterrolebindings", binding("gone", "nosuch", "ClusterRole"))
    _, answer = await send("GET", "/api/v1/nodes", user=ANN)
    assert answer["message"].endswith(
        'at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found'
    )


async def test_nobody_grants_what_they_do_not_have(send: Any) -> None:
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
    status, answer = await send("POST", f"{roles}/roles", role("more", "get", "delete"), user=ANN)
    assert status == 403
    assert answer["message"] == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["team" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
    )
    wanted = binding("all", "cluster-admin", "ClusterRole")
    assert (await send("POST", f"{roles}/rolebindings", wanted, user=ANN))[0] == 403
    status, answer = await send("POST", f"{roles}/rolebindings", binding("x", "nosuch"), user=ANN)
    assert (status, answer["message"]) == (404, 'rolebindings.rbac.authorization.k8s.io "nosuch" not found')


async def test_reviews_answer_without_storing(send: Any) -> None:
    about = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec = {"user": "root", "groups": ["system:masters"], "resourceAttributes": about}
    status, answer = await send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    assert (status, answer["status"]) == (201, {"allowed": True})
    own = {"spec": {"resourceAttributes": about}}
    _, answer = await send("POST", f"{REVIEWS}/selfsubjectaccessreviews", own, user=ANN)
    assert answer["status"] == {"allowed": False}
    _, answer = await send(
        "POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, user=ANN
    )
    assert {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    } in (answer["status"]["resourceRules"])
    status, answer = await send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "a"}})
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.resourceAttributes")


async def test_every_bootstrap_role_is_there_once(send: Any) -> None:
    _, roles = await send("GET", f"{RBAC}/clusterroles")
    names = [item["metadata"]["name"] for item in roles["items"]]
    assert len(names) == len(set(names)) > 60
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery"} <= set(names)
    _, bindings = await send("GET", f"{RBAC}/clusterrolebindings")
    bound = {item["roleRef"]["name"] for item in bindings["items"]}
    assert bound <= set(names)
