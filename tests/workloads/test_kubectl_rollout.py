"""`kubectl rollout` on `kubewright up` with simulated nodes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.controlplane.conftest import Kubectl, start_up


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    folder: Path = tmp_path_factory.mktemp("rollout")
    up = start_up(folder, "--nodes", "2")
    yield Kubectl(program, up.kubeconfig, folder, "default")
    up.stop()


def test_deployment(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
    status = ("rollout", "status", "deployment/web", "--timeout=110s")
    assert 'deployment "web" successfully rolled out' in kubectl(*status)
    kubectl("set", "image", "deployment/web", "web=web:2")
    kubectl(*status)
    assert _revisions(kubectl("rollout", "history", "deployment/web")) == ["1", "2"]
    kubectl("rollout", "undo", "deployment/web")
    kubectl(*status)
    assert _revisions(kubectl("rollout", "history", "deployment/web")) == ["2", "3"]
    wait_for_images(kubectl, "app=web", "web:1")
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "env", "deployment/web", "A=b")
    assert _revisions(kubectl("rollout", "history", "deployment/web")) == ["2", "3"]
    kubectl("rollout", "resume", "deployment/web")
    kubectl(*status)
    kubectl("rollout", "restart", "deployment/web")
    kubectl(*status)
    assert _revisions(kubectl("rollout", "history", "deployment/web")) == ["2", "3", "4", "5"]


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_revisions(kubectl: Kubectl, kind: str) -> None:
    text = f"""
apiVersion: apps/v1
kind: {"StatefulSet" if kind == "statefulset" else "DaemonSet"}
metadata: {{name: db}}
spec:
  selector: {{matchLabels: {{app: {kind}}}}}
  template:
    metadata: {{labels: {{app: {kind}}}}}
    spec: {{containers: [{{name: c, image: "db:1"}}]}}
"""
    kubectl("create", "-f", "-", given=text)
    status = ("rollout", "status", f"{kind}/db", "--timeout=110s")
    kubectl(*status)
    kubectl("set", "image", f"{kind}/db", "c=db:2")
    kubectl(*status)
    assert _revisions(kubectl("rollout", "history", f"{kind}/db")) == ["1", "2"]
    kubectl("rollout", "undo", f"{kind}/db")
    kubectl(*status)
    wait_for_images(kubectl, f"app={kind}", "db:1")


def wait_for_images(kubectl: Kubectl, labels: str, *expected: str) -> None:
    """Wait until pods have these images only: those of the last revision may still be terminating."""
    template = "jsonpath={.items[*].spec.containers[0].image}"
    deadline = time.monotonic() + 120
    while (found := set(kubectl("get", "pods", "-l", labels, "-o", template).split())) != set(expected):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def _revisions(history: str) -> list[str]:
    return [line.split()[0] for line in history.splitlines() if line[:1].isdigit()]
