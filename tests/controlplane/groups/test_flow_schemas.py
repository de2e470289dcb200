"""Tables of FlowSchemas, and the headers of priority and fairness."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import HTTPRequest, User
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.in_process_clients import controller_user

LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


async def test_rows_are_sorted_by_matching_precedence(api: Any) -> None:
    for name, precedence in (("a", 300), ("b", 100), ("c", 100)):
        level = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": precedence}
        await api.ok("POST", SCHEMAS, {"metadata": {"name": name}, "spec": level})
    table = await api.ok("GET", SCHEMAS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [row["cells"][0] for row in table["rows"]]
    assert [name for name in names if len(name) == 1] == ["b", "c", "a"]
    assert names[-1] == "catch-all"
    listed = await api.ok("GET", SCHEMAS)
    assert [item["metadata"]["name"] for item in listed["items"]] == sorted(names)


AUTHENTICATED = ("system:authenticated",)


@pytest.mark.parametrize(
    ("user", "path", "schema"),
    [
        (User("root", ("system:masters", *AUTHENTICATED)), "/api/v1/pods", "exempt"),
        (User("system:anonymous", ("system:unauthenticated",)), "/healthz", "probes"),
        (User("ann", AUTHENTICATED), "/api/v1/namespaces/default/pods", "global-default"),
        (User("ann", AUTHENTICATED), "/api/v1/namespaces/special/configmaps", "special"),
        (
            User("system:serviceaccount:a:b", ("system:serviceaccounts", *AUTHENTICATED)),
            "/api/v1/namespaces/default/pods",
            "service-accounts",
        ),
        (
            User("system:kube-scheduler", AUTHENTICATED),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            "system-leader-election",
        ),
    ],
)
async def test_headers_name_the_flow_schema(user: User, path: str, schema: str) -> None:
    async with ControlPlane(port=None, controllers=False) as plane:
        client = PathClient(plane.server, controller_user("test"))
        rule = {
            "subjects": [{"kind": "User", "user": {"name": "*"}}],
            "resourceRules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["configmaps"], "namespaces": ["special"]}
            ],
        }
        level = {"priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": 150}
        special = {"metadata": {"name": "special"}, "spec": {**level, "rules": [rule]}}
        await client.send("POST", SCHEMAS, special)
        await plane.informers.catch_up()
        found = await client.send("GET", f"{SCHEMAS}/{schema}")
        name = found["spec"]["priorityLevelConfiguration"]["name"]
        uid = (await client.send("GET", f"{LEVELS}/{name}"))["metadata"]["uid"]
        response = await plane.server.handle(HTTPRequest("GET", path, user=user))
        assert response.headers["X-Kubernetes-PF-FlowSchema-UID"] == found["metadata"]["uid"]
        assert response.headers["X-Kubernetes-PF-PriorityLevel-UID"] == uid
