"""Built-in types: decoding, encoding and importing them."""

from __future__ import annotations

import os
import subprocess
import sys

from bench import Benchmark
from kubewright.api.apps.v1 import Deployment, DeploymentList
from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.encoding.codec import decode, encode, from_plain, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.encoding.protobuf import ProtobufCodec
from kubewright.schema.structural import Node


def _container(name: str) -> dict[str, object]:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.27.3",
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "MODE", "value": "production"},
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "frontend-token", "key": "token"}}},
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
    }


def _owned(manager: str, operation: str, *paths: str) -> dict[str, object]:
    fields: dict[str, object] = {}
    for path in paths:
        at = fields
        for step in path.split("."):
            at = at.setdefault(f"f:{step}", {})  # type: ignore[assignment]
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-03-01T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


PLAIN = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "frontend",
        "namespace": "shop",
        "uid": "6b0a6a2e-6f52-4a6c-9d5f-0d6c8f1f7a11",
        "resourceVersion": "184467",
        "generation": 3,
        "creationTimestamp": "2026-03-01T09:58:00Z",
        "labels": {"app": "frontend", "tier": "web", "team": "checkout"},
        "annotations": {"deployment.kubernetes.io/revision": "3"},
        "managedFields": [
            _owned(
                "kubectl", "Apply", "spec.replicas", "spec.template.spec.containers", "metadata.labels.app"
            ),
            _owned("controller", "Update", "status.replicas", "status.conditions", "status.readyReplicas"),
        ],
    },
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "frontend"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
        "template": {
            "metadata": {"labels": {"app": "frontend", "tier": "web"}},
            "spec": {
                "containers": [_container("app")],
                "volumes": [{"name": "config", "configMap": {"name": "frontend", "defaultMode": 420}}],
                "restartPolicy": "Always",
                "serviceAccountName": "frontend",
                "terminationGracePeriodSeconds": 30,
            },
        },
    },
    "status": {
        "observedGeneration": 3,
        "replicas": 3,
        "readyReplicas": 3,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastUpdateTime": "2026-03-01T10:00:00Z",
                "lastTransitionTime": "2026-03-01T10:00:00Z",
                "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
            }
        ],
    },
}


def _import_cost(module: str) -> float:
    """CPU seconds that a fresh process spends on importing a module, after `import kubewright`."""
    program = (
        "import time, kubewright; start = time.process_time(); "
        f"import {module}; print(time.process_time() - start)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def benchmarks() -> list[Benchmark]:
    raw = encode(PLAIN)
    typed = decode(raw, Deployment)
    if to_plain(typed) != PLAIN:
        raise AssertionError("the sample does not survive its type")
    gvk = GroupVersionKind("apps", "v1", "Deployment")
    protobuf = ProtobufCodec(builtin_resources.wire_messages(), builtin_resources.message_name)
    body = protobuf.encode(PLAIN)
    items = {"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {}, "items": [PLAIN] * 100}
    raw_list, list_body = encode(items), protobuf.encode(items)
    size = f"{len(raw) / 1000:.1f} KB Deployment"
    return [
        Benchmark(name=f"decode a {size}", target_us=15, run=lambda: decode(raw, Deployment)),
        Benchmark(name=f"encode a {size}", target_us=6, run=lambda: encode(typed)),
        Benchmark(name="the same to plain data", run=lambda: to_plain(typed)),
        Benchmark(name="the same from plain data", run=lambda: from_plain(PLAIN, Deployment)),
        Benchmark(name="the same from protobuf to plain data", run=lambda: protobuf.decode(body)),
        Benchmark(name="the same from plain data to protobuf", run=lambda: protobuf.encode(PLAIN)),
        Benchmark(name="a list of 100 from JSON to classes", run=lambda: decode(raw_list, DeploymentList)),
        Benchmark(
            name="the same list from protobuf to classes",
            run=lambda: from_plain(protobuf.decode(list_body), DeploymentList),
        ),
        Benchmark(
            name="the same through the typed codec", run=lambda: builtin_resources.as_typed(gvk, PLAIN)
        ),
        Benchmark(name="schema node of Deployment", run=lambda: Node(*builtin_resources.schema_for(gvk))),
        Benchmark(
            name="import kubewright.api.apps.v1",
            target_ms=40,
            run=lambda: _import_cost("kubewright.api.apps.v1"),
            self_timed=True,
        ),
        Benchmark(
            name="import kubewright.api.builtin.resources and parse its table",
            run=lambda: _import_cost("kubewright.api.builtin.resources as b; b.resources()"),
            self_timed=True,
        ),
    ]
