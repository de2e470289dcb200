"""Deployments, replica sets, daemon sets, stateful sets, jobs and cron jobs."""

from __future__ import annotations

from typing import Any

import pytest

CORE = "/api/v1/namespaces/ns"
APPS = "/apis/apps/v1/namespaces/ns"
BATCH = "/apis/batch/v1/namespaces/ns"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
JOB = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}


def workload(**rest: Any) -> dict[str, Any]:
    return {"selector": SELECTOR, "template": TEMPLATE, **rest}


async def test_deployment_defaults(cluster: Any) -> None:
    created = await cluster.create(f"{APPS}/deployments", "d", spec=workload())
    spec = created["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]
    assert created["status"] == {}


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
async def test_selector_must_match_the_template_and_is_immutable(cluster: Any, plural: str) -> None:
    other = {"matchLabels": {"a": "c"}}
    causes = await cluster.rejected(f"{APPS}/{plural}", "x", spec=workload(selector=other))
    assert causes == {
        "spec.template.metadata.labels": (
            'Invalid value: {"a":"b"}: `selector` does not match template `labels`'
        )
    }
    await cluster.create(f"{APPS}/{plural}", "x", spec=workload())
    changed = {"spec": {"selector": other, "template": {"metadata": {"labels": {"a": "c"}}}}}
    status, error = await cluster.patch(f"{APPS}/{plural}/x", changed)
    assert status == 422
    assert error["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
            "field": "spec.selector",
        }
    ]


async def test_generation_counts_changes_of_the_spec(cluster: Any) -> None:
    await cluster.create(f"{APPS}/deployments", "d", spec=workload())
    path = f"{APPS}/deployments/d"
    _, created = await cluster.patch(path, {"metadata": {"labels": {"x": "y"}}})
    assert created["metadata"]["generation"] == 1
    _, created = await cluster.patch(path, {"metadata": {"annotations": {"x": "y"}}})
    assert created["metadata"]["generation"] == 2
    _, created = await cluster.patch(path, {"spec": {"replicas": 3}})
    assert created["metadata"]["generation"] == 3
    _, created = await cluster.patch(f"{path}/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}})
    assert (created["metadata"]["generation"], created["spec"]["replicas"]) == (3, 3)


async def test_status_of_a_deployment_does_not_change_labels(cluster: Any) -> None:
    await cluster.create(f"{APPS}/deployments", "d", spec=workload(), metadata={"labels": {"l": "1"}})
    status, created = await cluster.patch(
        f"{APPS}/deployments/d/status",
        {"metadata": {"labels": {"l": "2"}, "annotations": {"n": "1"}}, "status": {"replicas": 1}},
    )
    assert status == 200
    assert created["metadata"]["labels"] == {"l": "1"}
    assert created["metadata"]["annotations"] == {"n": "1"}
    status, error = await cluster.patch(
        f"{APPS}/deployments/d/status", {"status": {"replicas": 1, "readyReplicas": 2}}
    )
    assert status == 422
    assert "cannot be greater than status.replicas" in error["message"]


async def test_scale(cluster: Any) -> None:
    await cluster.create(f"{APPS}/statefulsets", "s", spec=workload())
    path = f"{APPS}/statefulsets/s/scale"
    _, scale = await cluster.call("GET", path)
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    status, scale = await cluster.patch(path, {"spec": {"replicas": 4}})
    assert (status, scale["spec"]["replicas"]) == (200, 4)
    assert (await cluster.patch(path, {"spec": {"replicas": -1}}))[0] == 422


async def test_stateful_sets(cluster: Any) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    container = {"name": "c", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    template = {**TEMPLATE, "spec": {"containers": [container]}}
    created = await cluster.create(
        f"{APPS}/statefulsets", "s", spec=workload(template=template, volumeClaimTemplates=[claim])
    )
    assert created["spec"]["podManagementPolicy"] == "OrderedReady"
    rolling = {"partition": 0, "maxUnavailable": 1}
    assert created["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    stored = created["spec"]["volumeClaimTemplates"][0]
    assert (stored["kind"], stored["spec"]["volumeMode"]) == ("PersistentVolumeClaim", "Filesystem")
    status, error = await cluster.patch(f"{APPS}/statefulsets/s", {"spec": {"serviceName": "x"}})
    assert status == 422
    assert "updates to statefulset spec for fields other than 'replicas', " in error["message"]
    causes = await cluster.rejected(f"{APPS}/statefulsets", "a.b", spec=workload())
    assert "metadata.name" in causes


async def test_selector_of_a_job_is_generated(cluster: Any) -> None:
    job = await cluster.create(f"{BATCH}/jobs", "j", spec={"template": JOB})
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert job["metadata"]["labels"]["controller-uid"] == uid
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)
    status, error = await cluster.patch(f"{BATCH}/jobs/j", {"spec": {"completions": 5}})
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.completions")
    _, deleted = await cluster.call("DELETE", f"{BATCH}/jobs/j")
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    assert cluster.warnings[0].startswith("child pods are preserved by default when jobs are deleted")


async def test_default_propagation_policy(cluster: Any) -> None:
    spec = workload() | {"selector": {"a": "b"}}
    await cluster.create(f"{CORE}/replicationcontrollers", "rc", spec=spec)
    _, deleted = await cluster.call("DELETE", f"{CORE}/replicationcontrollers/rc")
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    involved = {"kind": "Pod", "namespace": "ns", "name": "p"}
    await cluster.create(f"{CORE}/events", "e", involvedObject=involved)
    status, _ = await cluster.call("DELETE", f"{CORE}/events/e?propagationPolicy=Foreground")
    assert status == 200
    assert (await cluster.call("GET", f"{CORE}/events/e"))[0] == 404


async def test_restart_policy_of_jobs(cluster: Any) -> None:
    causes = await cluster.rejected(f"{BATCH}/jobs", "j", spec={"template": TEMPLATE})
    assert causes == {
        "spec.template.spec.restartPolicy": 'Required value: valid values: "OnFailure", "Never"'
    }


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
    ],
)
async def test_invalid_schedules(cluster: Any, schedule: str, error: str) -> None:
    causes = await cluster.rejected(
        f"{BATCH}/cronjobs", "c", spec={"schedule": schedule, "jobTemplate": {"spec": {"template": JOB}}}
    )
    assert causes == {"spec.schedule": f'Invalid value: "{schedule}": {error}'}


