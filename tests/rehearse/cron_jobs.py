"""The CronJob example as a project in Git, and a cluster in which one of its Jobs runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.manager.operators.installation import definitions_of
from kubewright.rehearse import ClusterSnapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "cronjob"
GROUP = "batch.tutorial.kubebuilder.io"
CREATED = "2026-03-01T10:00:00Z"


def make_project(directory: Path) -> Path:
    """Copy the example into a Git repository whose revision `v1` is the example."""
    project = directory / "project"
    shutil.copytree(EXAMPLE / "cronjob", project / "cronjob", ignore=shutil.ignore_patterns("__pycache__"))
    commit(project, "v1")
    return project


def commit(project: Path, tag: str) -> None:
    """Commit all files, with a tag."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", tag],
        ["tag", tag],
    ):
        subprocess.run(["git", *command], cwd=project, check=True, env=environment)


def edit(path: Path, before: str, after: str) -> None:
    """Replace a text that occurs once."""
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


def run_plan(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `kubewright plan`, as CI does."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "KUBEWRIGHT_TRACEBACK": ""}
    return subprocess.run(
        [sys.executable, "-m", "kubewright.cli", "plan", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def cluster() -> ClusterSnapshot:
    """Return a cluster with the CRD of the example, a CronJob, and its running Job and pod."""
    template = {
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [
                {
                    "name": "hello",
                    "image": "busybox",
                    "resources": {},
                    "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        }
    }
    labels = {
        "batch.kubernetes.io/controller-uid": "uid-job",
        "batch.kubernetes.io/job-name": "hello-1772359200",
        "controller-uid": "uid-job",
        "job-name": "hello-1772359200",
    }
    definition = next(iter(definitions_of(example_operator().kinds)))
    definition["metadata"] |= {"uid": "uid-crd", "resourceVersion": "10", "creationTimestamp": CREATED}
    definition["status"] = {"storedVersions": ["v1"], "conditions": [], "acceptedNames": {}}
    cron_job = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronJob",
        "metadata": _metadata("hello", "uid-hello", 20, generation=1),
        "spec": {
            "schedule": "0 * * * *",
            "concurrencyPolicy": "Forbid",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": template["spec"]}}},
        },
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **_metadata("hello-1772359200", "uid-job", 30, generation=1),
            "labels": labels,
            "annotations": {f"{GROUP}/scheduled-at": CREATED},
            "ownerReferences": [_owner(f"{GROUP}/v1", "CronJob", "hello", "uid-hello")],
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "manualSelector": False,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-job"}},
            "template": {"metadata": {"labels": labels}, **template},
        },
        "status": {
            "active": 1,
            "ready": 1,
            "terminating": 0,
            "startTime": CREATED,
            "uncountedTerminatedPods": {},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_metadata("hello-1772359200-x7k2p", "uid-pod", 40),
            "labels": labels,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [_owner("batch/v1", "Job", "hello-1772359200", "uid-job")],
        },
        "spec": {**template["spec"], "nodeName": "worker-1"},
        "status": {
            "phase": "Running",
            "startTime": CREATED,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
            "containerStatuses": [
                {
                    "name": "hello",
                    "image": "busybox",
                    "imageID": "busybox",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": CREATED}},
                }
            ],
        },
    }
    return ClusterSnapshot.of([definition, cron_job, job, pod], kubernetes_version="1.36.2")


def example_operator() -> Any:
    """Return the operator of the example."""
    if str(EXAMPLE) not in sys.path:
        sys.path.insert(0, str(EXAMPLE))
    return ModuleFactory("cronjob:operator")()


def _metadata(name: str, uid: str, version: int, **values: Any) -> dict[str, Any]:
    found = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {**found, "creationTimestamp": CREATED, **values}


def _owner(version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    names = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    return {**names, "controller": True, "blockOwnerDeletion": True}
