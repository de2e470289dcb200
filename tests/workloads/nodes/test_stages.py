"""Stage objects of kwok: selectors, templates, delays and their effect on simulated pods."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from tests.workloads.nodes.simulated_cluster import SimulatedCluster, condition, start_cluster

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client
from kubewright.workloads.nodes.stages.go_templates import Template, TemplateError
from kubewright.workloads.nodes.stages.jq_paths import ExpressionError, compile_expression
from kubewright.workloads.nodes.stages.stage import Stage, choose

OBJECT = {
    "metadata": {"annotations": {"a.b/c": "x"}, "labels": {"app": "web"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
    "items": [{"n": 1}, {"n": 2}],
}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ('.metadata.annotations["a.b/c"]', ["x"]),
        (".metadata.annotations.missing", [None]),
        ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["True"]),
        ('.status.conditions[] | select(.type != "Ready" and .status == "False") | .type', ["Other"]),
        (".items[1].n", [2]),
        (".items[].n", [1, 2]),
        (".missing.[].n", []),
        ('.metadata.name // "none"', ["none"]),
    ],
)
def test_expressions(expression: str, values: list[Any]) -> None:
    assert compile_expression(expression)(OBJECT) == values


def test_unsupported_expressions_are_reported() -> None:
    with pytest.raises(ExpressionError, match="splits"):
        compile_expression('splits("a")')


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ("{{ $x := .a }}{{ $x }}-{{ .b.c }}", "1-two"),
        ("{{ range $i, $e := .l }}{{ $i }}{{ $e.n }};{{ end }}", "0x;1y;"),
        ("{{ range .none }}a{{ else }}empty{{ end }}", "empty"),
        ("{{ if eq .a 2 }}two{{ else if eq .a 1 }}one{{ else }}no{{ end }}", "one"),
        ("{{ with index .l 1 }}{{ .n }}{{ end }}", "y"),
        ('{{ or .missing "default" | Quote }}', '"default"'),
        (
            '{{ $y := false }}{{ range .l }}{{ if eq .n "y" }}{{ $y = true }}{{ end }}{{ end }}{{ $y }}',
            "true",
        ),
        ("a {{- /* comment */ -}} b", "ab"),
        ('{{ printf "v-%s" .b.c }}', "v-two"),
        ("{{ not (and .a .missing) }}", "true"),
    ],
)
def test_templates(template: str, output: str) -> None:
    data = {"a": 1, "b": {"c": "two"}, "l": [{"n": "x"}, {"n": "y"}]}
    assert Template(template).execute(data, {"Quote": lambda value: f'"{value}"'}) == output


def test_template_errors_are_reported() -> None:
    with pytest.raises(TemplateError, match="without"):
        Template("{{ if .a }}x")
    with pytest.raises(TemplateError, match="not defined"):
        Template("{{ Unknown }}").execute({}, {})


def stage(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, **spec},
    }


def test_selector_weight_and_delay() -> None:
    selector = {"matchLabels": {"app": "web"}, "matchAnnotations": {"a.b/c": "x"}}
    delay = {
        "durationMilliseconds": 1000,
        "jitterDurationMilliseconds": 2000,
        "durationFrom": {"expressionFrom": '.metadata.annotations["delay"]'},
    }
    first = Stage(stage("first", selector=selector, weight=1, delay=delay))
    never = Stage(stage("never", selector={"matchLabels": {"app": "other"}}, weight=100))
    rng = random.Random(1)
    assert choose([first, never], OBJECT, rng) is first
    assert 1.0 <= first.delay(OBJECT, datetime.now(UTC), rng) <= 2.0
    delayed = {"metadata": {"annotations": {"delay": "5s"}}}
    # The jitter is less than the duration, so it is the delay.
    assert first.delay(delayed, datetime.now(UTC), rng) == 2.0


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stages.kwok.x-k8s.io}
spec:
  group: kwok.x-k8s.io
  scope: Cluster
  names: {plural: stages, singular: stage, kind: Stage, listKind: StageList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""

READY = """
{{ $now := Now }}
conditions:
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- image: {{ .image | Quote }}
  name: {{ .name | Quote }}
  ready: true
  restartCount: 0
  imageID: staged
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
phase: Running
startTime: {{ $now | Quote }}
"""


async def apply(client: Client, obj: dict[str, Any]) -> None:
    await client.create(Unstructured(obj))
    await asyncio.sleep(1)


async def test_stages_replace_the_built_in_behaviour_of_pods_that_they_match(
    cluster: SimulatedCluster,
) -> None:
    client = cluster.client
    await apply(client, yaml.safe_load(CRD))
    pending = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        {"key": ".metadata.labels.staged", "operator": "Exists"},
    ]
    await apply(
        client,
        stage(
            "slow-ready",
            selector={"matchExpressions": pending},
            delay={"durationMilliseconds": 20_000},
            next={"statusTemplate": READY, "event": {"type": "Normal", "reason": "Staged", "message": "x"}},
        ),
    )
    await cluster.create_pod("staged", metadata={"name": "staged", "labels": {"staged": "true"}})
    await cluster.create_pod("plain")
    await cluster.wait_ready("plain", timeout=2.0)
    await asyncio.sleep(15)
    assert "containerStatuses" not in await cluster.status("staged")
    status = await cluster.wait_ready("staged", timeout=10.0)
    assert status["containerStatuses"][0]["imageID"] == "staged"
    assert status["podIP"].startswith("10.244.0.")
    assert await cluster.reasons("staged") == ["Staged"]
    # No stage matches a running pod: it crashes and is deleted as any other pod.
    cluster.nodes.pods.crash("staged")
    await cluster.wait_for("staged", lambda status: status["containerStatuses"][0]["restartCount"] == 1, 5.0)
    await client.delete("pods", "staged")
    async with asyncio.timeout(5):
        while await client.get_or_none("pods", "staged") is not None:
            await asyncio.sleep(0.05)


async def test_failure_stage_and_finalizers(cluster: SimulatedCluster) -> None:
    client = cluster.client
    await apply(client, yaml.safe_load(CRD))
    running = [{"key": ".status.phase", "operator": "In", "values": ["Running"]}]
    await apply(
        client,
        stage(
            "fail",
            selector={"matchExpressions": running, "matchLabels": {"chaos": "true"}},
            delay={"durationMilliseconds": 1000},
            steps=[
                {"finalizers": {"add": [{"value": "example.com/kept"}]}},
                {
                    "patch": {
                        "subresource": "status",
                        "root": "status",
                        "template": "phase: Failed\nreason: Chaos\n",
                    }
                },
            ],
        ),
    )
    await cluster.create_pod("web", metadata={"name": "web", "labels": {"chaos": "true"}})
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed", 10.0)
    assert status["reason"] == "Chaos"
    pod = await client.get("pods", "web")
    assert pod.raw["metadata"]["finalizers"] == ["example.com/kept"]


async def test_stages_that_exist_at_the_start_apply_to_the_first_pod() -> None:
    async with start_cluster() as first:
        await apply(first.client, yaml.safe_load(CRD))
        selector = {"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": ["Pending"]}]}
        await apply(
            first.client, stage("never-ready", selector=selector, delay={"durationMilliseconds": 10**9})
        )
        await first.create_pod("web")
        await asyncio.sleep(5)
        assert condition(await first.status("web"), "Ready") == ("", "", "")