@pytest.mark.parametrize(
    "schedule", ["*/5 * * * *", "0 0 1 jan mon-fri", "@hourly", "@every 90m", "0 9-17/2 ? * *"]
)
async def test_valid_schedules(cluster: Any, schedule: str) -> None:
    created = await cluster.create(
        f"{BATCH}/cronjobs", "c", spec={"schedule": schedule, "jobTemplate": {"spec": {"template": JOB}}}
    )
    assert created["spec"]["concurrencyPolicy"] == "Allow"
    assert (created["spec"]["successfulJobsHistoryLimit"], created["spec"]["failedJobsHistoryLimit"]) == (
        3,
        1,
    )


async def test_invalid_labels_in_an_update_of_the_status_are_ignored(cluster: Any) -> None:
    created = await cluster.create(f"{APPS}/deployments", "d", spec=workload())
    body = {"metadata": {"labels": {"a b": "c"}}}
    status, response = await cluster.patch(f"{APPS}/deployments/d/status", body)
    assert status == 200
    assert response["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("plural", "body", "labels", "accepted"),
    [
        ("api/v1/namespaces/ns/configmaps", {}, 4, False),
        ("api/v1/namespaces/ns/limitranges", {}, 3, False),
        ("apis/policy/v1/namespaces/ns/poddisruptionbudgets", {}, 2, True),
        ("apis/coordination.k8s.io/v1/namespaces/ns/leases", {}, 3, True),
    ],
)
async def test_number_of_errors_about_invalid_metadata(
    cluster: Any, plural: str, body: dict[str, Any], labels: int, accepted: bool
) -> None:
    await cluster.create(f"/{plural}", "x", **body)
    _, response = await cluster.patch(f"/{plural}/x", {"metadata": {"labels": {"a b": "c"}}})
    assert len(response["details"]["causes"]) == labels
    status, _ = await cluster.patch(f"/{plural}/x", {"metadata": {"finalizers": ["bad"]}})
    assert status == (200 if accepted else 422)


async def test_empty_namespace_in_an_affinity_term_is_invalid(cluster: Any) -> None:
    term = {"topologyKey": "zone", "namespaces": [""]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": affinity}}
    causes = await cluster.rejected(f"{APPS}/deployments", "d", spec=workload(template=template))
    path = (
        "spec.template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace"
    )
    assert set(causes) == {path}
