"""Admission plug-ins that read nodes and storage classes: topology labels, resizes of pods and claims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.errors import Forbidden
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.admission import OFF_BY_DEFAULT, PLUGINS, check_names

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SMALL = {"requests": {"cpu": "100m", "memory": "10Mi"}}


async def node(cluster: Any, name: str, *features: str, **labels: str) -> None:
    metadata = {
        "name": name,
        "labels": {key.replace("__", "/").replace("_", "."): labels[key] for key in labels},
    }
    await cluster.client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}, "declaredFeatures": list(features)}
    await cluster.client.merge(f"/api/v1/nodes/{name}/status", {"status": status})


async def resize(cluster: Any, pod: str, **spec: Any) -> dict[str, Any]:
    """Change some fields of the spec; lists are replaced."""
    path = f"{cluster.core}/pods/{pod}"
    changed: dict[str, Any] = await cluster.client.merge(f"{path}/resize", {"spec": spec})
    return changed


def container(cpu: str, name: str = "c") -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "10Mi"}}}


async def test_topology_labels_are_copied_to_pods(cluster: Any) -> None:
    await node(cluster, "n", topology_kubernetes_io__zone="z", topology_kubernetes_io__region="r", rack="7")
    made = await cluster.pod("named", spec={"nodeName": "n"}, labels={ZONE: "mine", "app": "a"})
    assert made["metadata"]["labels"] == {ZONE: "z", REGION: "r", "app": "a"}
    made = await cluster.pod("elsewhere", spec={"nodeName": "gone"}, labels={ZONE: "mine"})
    assert made["metadata"]["labels"] == {ZONE: "mine"}
    assert "labels" not in (await cluster.pod("bound"))["metadata"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound", "labels": {"extra": "1", REGION: "wrong"}},
        "target": {"kind": "Node", "name": "n"},
    }
    response = await cluster.send("POST", f"{cluster.core}/pods/bound/binding", json.dumps(binding).encode())
    assert response.status == 201
    bound = await cluster.client.get(f"{cluster.core}/pods/bound")
    assert bound["metadata"]["labels"] == {ZONE: "z", REGION: "r", "extra": "1"}


async def test_resize_beyond_node_capacity_is_rejected(cluster: Any) -> None:
    await node(cluster, "n")
    await cluster.pod("p", spec={"nodeName": "n", "containers": [container("100m")]})
    assert (await resize(cluster, "p", containers=[container("2")]))["metadata"]["generation"] == 2
    with pytest.raises(Forbidden) as excinfo:
        await resize(cluster, "p", containers=[container("2001m")])
    assert excinfo.value.message == (
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: '
        "cpu, requested: 2001, allocatable: 2000"
    )
    assert excinfo.value.causes == [{"reason": "NodeCapacity"}]


async def test_resize_requires_a_linux_node(cluster: Any) -> None:
    await node(cluster, "w", kubernetes_io__os="windows")
    for name, where in (("p", "w"), ("q", "ghost"), ("free", "")):
        await cluster.pod(name, spec={"nodeName": where, "containers": [container("100m")]})
    with pytest.raises(Forbidden, match='only supported on linux nodes, node "w" is "windows"') as excinfo:
        await resize(cluster, "p", containers=[container("200m")])
    assert excinfo.value.causes == [{"reason": "UnsupportedPlatform"}]
    with pytest.raises(Forbidden, match='node "ghost" not found'):
        await resize(cluster, "q", containers=[container("200m")])
    assert (await resize(cluster, "free", containers=[container("9")]))["metadata"]["generation"] == 2
    unchanged = await resize(cluster, "q", containers=[container("100m")])
    assert unchanged["metadata"]["generation"] == 1


async def test_changes_that_require_node_declared_features(cluster: Any) -> None:
    whole, early = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"
    await node(cluster, "old")
    await node(cluster, "new", whole, early)
    spec = {"containers": [container("100m")], "initContainers": [container("100m", "i")], "resources": SMALL}
    change = {"initContainers": [container("200m", "i")], "resources": {"requests": {"cpu": "300m"}}}
    for name in ("old", "new"):
        await cluster.pod(name, spec={**spec, "nodeName": name})
    with pytest.raises(Forbidden) as excinfo:
        await resize(cluster, "old", **change)
    assert excinfo.value.message == (
        f'pods "old" is forbidden: pod update requires features {whole}, {early} which are not available on '
        'node "old"'
    )
    changed = (await resize(cluster, "new", **change))["spec"]
    assert changed["initContainers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert changed["resources"]["requests"]["cpu"] == "300m"


async def test_claim_resize_requires_allow_volume_expansion(cluster: Any) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    await cluster.make(classes, "StorageClass", "grows", provisioner="x/y", allowVolumeExpansion=True)
    await cluster.make(classes, "StorageClass", "fixed", provisioner="x/y")
    claims = f"{cluster.core}/persistentvolumeclaims"
    for name in ("grows", "fixed", "missing"):
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": resources}
        await cluster.make(claims, "PersistentVolumeClaim", name, spec=spec)
        status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        await cluster.client.merge(f"{claims}/{name}/status", {"status": status})
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    grown = await cluster.client.merge(f"{claims}/grows", more)
    assert grown["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    for name in ("fixed", "missing"):
        with pytest.raises(Forbidden) as excinfo:
            await cluster.client.merge(f"{claims}/{name}", more)
        assert excinfo.value.message == (
            f'persistentvolumeclaims "{name}" is forbidden: only dynamically provisioned pvc can be resized'
            " and the storageclass that provisions the pvc must support resize"
        )
        await cluster.client.merge(f"{claims}/{name}", {"metadata": {"labels": {"still": "writable"}}})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"disable_admission_plugins": ["Nope"]}, 'disable-admission-plugins plugin "Nope" is unknown'),
        ({"enable_admission_plugins": ["Nope"]}, 'enable-admission-plugins plugin "Nope" is unknown'),
        (
            {"enable_admission_plugins": ["PodSecurity"], "disable_admission_plugins": ["PodSecurity"]},
            r"\[PodSecurity\] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
    ],
)
def test_plugin_names(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ControlPlane(port=None, **settings)


async def test_each_plugin_can_be_disabled() -> None:
    names = PLUGINS
    check_names(enable=(), disable=[*names, "PodGroupProtection"])
    async with ControlPlane(port=None) as plane:
        assert {*names} - {each.name for each in plane.server.admission.plugins} == OFF_BY_DEFAULT


async def test_each_plugin_can_be_enabled() -> None:
    async with ControlPlane(port=None, enable_admission_plugins=sorted(OFF_BY_DEFAULT)) as plane:
        names = [each.name for each in plane.server.admission.plugins]
        assert [name for name in names if name in PLUGINS] == [*PLUGINS]
