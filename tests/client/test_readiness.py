"""Readiness rules of built-in kinds and of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.client.readiness import readiness_of

ROLLED_OUT = {
    "observedGeneration": 2,
    "replicas": 3,
    "updatedReplicas": 3,
    "availableReplicas": 3,
    "readyReplicas": 3,
}


def deployment(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": 3},
        "status": ROLLED_OUT | status,
    }


def custom(*conditions: tuple[str, str], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "a", "generation": 3},
        "spec": {},
        "status": {"conditions": [{"type": type_, "status": value} for type_, value in conditions], **status},
    }


def of(api_version: str, kind: str, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec or {}, "status": status}


DEADLINE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
ESTABLISHED = {"type": "Established", "status": "True"}
REJECTED = {"type": "NamesAccepted", "status": "False", "message": "taken"}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (deployment(), "Current"),
        (deployment(observedGeneration=1), "InProgress: generation 2 has not been observed yet"),
        (deployment(updatedReplicas=1), "InProgress: 1 of 3 replicas are updated"),
        (deployment(replicas=4), "InProgress: old replicas have not terminated yet (1 of them)"),
        (deployment(availableReplicas=2), "InProgress: 2 of 3 replicas are available"),
        (deployment(conditions=[DEADLINE]), "Failed: late"),
        (of("apps/v1", "Deployment"), "InProgress: the Deployment has not been observed yet"),
        (of("apps/v1", "StatefulSet", {"replicas": 2}, replicas=2, readyReplicas=1), "InProgress: 1 of 2"),
        (of("apps/v1", "DaemonSet", observedGeneration=1, desiredNumberScheduled=0), "Current"),
        (of("v1", "Pod", phase="Running", conditions=[{"type": "Ready", "status": "True"}]), "Current"),
        (of("v1", "Pod", phase="Failed", message="evicted"), "Failed: evicted"),
        (
            of(
                "v1",
                "Pod",
                phase="Pending",
                containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
            ),
            "InProgress: container main: ImagePullBackOff",
        ),
        (of("v1", "PersistentVolumeClaim", phase="Pending"), "InProgress: phase Pending, expected Bound"),
        (of("v1", "Service", {"type": "LoadBalancer"}), "InProgress: the load balancer has no address yet"),
        (of("v1", "Service"), "Current"),
        (of("v1", "ConfigMap"), "Current"),
        (of("batch/v1", "Job", conditions=[{"type": "Failed", "status": "True"}]), "Failed: the job failed"),
        (of("apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions=[ESTABLISHED]), "Current"),
        (of("apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions=[REJECTED]), "Failed: taken"),
        (custom(), "Current"),
        (custom(("Ready", "True")), "Current"),
        (custom(("Ready", "False")), "InProgress: condition Ready is False"),
        (custom(("Reconciling", "True"), ("Ready", "True")), "InProgress: reconciling"),
        (custom(("Stalled", "True")), "Failed: stalled"),
        (custom(("Ready", "True"), observedGeneration=2), "InProgress: generation 3 has not been observed"),
    ],
)
def test_readiness(obj: dict[str, Any], expected: str) -> None:
    assert str(readiness_of(obj)).startswith(expected)


def test_an_object_that_is_being_deleted_is_terminating() -> None:
    obj = deployment()
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    obj["metadata"]["finalizers"] = ["a/b"]
    assert str(readiness_of(obj)) == "Terminating: finalizers: a/b"
