"""Admission plug-ins for pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import Forbidden


async def test_default_service_account_and_token_volume(cluster: Any) -> None:
    made = (await cluster.pod("a"))["spec"]
    assert made["serviceAccountName"] == "default"
    (volume,) = made["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    token, ca, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert ca["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"
    (mount,) = made["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mount["name"] == volume["name"]


async def test_automount_can_be_disabled(cluster: Any) -> None:
    made = await cluster.pod("a", spec={"automountServiceAccountToken": False})
    assert "volumes" not in made["spec"]


async def test_missing_service_account_is_rejected(cluster: Any) -> None:
    with pytest.raises(Forbidden) as excinfo:
        await cluster.pod("a", spec={"serviceAccountName": "ghost"})
    assert excinfo.value.message == (
        'pods "a" is forbidden: error looking up service account ns/ghost: serviceaccount "ghost" not found'
    )


async def test_image_pull_secrets_of_the_service_account(cluster: Any) -> None:
    body = {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "registry"}]}
    await cluster.client.create(
        f"{cluster.core}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", **body}
    )
    made = await cluster.pod("a", spec={"serviceAccountName": "puller"})
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]


async def test_default_tolerations_and_priority(cluster: Any) -> None:
    spec = (await cluster.pod("a"))["spec"]
    keys = [(each["key"], each["tolerationSeconds"]) for each in spec["tolerations"]]
    assert keys == [("node.kubernetes.io/not-ready", 300), ("node.kubernetes.io/unreachable", 300)]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


async def test_priority_classes(cluster: Any) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await cluster.make(path, "PriorityClass", "high", value=1000, preemptionPolicy="Never")
    spec = (await cluster.pod("a", spec={"priorityClassName": "high"}))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    with pytest.raises(Forbidden, match="no PriorityClass with name none was found"):
        await cluster.pod("b", spec={"priorityClassName": "none"})
    with pytest.raises(Forbidden, match=r"the integer value of priority \(5\) must not be provided"):
        await cluster.pod("c", spec={"priorityClassName": "high", "priority": 5})
    await cluster.make(path, "PriorityClass", "usual", value=10, globalDefault=True)
    assert (await cluster.pod("d"))["spec"]["priorityClassName"] == "usual"
    with pytest.raises(Forbidden, match="PriorityClass usual is already marked as default"):
        await cluster.make(path, "PriorityClass", "second", value=20, globalDefault=True)


async def test_limit_ranges(cluster: Any) -> None:
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "100m"},
            "max": {"cpu": "1"},
        }
    ]
    await cluster.make(f"{cluster.core}/limitranges", "LimitRange", "l", spec={"limits": limits})
    made = await cluster.pod("a")
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "100m"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )
    big = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}
    with pytest.raises(Forbidden, match="maximum cpu usage per Container is 1, but limit is 2"):
        await cluster.pod("b", spec=big)


async def test_runtime_classes(cluster: Any) -> None:
    await cluster.make(
        "/apis/node.k8s.io/v1/runtimeclasses",
        "RuntimeClass",
        "sandbox",
        handler="sandbox",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={"nodeSelector": {"sandbox": "yes"}},
    )
    spec = (await cluster.pod("a", spec={"runtimeClassName": "sandbox"}))["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"sandbox": "yes"}
    with pytest.raises(Forbidden, match='RuntimeClass "none" not found'):
        await cluster.pod("b", spec={"runtimeClassName": "none"})


async def test_default_storage_class_and_protection_finalizers(cluster: Any) -> None:
    await cluster.client.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "fast",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "example.com/fast",
        },
    )
    made = await cluster.make(
        f"{cluster.core}/persistentvolumeclaims",
        "PersistentVolumeClaim",
        "c",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    )
    assert made["spec"]["storageClassName"] == "fast"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_new_nodes_are_not_ready(cluster: Any) -> None:
    made = await cluster.make("/api/v1/nodes", "Node", "n")
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_pod_security_levels(cluster: Any) -> None:
    path = "/api/v1/namespaces/ns"
    label = "pod-security.kubernetes.io/"
    privileged = {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}
    await cluster.pod("before", spec=privileged)
    await cluster.client.merge(path, {"metadata": {"labels": {f"{label}enforce": "baseline"}}})
    with pytest.raises(Forbidden) as excinfo:
        await cluster.pod("a", spec=privileged)
    assert excinfo.value.message == (
        'pods "a" is forbidden: violates PodSecurity "baseline:latest": '
        'privileged (container "c" must not set securityContext.privileged=true)'
    )
    await cluster.pod("plain")
    await cluster.client.merge(path, {"metadata": {"labels": {f"{label}enforce": "restricted"}}})
    with pytest.raises(Forbidden) as excinfo:
        await cluster.pod("b")
    assert excinfo.value.message == (
        'pods "b" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
        '(container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities '
        '(container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or '
        'container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" '
        'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    hardened = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "i", "securityContext": context}],
    }
    await cluster.pod("hardened", spec=hardened)
