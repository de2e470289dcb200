"""Config maps, secrets, namespaces, nodes, volumes, quotas and the tables of core kinds."""

from __future__ import annotations

import base64
from typing import Any

NS = "/api/v1/namespaces/ns"


async def test_string_data_is_moved_to_data(cluster: Any) -> None:
    secret = await cluster.create(f"{NS}/secrets", "s", stringData={"a": "b"})
    assert secret["type"] == "Opaque"
    assert secret["data"] == {"a": base64.b64encode(b"b").decode()}
    assert "stringData" not in secret


async def test_immutable_objects_cannot_be_changed(cluster: Any) -> None:
    for plural, value in (("configmaps", "x"), ("secrets", "eA==")):
        await cluster.create(f"{NS}/{plural}", "i", immutable=True, data={"a": value})
        status, error = await cluster.patch(f"{NS}/{plural}/i", {"data": {"a": "eQ=="}, "immutable": None})
        assert status == 422
        assert {cause["field"] for cause in error["details"]["causes"]} == {"data", "immutable"}


async def test_well_known_secret_types_require_keys(cluster: Any) -> None:
    wrong = await cluster.rejected(f"{NS}/secrets", "t", type="kubernetes.io/tls", data={})
    assert wrong == {"data[tls.crt]": "Required value", "data[tls.key]": "Required value"}


async def test_a_namespace_is_removed_after_finalize(cluster: Any) -> None:
    made = await cluster.create("/api/v1/namespaces", "n")
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    status, going = await cluster.call("DELETE", "/api/v1/namespaces/n")
    assert (status, going["status"]["phase"]) == (200, "Terminating")
    going["spec"] = {}
    assert (await cluster.call("PUT", "/api/v1/namespaces/n", going))[1]["spec"] == {
        "finalizers": ["kubernetes"]
    }
    _, going = await cluster.call("GET", "/api/v1/namespaces/n")
    going["spec"] = {}
    assert (await cluster.call("PUT", "/api/v1/namespaces/n/finalize", going))[0] == 200
    assert (await cluster.call("GET", "/api/v1/namespaces/n"))[0] == 404


