"""Jobs: success policies, indexes, validation of the status."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.controlplane.kinds.batch.job_status import IndexesError, index_intervals

JOBS = "/apis/batch/v1/namespaces/ns/jobs"
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}
STARTED = "2020-01-01T00:00:00Z"


def test_index_intervals() -> None:
    assert index_intervals("0,2-3", 4) == [(0, 0), (2, 3)]
    for text in ("7", "a", "2-1", "1,1", "1-2-3", "-1"):
        with pytest.raises(IndexesError):
            index_intervals(text, 4)


async def test_invalid_success_policies_are_rejected(cluster: Any) -> None:
    rules = [
        {},
        {"succeededIndexes": "5"},
        {"succeededCount": 9},
        {"succeededIndexes": "0-1", "succeededCount": 3},
    ]
    job = {
        "template": TEMPLATE,
        "completions": 4,
        "completionMode": "Indexed",
        "successPolicy": {"rules": rules},
    }
    causes = await cluster.rejected(JOBS, "j", spec=job)
    path = "spec.successPolicy.rules"
    assert set(causes) == {
        f"{path}[0]",
        f"{path}[1].succeededIndexes",
        f"{path}[2].succeededCount",
        f"{path}[3].succeededCount",
    }


async def test_long_name_is_an_invalid_pod_label(cluster: Any) -> None:
    assert set(await cluster.rejected(JOBS, "a" * 64, spec={"template": TEMPLATE})) == {
        "spec.template.labels"
    }


async def test_resources_of_a_suspended_job_can_change(cluster: Any) -> None:
    await cluster.create(JOBS, "j", spec={"template": TEMPLATE, "suspend": True})
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    merge = "application/strategic-merge-patch+json"
    status, _ = await cluster.patch(f"{JOBS}/j", change, type=merge)
    assert status == 200
    await cluster.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
    container["resources"]["requests"]["cpu"] = "2"
    status, _ = await cluster.patch(f"{JOBS}/j", change, type=merge)
    assert status == 422


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"startTime": None}, "status.startTime"),
        ({"completedIndexes": "0"}, "status.completedIndexes"),
        ({"failedIndexes": "1"}, "status.failedIndexes"),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            "status.uncountedTerminatedPods.failed[0]",
        ),
        ({"failed": 0}, "status.failed"),
        ({"ready": 5}, "status.ready"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "status.conditions"),
    ],
)
async def test_inconsistent_status_is_rejected(cluster: Any, status: dict[str, Any], field: str) -> None:
    await cluster.create(JOBS, "j", spec={"template": TEMPLATE})
    code, _ = await cluster.patch(f"{JOBS}/j/status", {"status": {"startTime": STARTED, "failed": 1}})
    assert code == 200
    code, response = await cluster.patch(f"{JOBS}/j/status", {"status": status})
    assert code == 422
    assert [cause["field"] for cause in response["details"]["causes"]] == [field]


async def test_failed_and_completed_indexes_must_not_overlap(cluster: Any) -> None:
    job = {"template": TEMPLATE, "completions": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    await cluster.create(JOBS, "j", spec=job)
    indexes = {"completedIndexes": "0-2", "failedIndexes": "2"}
    code, response = await cluster.patch(f"{JOBS}/j/status", {"status": indexes})
    assert code == 422
    assert response["details"]["causes"][0]["message"] == (
        'Invalid value: "2": failedIndexes and completedIndexes overlap at index: 2'
    )
