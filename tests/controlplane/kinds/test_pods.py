"""Pods: defaults, validation, updates, deletion, binding and eviction."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/ns/pods"
STRATEGIC = "application/strategic-merge-patch+json"
CONTAINER = {"name": "c", "image": "i"}


def spec(**rest: Any) -> dict[str, Any]:
    return {"containers": [CONTAINER], **rest}


async def test_defaults_of_pods(cluster: Any) -> None:
    container = {
        **CONTAINER,
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": "1"}},
    }
    pod = await cluster.create(PODS, "p", spec={"containers": [container], "volumes": [{"name": "v"}]})
    made = pod["spec"]["containers"][0]
    assert made["imagePullPolicy"] == "Always"
    assert made["terminationMessagePath"] == "/dev/termination-log"
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert made["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert made["resources"]["requests"] == {"cpu": "1"}
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert pod["spec"]["enableServiceLinks"] is True
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert pod["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert pod["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
    ],
)
async def test_default_pull_policy_depends_on_the_tag(cluster: Any, image: str, policy: str) -> None:
    pod = await cluster.create(PODS, "p", spec={"containers": [{"name": "c", "image": image}]})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_invalid_containers_are_rejected(cluster: Any) -> None:
    container = {
        "name": "Bad_Name",
        "ports": [{"containerPort": 70000, "protocol": "X"}],
        "volumeMounts": [{"name": "nope", "mountPath": ""}],
        "env": [{"name": "a", "valueFrom": {}}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        "readinessProbe": {},
    }
    wrong = await cluster.rejected(PODS, "p", spec={"containers": [container]})
    assert wrong["spec.containers[0].image"] == "Required value"
    assert wrong["spec.containers[0].ports[0].containerPort"].endswith(
        "must be between 1 and 65535, inclusive"
    )
    assert wrong["spec.containers[0].ports[0].protocol"] == (
        'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'
    )
    assert wrong["spec.containers[0].volumeMounts[0].name"] == 'Not found: "nope"'
    assert wrong["spec.containers[0].resources.requests"] == (
        'Invalid value: "2": must be less than or equal to cpu limit of 1'
    )
    assert wrong["spec.containers[0].readinessProbe"] == "Required value: must specify a handler type"
    assert "spec.containers[0].env[0].valueFrom" in wrong


async def test_names_of_containers_are_unique(cluster: Any) -> None:
    wrong = await cluster.rejected(PODS, "p", spec={"containers": [CONTAINER, CONTAINER]})
    assert wrong == {"spec.containers[1].name": 'Duplicate value: "c"'}


async def test_immutable_fields_of_pods(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    status, pod = await cluster.patch(
        f"{PODS}/p", {"spec": {"containers": [{"name": "c", "image": "j"}]}}, type=STRATEGIC
    )
    assert status == 200
    assert pod["metadata"]["generation"] == 2
    status, error = await cluster.patch(
        f"{PODS}/p", {"spec": {"containers": [{"name": "c", "command": ["x"]}]}}, type=STRATEGIC
    )
    assert status == 422
    assert "pod updates may not change fields other than" in error["message"]
    status, error = await cluster.patch(
        f"{PODS}/p", {"spec": {"containers": [{"name": "d", "image": "j"}]}}, type=STRATEGIC
    )
    assert (
        error["details"]["causes"][0]["message"] == "Forbidden: pod updates may not add or remove containers"
    )


async def test_status_subresource(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    _, pod = await cluster.patch(f"{PODS}/p", {"status": {"phase": "Running"}})
    assert pod["status"]["phase"] == "Pending"
    _, pod = await cluster.patch(
        f"{PODS}/p/status", {"status": {"phase": "Running", "podIP": "1.2.3.4"}, "spec": {"nodeName": "n"}}
    )
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["podIPs"] == [{"ip": "1.2.3.4"}]
    assert "nodeName" not in pod["spec"]


async def test_a_scheduled_pod_is_deleted_after_the_grace_period(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec(nodeName="n", terminationGracePeriodSeconds=7))
    status, pod = await cluster.call("DELETE", f"{PODS}/p")
    assert (status, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, 7)
    assert (await cluster.call("GET", f"{PODS}/p"))[0] == 200
    await cluster.call("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert (await cluster.call("GET", f"{PODS}/p"))[0] == 404


async def test_a_pod_without_a_node_is_deleted_immediately(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    assert (await cluster.call("DELETE", f"{PODS}/p"))[0] == 200
    assert (await cluster.call("GET", f"{PODS}/p"))[0] == 404


async def test_a_pod_is_bound_once(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await cluster.call("POST", f"{PODS}/p/binding", binding))[0] == 201
    _, pod = await cluster.call("GET", f"{PODS}/p")
    assert pod["spec"]["nodeName"] == "n"
    assert pod["status"]["conditions"][0]["type"] == "PodScheduled"
    status, error = await cluster.call("POST", "/api/v1/namespaces/ns/bindings", binding)
    assert status == 409
    assert error["message"].endswith('pod p is already assigned to node "n"')


async def test_eviction_respects_a_disruption_budget(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec(nodeName="n"), metadata={"labels": {"a": "b"}})
    await cluster.patch(
        f"{PODS}/p/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    budgets = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"
    await cluster.create(budgets, "b", spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}})
    eviction = {"metadata": {"name": "p"}}
    await cluster.patch(
        f"{budgets}/b/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            }
        },
    )
    status, error = await cluster.call("POST", f"{PODS}/p/eviction", eviction)
    assert status == 429
    assert error["details"]["causes"][0]["message"] == (
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    )
    await cluster.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    assert (await cluster.call("POST", f"{PODS}/p/eviction", eviction))[0] == 201
    _, pod = await cluster.call("GET", f"{PODS}/p")
    assert "deletionTimestamp" in pod["metadata"]
    assert any(one["type"] == "DisruptionTarget" for one in pod["status"]["conditions"])
    _, budget = await cluster.call("GET", f"{budgets}/b")
    assert budget["status"]["disruptionsAllowed"] == 0
    assert "p" in budget["status"]["disruptedPods"]


async def test_ephemeral_containers_can_only_be_added(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    added = {"spec": {"ephemeralContainers": [{"name": "e", "image": "debug"}]}}
    status, _ = await cluster.patch(f"{PODS}/p/ephemeralcontainers", added, type=STRATEGIC)
    assert status == 200
    status, error = await cluster.patch(
        f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}
    )
    assert status == 422
    assert 'existing ephemeral containers "e" may not be removed' in error["message"]


async def test_resize_must_not_change_the_qos_class(cluster: Any) -> None:
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    await cluster.create(PODS, "p", spec={"containers": [container]})
    bigger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    status, pod = await cluster.patch(f"{PODS}/p/resize", bigger, type=STRATEGIC)
    assert status == 200
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    limits = {"cpu": "2", "memory": "1Gi"}
    whole = {"requests": limits, "limits": limits}
    status, error = await cluster.patch(
        f"{PODS}/p/resize", {"spec": {"containers": [{"name": "c", "resources": whole}]}}, type=STRATEGIC
    )
    assert status == 422
    assert "Pod QOS Class may not change" in error["message"]


async def test_streams_fail_without_a_kubelet(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    assert (await cluster.call("GET", f"{PODS}/p/log"))[0] == 204
    status, error = await cluster.call("POST", f"{PODS}/p/exec?command=ls")
    assert (status, error["message"]) == (400, "pod p does not have a host assigned")
    await cluster.create("/api/v1/nodes", "n")
    await cluster.create(PODS, "q", spec=spec(nodeName="n"))
    status, error = await cluster.call("POST", f"{PODS}/q/exec?command=ls")
    assert status == 503
    assert 'no kubelet serves node "n"' in error["message"]


async def test_pods_are_selected_by_field(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec(nodeName="n"))
    await cluster.create(PODS, "q", spec=spec())
    _, found = await cluster.call("GET", f"{PODS}?fieldSelector=spec.nodeName=n,status.phase=Pending")
    assert [pod["metadata"]["name"] for pod in found["items"]] == ["p"]
    status, error = await cluster.call("GET", f"{PODS}?fieldSelector=spec.foo=n")
    assert (status, error["message"]) == (400, "field label not supported: spec.foo")


async def test_warnings_about_pods(cluster: Any) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    await cluster.create(PODS, "p", spec={"containers": [{**CONTAINER, "env": variables}]})
    assert cluster.warnings == [
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    ]


async def test_claim_statuses_of_a_pod_can_be_removed(cluster: Any) -> None:
    """A node has access to the claims in the status of its pods. An absent list does not change them."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    path = "/api/v1/namespaces/ns/pods"
    statuses = [{"name": "gpu", "resourceClaimName": "claim"}]
    for change in ("PUT", "merge", "strategic"):
        spec = {"containers": [container], "resourceClaims": claims}
        await cluster.create(path, change.lower(), spec=spec)
        one = f"{path}/{change.lower()}/status"
        status, pod = await cluster.patch(one, {"status": {"resourceClaimStatuses": statuses}})
        assert (status, pod["status"]["resourceClaimStatuses"]) == (200, statuses)
        if change == "PUT":
            del pod["status"]["resourceClaimStatuses"]
            status, pod = await cluster.call("PUT", one, pod)
            assert (status, pod["status"]["resourceClaimStatuses"]) == (200, statuses)
            pod["status"]["resourceClaimStatuses"] = []
            status, pod = await cluster.call("PUT", one, pod)
        elif change == "merge":
            status, pod = await cluster.patch(one, {"status": {"resourceClaimStatuses": None}})
            assert (status, pod["status"]["resourceClaimStatuses"]) == (200, statuses)
            status, pod = await cluster.patch(one, {"status": {"resourceClaimStatuses": []}})
        else:
            removed = [{"name": "gpu", "$patch": "delete"}]
            body = {"status": {"resourceClaimStatuses": removed}}
            status, pod = await cluster.patch(one, body, type="application/strategic-merge-patch+json")
        assert (status, "resourceClaimStatuses" in pod["status"]) == (200, False)


async def test_observed_generations_of_a_pod_are_not_removed(cluster: Any) -> None:
    await cluster.create(
        "/api/v1/namespaces/ns/pods", "p", spec={"containers": [{"name": "c", "image": "i"}]}
    )
    condition = {"type": "Ready", "status": "False", "observedGeneration": 1}
    status = {"observedGeneration": 1, "conditions": [condition]}
    await cluster.patch("/api/v1/namespaces/ns/pods/p/status", {"status": status})
    change = {"observedGeneration": None, "conditions": [{"type": "Ready", "status": "True"}]}
    code, pod = await cluster.patch("/api/v1/namespaces/ns/pods/p/status", {"status": change})
    assert (code, pod["status"]["observedGeneration"]) == (200, 1)
    assert [each["observedGeneration"] for each in pod["status"]["conditions"]] == [1]
