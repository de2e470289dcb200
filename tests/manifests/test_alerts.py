"""Alert rules and the dashboard: every metric exists in a running operator, every alert has a runbook."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml
from tests.deployment_project import ShopProject, make_project

from kubewright.api import Unstructured
from kubewright.api.errors import APIError
from kubewright.client import Client, load_config
from kubewright.client.errors import ConfigError, ConnectionFailed, NoKindMatch
from kubewright.manifests.deployment.alerts import ALERTS, RUNBOOKS

ROOT = Path(__file__).parents[2]
METRIC = re.compile(r"\b([a-z][a-z0-9_]*_[a-z0-9_]*|up)\{")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    return make_project(tmp_path, monkeypatch)


def test_metrics_of_alerts_and_dashboard_exist(project: ShopProject, reserved_port: int) -> None:
    project.run("manifests")
    rules = (project.directory / "config/prometheus/alerts.yaml").read_text(encoding="utf-8")
    panels = json.loads((project.directory / "config/grafana/dashboard.json").read_text(encoding="utf-8"))
    queries = [rule["expr"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    queries += [panel["targets"][0]["expr"] for panel in panels["panels"]]
    used = {name for query in queries for name in METRIC.findall(query)} - {
        "up"
    }  # Prometheus itself has `up`
    assert len(used) > 12
    assert missing_metrics(project, reserved_port, used) == set()


def missing_metrics(project: ShopProject, port: int, wanted: set[str]) -> set[str]:
    """Run the operator with a control plane of its own; return the metrics that it does not serve in time."""
    command = [sys.executable, "-m", "kubewright.cli", "run", project.module, "--leader-elect"]
    command += ["--leader-election-namespace", "default", "--metrics-port", str(port), "--metrics-insecure"]
    log = project.directory / "operator.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=project.directory, stderr=output, stdout=output)
        try:
            missing, deadline = wanted, time.monotonic() + 60
            while missing and time.monotonic() < deadline:
                assert process.poll() is None, log.read_text()
                time.sleep(0.3)
                with contextlib.suppress(OSError, ConfigError, ConnectionFailed, APIError, NoKindMatch):
                    asyncio.run(create_shop(project))
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
                        text = response.read().decode()
                    missing = wanted - set(re.findall(r"^(\w+)(?:\{| )", text, re.MULTILINE))
        finally:
            process.terminate()
            process.wait()
    return missing


async def create_shop(project: ShopProject) -> None:
    """Create or change an object, which calls the webhooks; fails while the operator starts."""
    shop = {"apiVersion": "store.example.com/v1", "kind": "Shop", "metadata": {"name": "a"}}
    config = load_config(str(project.directory / "kubeconfig"))
    async with Client.connect(config) as client:
        await client.apply(
            Unstructured({**shop, "spec": {"replicas": int(time.time()) % 50}}), field_manager="test"
        )


def test_every_alert_has_a_runbook() -> None:
    page = (ROOT / "docs/alerts.md").read_text(encoding="utf-8")
    sections = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## Operator")}
    assert sections == {alert.name for alert in ALERTS}
    assert RUNBOOKS.endswith("/docs/alerts.md")


def test_rules_depend_on_the_settings(project: ShopProject) -> None:
    def names() -> set[str]:
        project.run("manifests")
        rules = yaml.safe_load((project.directory / "config/prometheus/alerts.yaml").read_text())
        return {rule["alert"] for group in rules["groups"] for rule in group["rules"]}

    assert names() == {alert.name for alert in ALERTS}
    project.settings("leader-election = false\nwebhooks = false")
    assert names() == {alert.name for alert in ALERTS if not alert.feature}


def test_monitored_projects_have_a_prometheus_rule(project: ShopProject) -> None:
    project.settings("monitor = true")
    objects = list(yaml.safe_load_all(project.run("manifests", "-o", "-").stdout))
    (rule,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    assert [each["alert"] for each in rule["spec"]["groups"][0]["rules"]] == [each.name for each in ALERTS]


def test_crds_can_be_applied_alone(project: ShopProject) -> None:
    project.run("manifests")
    listed = yaml.safe_load((project.directory / "config/crd/kustomization.yaml").read_text())
    assert listed["resources"] == ["store.example.com_shops.yaml"]
