"""Schemas: cost of validation, CEL rules and compilation per object."""

from __future__ import annotations

import copy
from typing import Any

from bench import Benchmark
from kubewright.api.builtin.schemas import schema_for
from kubewright.api.gvk import GroupVersionKind
from kubewright.schema import Node, SchemaVersion, compile_all


def deployment() -> dict[str, Any]:
    """A Deployment of about 2.3 KB, as users write them."""

    def container(name: str) -> dict[str, Any]:
        return {
            "name": name,
            "image": f"registry.example.com/team/{name}:1.4.2",
            "imagePullPolicy": "IfNotPresent",
            "args": ["--listen=:8080", "--log-level=info", "--metrics"],
            "env": [
                {
                    "name": "POD_NAME",
                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                },
                {"name": "MODE", "value": "production"},
            ],
            "ports": [
                {"name": "http", "containerPort": 8080, "protocol": "TCP"},
                {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
            ],
            "resources": {
                "limits": {"cpu": "500m", "memory": "256Mi"},
                "requests": {"cpu": "100m", "memory": "128Mi"},
            },
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
                "periodSeconds": 10,
                "timeoutSeconds": 1,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }

    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "labels": {"app": "web", "tier": "frontend"},
            "annotations": {"deployment.kubernetes.io/revision": "3"},
        },
        "spec": {
            "replicas": 3,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "frontend"}},
                "spec": {
                    "containers": [container("web"), container("sidecar")],
                    "volumes": [{"name": "config", "configMap": {"name": "web-config", "defaultMode": 420}}],
                    "restartPolicy": "Always",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "serviceAccountName": "web",
                    "schedulerName": "default-scheduler",
                },
            },
        },
    }


def rules_schema() -> dict[str, Any]:
    """Five rules as CRDs have them."""
    return {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "min": {"type": "integer"},
                    "max": {"type": "integer"},
                    "name": {"type": "string", "maxLength": 63},
                    "mode": {"type": "string", "maxLength": 20},
                    "tags": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
                },
                "x-kubernetes-validations": [
                    {"rule": "self.min <= self.max"},
                    {"rule": "self.name.matches('^[a-z]+$')"},
                    {"rule": "self.mode in ['a', 'b', 'c']"},
                    {"rule": "!has(self.tags) || self.tags.all(t, t.size() > 1)"},
                    {"rule": "has(self.tags) || self.mode != 'c'"},
                ],
            }
        },
    }


def benchmarks() -> list[Benchmark]:
    """Walks over a Deployment, five rules, and compiling the Deployment schema."""
    raw, definitions = schema_for(GroupVersionKind("apps", "v1", "Deployment"))
    schema = SchemaVersion(raw, definitions)
    valid = deployment()
    assert schema.process(valid) == ([], ([], []))
    broken = copy.deepcopy(valid)
    container = broken["spec"]["template"]["spec"]["containers"][0]
    container["ports"][0]["containerPort"] = "http"
    container["image"] = 7
    broken["spec"]["replicas"] = 1.5
    del broken["spec"]["selector"]
    assert len(schema.process(broken)[1].errors) == 5
    ruled = SchemaVersion(rules_schema())
    custom = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"min": 1, "max": 2, "name": "abc", "mode": "b", "tags": ["one", "two", "three"]},
    }
    assert ruled.process(custom) == ([], ([], []))
    return [
        Benchmark(name="walk, 2.3 KB Deployment, valid", target_us=40, run=lambda: schema.process(valid)),
        Benchmark(
            name="walk, 2.3 KB Deployment, five errors", target_us=80, run=lambda: schema.process(broken)
        ),
        Benchmark(name="walk with five rules", target_us=20, run=lambda: ruled.process(custom)),
        Benchmark(
            name="compile the Deployment schema",
            target_ms=50,
            run=lambda: compile_all(Node(raw, definitions)),
        ),
    ]
