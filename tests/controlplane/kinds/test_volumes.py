"""Persistent volumes and claims."""

from __future__ import annotations

from typing import Any

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/ns/persistentvolumeclaims"
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def on(label: str) -> dict[str, Any]:
    expression = {"key": label, "operator": "Exists"}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


async def test_sources_of_persistent_volumes(cluster: Any) -> None:
    host = {"path": "/x", "type": "X"}
    assert set(await cluster.rejected(VOLUMES, "v", spec={**VOLUME, "hostPath": host})) == {
        "spec.hostPath.type"
    }
    csi = {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}
    wrong = await cluster.rejected(VOLUMES, "v", spec={**VOLUME, "csi": csi})
    assert set(wrong) == {"spec.csi.nodePublishSecretRef.namespace"}
    made = await cluster.create(VOLUMES, "v", spec={**VOLUME, "rbd": {"monitors": ["m"], "image": "i"}})
    assert made["spec"]["rbd"]["pool"] == "rbd"
    assert cluster.warnings == ["spec.rbd: deprecated in v1.28, non-functional in v1.31+"]


async def test_node_affinity_of_a_volume_is_immutable(cluster: Any) -> None:
    old = "beta.kubernetes.io/os"
    await cluster.create(VOLUMES, "v", spec={**VOLUME, "hostPath": {"path": "/x"}, "nodeAffinity": on(old)})
    assert cluster.warnings[0].endswith('is deprecated since v1.14; use "kubernetes.io/os" instead')
    status, _ = await cluster.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": on("kubernetes.io/os")}})
    assert status == 200
    status, response = await cluster.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": on("other")}})
    assert status == 422
    assert response["details"]["causes"][0]["field"] == "nodeAffinity"


async def test_volume_attributes_require_csi(cluster: Any) -> None:
    source = {"hostPath": {"path": "/x"}, "volumeAttributesClassName": "a"}
    assert set(await cluster.rejected(VOLUMES, "v", spec={**VOLUME, **source})) == {"spec.csi"}


async def test_data_source_and_data_source_ref_must_match(cluster: Any) -> None:
    one, other = ({"kind": "PersistentVolumeClaim", "name": name} for name in "ab")
    wrong = await cluster.rejected(CLAIMS, "c", spec={**CLAIM, "dataSource": one, "dataSourceRef": other})
    assert wrong == {"spec": "Invalid value: {}: must match dataSourceRef"}
    elsewhere = {"apiGroup": "x.y", "kind": "Z", "name": "a", "namespace": "n"}
    made = await cluster.create(CLAIMS, "c", spec={**CLAIM, "dataSourceRef": elsewhere})
    assert "dataSourceRef" not in made["spec"]


async def test_the_status_of_a_claim_is_validated(cluster: Any) -> None:
    await cluster.create(CLAIMS, "c", spec=CLAIM)
    for status, field in (
        ({"capacity": {"storage": "-1"}}, "status.capacity[storage]"),
        ({"allocatedResources": {"cpu": "1"}}, "status.allocatedResources"),
        ({"allocatedResourceStatuses": {"storage": "X"}}, "status.allocatedResourceStatuses"),
    ):
        code, response = await cluster.patch(f"{CLAIMS}/c/status", {"status": status})
        assert code == 422
        assert [cause["field"] for cause in response["details"]["causes"]] == [field]