async def test_nodes_are_created_with_a_status(cluster: Any) -> None:
    node = await cluster.create("/api/v1/nodes", "n", status={"capacity": {"cpu": "4"}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
    _, node = await cluster.patch("/api/v1/nodes/n", {"status": {"capacity": {"cpu": "8"}}})
    assert node["status"]["capacity"] == {"cpu": "4"}
    _, node = await cluster.patch("/api/v1/nodes/n/status", {"status": {"capacity": {"cpu": "8"}}})
    assert node["status"]["capacity"] == {"cpu": "8"}
    wrong = await cluster.rejected("/api/v1/nodes", "m", spec={"taints": [{"key": "a", "effect": "X"}]})
    assert "metadata.taints[0].effect" in wrong


async def test_immutable_fields_of_claims(cluster: Any) -> None:
    path = f"{NS}/persistentvolumeclaims"
    wrong = await cluster.rejected(path, "c", spec={})
    assert wrong == {
        "spec.accessModes": "Required value: at least 1 access mode is required",
        "spec.resources[storage]": "Required value",
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = await cluster.create(path, "c", spec={**spec, "storageClassName": "s"})
    assert (claim["spec"]["volumeMode"], claim["status"]) == ("Filesystem", {"phase": "Pending"})
    status, error = await cluster.patch(f"{path}/c", {"spec": {"accessModes": ["ReadWriteMany"]}})
    assert status == 422
    assert "spec is immutable after creation" in error["message"]
    status, _ = await cluster.patch(f"{path}/c", {"spec": {"volumeName": "v"}})
    assert status == 200


async def test_defaults_of_limit_ranges(cluster: Any) -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    made = await cluster.create(f"{NS}/limitranges", "l", spec={"limits": [item]})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


async def test_kinds_that_allow_create_on_update(cluster: Any) -> None:
    body = {
        "metadata": {"name": "e"},
        "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
    }
    status, made = await cluster.call("PUT", f"{NS}/endpoints/e", body)
    assert (status, made["subsets"][0]["ports"]) == (201, [{"port": 80, "protocol": "TCP"}])
    assert (await cluster.call("PUT", f"{NS}/configmaps/c", {"metadata": {"name": "c"}}))[0] == 404


async def test_kinds_that_return_the_deleted_object(cluster: Any) -> None:
    await cluster.create(f"{NS}/serviceaccounts", "a")
    await cluster.create(f"{NS}/configmaps", "a")
    assert (await cluster.call("DELETE", f"{NS}/serviceaccounts/a"))[1]["metadata"]["name"] == "a"
    assert (await cluster.call("DELETE", f"{NS}/configmaps/a"))[1]["kind"] == "Status"


async def test_tables_of_pods(cluster: Any) -> None:
    await cluster.create(
        f"{NS}/pods", "p", spec={"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    )
    await cluster.patch(
        f"{NS}/pods/p/status",
        {
            "status": {
                "phase": "Running",
                "podIP": "1.2.3.4",
                "containerStatuses": [
                    {
                        "name": "c",
                        "image": "i",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    }
                ],
            }
        },
    )
    header, rows = await cluster.table(f"{NS}/pods")
    assert header == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
    row = rows[0]
    assert row[:4] == ["p", "0/1", "CrashLoopBackOff", "3"]
    assert row[5:] == ["1.2.3.4", "n", "<none>", "<none>"]


async def test_component_statuses(cluster: Any) -> None:
    _, rows = await cluster.table("/api/v1/componentstatuses")
    assert [row[:2] for row in rows] == [
        ["controller-manager", "Healthy"],
        ["scheduler", "Unhealthy"],
        ["etcd-0", "Healthy"],
    ]
    assert cluster.warnings == ["v1 ComponentStatus is deprecated in v1.19+"]


async def test_service_accounts_reference_secrets_by_name(cluster: Any) -> None:
    path = "/api/v1/namespaces/ns/serviceaccounts"
    note = "kubernetes.io/enforce-mountable-secrets"
    secrets = [{"name": "a", "kind": "Secret", "namespace": "x"}]
    made = await cluster.create(path, "a", metadata={"annotations": {note: "true"}}, secrets=secrets)
    assert made["secrets"] == [{"name": "a"}]
    assert cluster.warnings[0].startswith(f"metadata.annotations[{note}]: deprecated in v1.32+")


async def test_null_values_of_a_secret_are_empty(cluster: Any) -> None:
    made = await cluster.create(
        "/api/v1/namespaces/ns/secrets", "s", data={"a": None}, stringData={"b": None}
    )
    assert made["data"] == {"a": "", "b": ""}


async def test_pod_cidr_and_pod_cidrs_of_a_node_are_synced(cluster: Any) -> None:
    made = await cluster.create("/api/v1/nodes", "n", spec={"podCIDRs": ["10.0.0.0/24", "fd00::/64"]})
    assert made["spec"]["podCIDR"] == "10.0.0.0/24"
    wrong = await cluster.rejected("/api/v1/nodes", "m", spec={"podCIDR": "10.0.0.1/24"})
    assert wrong["spec.podCIDRs[0]"].endswith("must not have bits set beyond the prefix length")
    await cluster.create("/api/v1/nodes", "p", spec={"providerID": "x"})
    status, response = await cluster.patch("/api/v1/nodes/p", {"spec": {"providerID": "y"}})
    assert status == 422
    assert response["details"]["causes"][0]["reason"] == "FieldValueForbidden"


async def test_errors_about_wrong_types_name_the_field(cluster: Any) -> None:
    volume = {"name": "v", "configMap": {"name": 5}}
    body = {"metadata": {"name": "p"}, "spec": {"volumes": [volume]}}
    status, response = await cluster.call("POST", "/api/v1/namespaces/ns/pods", body)
    assert status == 400
    place = "ConfigMapVolumeSource.spec.volumes.VolumeSource.configMap.LocalObjectReference.name"
    assert response["message"].endswith(f"number into Go struct field {place} of type string")
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": 1.5}]}}
    _, response = await cluster.call("POST", "/api/v1/namespaces/ns/services", body)
    assert response["message"].endswith(
        "number 1.5 into Go struct field ServicePort.spec.ports.targetPort of type int32"
    )


async def test_the_table_of_an_empty_list_of_a_kind_without_columns(cluster: Any) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path in (
        "/api/v1/namespaces/ns/limitranges",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ):
        _, response = await cluster.call("GET", path, accept=table)
        assert [column["name"] for column in response["columnDefinitions"]] == ["Name", "Created At"]
        assert response["rows"] is None


async def test_tables_of_daemon_sets_omit_the_template_generation_annotation(cluster: Any) -> None:
    path = "/apis/apps/v1/namespaces/ns/daemonsets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await cluster.create(path, "d", spec={"selector": {"matchLabels": {"a": "b"}}, "template": template})
    _, response = await cluster.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert "annotations" not in response["rows"][0]["object"]["metadata"]


async def test_table_rows_of_completed_pods_have_a_condition(cluster: Any) -> None:
    path = "/api/v1/namespaces/ns/pods"
    await cluster.create(path, "p", spec={"containers": [{"name": "c", "image": "i"}]})
    await cluster.patch(f"{path}/p/status", {"status": {"phase": "Failed"}})
    _, response = await cluster.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    (condition,) = response["rows"][0]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Completed", "Failed")


async def test_generate_name_prefixes_that_are_not_validated(cluster: Any) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"generateName": "Bad_"}, "spec": {"template": template}}
    status, response = await cluster.call("POST", "/api/v1/namespaces/ns/replicationcontrollers", body)
    assert status == 422
    assert [cause["field"] for cause in response["details"]["causes"]] == ["metadata.name"]
    event = {"involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"}}
    wrong = await cluster.rejected("/api/v1/namespaces/ns/events", "a/b", **event)
    assert wrong == {"metadata.name": "Invalid value: \"a/b\": may not contain '/'"}


async def test_managed_fields_are_dropped_from_objects_that_are_too_large(cluster: Any) -> None:
    """The names of 9,999 keys are in `data` and in `managedFields`; only once they can be stored."""
    path = "/api/v1/namespaces/ns/configmaps"
    data = {f"{number:05}".ljust(100, "x"): "" for number in range(9_999)}

    def config_map(name: str, **data: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

    status, created = await cluster.call("POST", path, config_map("created", **data))
    assert (status, "managedFields" in created["metadata"]) == (201, False)
    for name in ("updated", "patched", "applied"):
        _, small = await cluster.call("POST", path, config_map(name, a="b"))
        assert "managedFields" in small["metadata"]
    status, updated = await cluster.call("PUT", f"{path}/updated", config_map("updated", **data))
    assert (status, "managedFields" in updated["metadata"]) == (200, False)
    status, patched = await cluster.patch(f"{path}/patched", {"data": data})
    assert (status, "managedFields" in patched["metadata"]) == (200, False)
    for name in ("created", "updated", "patched"):
        _, found = await cluster.call("GET", f"{path}/{name}")
        assert (len(found["data"]) >= 9_999, "managedFields" in found["metadata"]) == (True, False)
    status, error = await cluster.call(
        "PATCH",
        f"{path}/applied?fieldManager=m",
        config_map("applied", **data),
        type="application/apply-patch+yaml",
    )
    assert (status, error["message"]) == (500, "etcdserver: request is too large")
