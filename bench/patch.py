"""Patches and field ownership: cost per write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from kubewright.api.builtin.schemas import schema_for
from kubewright.api.gvk import GroupVersionKind
from kubewright.patch import (
    FieldManager,
    FieldSet,
    json_patch,
    merge_patch,
    strategic_merge_diff,
    strategic_merge_patch,
    zero_value,
)
from kubewright.schema.structural import Node

from . import Benchmark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = "apps/v1"
Object = dict[str, Any]


def _container(name: str) -> Object:
    return {
        "name": name,
        "image": f"registry.example.com/{name}:1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"VARIABLE_{number}", "value": f"value {number}"} for number in range(3)],
        "ports": [{"containerPort": 8080, "name": f"{name}-http", "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "10m"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def _deployment() -> Object:
    return {
        "apiVersion": VERSION,
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [_container(name) for name in ("web", "proxy", "metrics")],
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30,
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    }


def _status(ready: int) -> Object:
    condition = {
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "message": "Deployment has minimum availability.",
        "reason": "MinimumReplicasAvailable",
        "status": "True",
    }
    return {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "conditions": [{"type": "Available", **condition}, {"type": "Progressing", **condition}],
    }


def _decoded(value: Object) -> Object:
    """Return a copy that shares nothing, like a decoded request."""
    copy: Object = msgspec.json.decode(msgspec.json.encode(value))
    return copy


def benchmarks() -> list[Benchmark]:
    """Updates of owners, apply, and each kind of patch."""
    node = Node(*schema_for(GroupVersionKind("apps", "v1", "Deployment")))
    empty = zero_value(node)
    main = FieldManager(
        VERSION, "Deployment", node, ignored={VERSION: FieldSet.of(("f:status",))}, empty=empty
    )
    status = FieldManager(
        VERSION,
        "Deployment",
        node,
        subresource="status",
        ignored={VERSION: FieldSet.of(("f:spec",), ("f:metadata",))},
        empty=empty,
    )
    config = _deployment()
    made = main.update(None, config, "kubectl-create", NOW)
    live = _decoded(status.update(made, {**made, "status": _status(1)}, "controller", NOW))
    patched = {**live, "status": {**live["status"], "readyReplicas": 2, "availableReplicas": 2}}
    sent = _decoded(patched)
    bare = _decoded({**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}})

    applied = _decoded(main.apply(None, config, "deployer", NOW))
    changed = _decoded(config)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/web:2.0.0"

    template = live["spec"]
    strategic_patch = {
        "template": {
            "spec": {
                "$setElementOrder/containers": [{"name": name} for name in ("web", "proxy", "metrics")],
                "containers": [
                    {"name": "web", "image": "web:2", "env": [{"name": "VARIABLE_1", "value": "new"}]},
                    {"name": "metrics", "$patch": "delete"},
                ],
            }
        }
    }
    spec_node = node.properties["spec"]
    merge = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 4, "paused": None}}
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
        {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "X", "value": "y"}},
    ]
    return [
        Benchmark(
            name="managedFields: status PUT, nothing shared",
            run=lambda: status.update(live, sent, "controller", NOW),
            target_us=250,
        ),
        Benchmark(
            name="managedFields: status patch, structure shared",
            run=lambda: status.update(live, patched, "controller", NOW),
            target_us=250,
        ),
        Benchmark(
            name="managedFields: update that changes nothing",
            run=lambda: main.update(live, bare, "controller", NOW),
            target_us=250,
        ),
        Benchmark(
            name="managedFields: create", run=lambda: main.update(None, config, "creator", NOW), target_us=400
        ),
        Benchmark(
            name="apply: create", run=lambda: main.apply(None, config, "deployer", NOW), target_us=1000
        ),
        Benchmark(
            name="apply: one image changes",
            run=lambda: main.apply(applied, changed, "deployer", NOW),
            target_us=2000,
        ),
        Benchmark(
            name="apply: the same again",
            run=lambda: main.apply(applied, config, "deployer", NOW),
            target_us=2000,
        ),
        Benchmark(
            name="strategic: 3-container pod template",
            run=lambda: strategic_merge_patch.apply(template, strategic_patch, spec_node),
            target_us=150,
        ),
        Benchmark(
            name="strategic diff: kubectl apply, three ways",
            run=lambda: strategic_merge_diff.three_way(config, changed, live, node),
            target_us=500,
        ),
        Benchmark(name="merge patch", run=lambda: merge_patch.apply(live, merge), target_us=20),
        Benchmark(name="merge patch diff", run=lambda: merge_patch.diff(live, sent), target_us=100),
        Benchmark(
            name="JSON patch, three operations", run=lambda: json_patch.apply(live, operations), target_us=50
        ),
    ]
