"""Defaults, validation, immutability and printing of kinds outside the core group."""

from __future__ import annotations

from typing import Any

import pytest

Object = dict[str, Any]

KINDS = {
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses", False),
    "RuntimeClass": ("node.k8s.io/v1", "runtimeclasses", False),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True),
    "Ingress": ("networking.k8s.io/v1", "ingresses", True),
    "IngressClass": ("networking.k8s.io/v1", "ingressclasses", False),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "IPAddress": ("networking.k8s.io/v1", "ipaddresses", False),
    "ServiceCIDR": ("networking.k8s.io/v1", "servicecidrs", False),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses", False),
    "CSIDriver": ("storage.k8s.io/v1", "csidrivers", False),
    "CSINode": ("storage.k8s.io/v1", "csinodes", False),
    "CSIStorageCapacity": ("storage.k8s.io/v1", "csistoragecapacities", True),
    "VolumeAttachment": ("storage.k8s.io/v1", "volumeattachments", False),
    "VolumeAttributesClass": ("storage.k8s.io/v1", "volumeattributesclasses", False),
    "FlowSchema": ("flowcontrol.apiserver.k8s.io/v1", "flowschemas", False),
    "PriorityLevelConfiguration": ("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", False),
    "APIService": ("apiregistration.k8s.io/v1", "apiservices", False),
    "ResourceClaim": ("resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("resource.k8s.io/v1", "resourceclaimtemplates", True),
    "DeviceClass": ("resource.k8s.io/v1", "deviceclasses", False),
    "ResourceSlice": ("resource.k8s.io/v1", "resourceslices", False),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers", True),
}


def path_of(kind: str) -> str:
    """Return the collection path of a kind."""
    version, plural, namespaced = KINDS[kind]
    return f"/apis/{version}/{'namespaces/ns/' if namespaced else ''}{plural}"


def new_object(kind: str, fields: Object, name: str = "a") -> Object:
    """Return an object of a kind."""
    return {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": name}, **fields}


def contains(found: Any, wanted: Any) -> bool:
    """Report whether `found` contains everything in `wanted`."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(contains(found.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(contains, found, wanted))
    return bool(found == wanted)


BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
BLOCK = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
SELF = {"kind": "Role", "name": "reader"}

VALID: list[tuple[str, Object, Object, list[Any]]] = [
    ("Role", {"rules": [READ]}, {"rules": [READ]}, ["a"]),
    (
        "RoleBinding",
        {
            "roleRef": SELF,
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
        },
        {
            "roleRef": {**SELF, "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io"}, {"name": "s"}],
        },
        ["a", "Role/reader", "u", "", "/s"],
    ),
    ("Lease", {"spec": {"holderIdentity": "me"}}, {"spec": {"holderIdentity": "me"}}, ["a", "me"]),
    (
        "PriorityClass",
        {"value": 7},
        {"preemptionPolicy": "PreemptLowerPriority", "metadata": {"generation": 1}},
        ["a", 7, False, "PreemptLowerPriority"],
    ),
    ("RuntimeClass", {"handler": "runc"}, {"handler": "runc"}, ["a", "runc"]),
    (
        "PodDisruptionBudget",
        {"spec": {"minAvailable": "50%"}},
        {"metadata": {"generation": 1}, "status": {"disruptionsAllowed": 0}},
        ["a", "50%", "N/A", 0],
    ),
    (
        "EndpointSlice",
        {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]},
        {"ports": [{"name": "", "protocol": "TCP", "port": 80}]},
        ["a", "IPv4", "80", "10.0.0.1"],
    ),
    (
        "Ingress",
        {"spec": {"defaultBackend": BACKEND, "rules": [{"host": "a.example.com"}]}},
        {"metadata": {"generation": 1}, "status": {"loadBalancer": {}}},
        ["a", "<none>", "a.example.com", "", "80"],
    ),
    (
        "IngressClass",
        {"spec": {"controller": "example.com/c", "parameters": {"kind": "P", "name": "p"}}},
        {"spec": {"parameters": {"scope": "Cluster"}}},
        ["a", "example.com/c", "P/p"],
    ),
    (
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {"matchLabels": {"a": "b"}},
                "egress": [{"ports": [{"port": 53}], "to": [BLOCK]}],
            }
        },
        {"spec": {"policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"protocol": "TCP"}]}]}},
        ["a", "a=b"],
    ),
    (
        "StorageClass",
        {"provisioner": "example.com/p"},
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ["a", "example.com/p", "Delete", "Immediate", False],
    ),
    (
        "CSIDriver",
        {},
        {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Persistent"]}},
        ["a", True, False, False, "<unset>", False, "Persistent"],
    ),
    (
        "FlowSchema",
        {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
        {"spec": {"matchingPrecedence": 1000}, "metadata": {"generation": 1}},
        ["a", "exempt", 1000, "<none>", "?"],
    ),
    (
        "PriorityLevelConfiguration",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
        {"spec": {"limited": {"nominalConcurrencyShares": 30, "limitResponse": {"queuing": {"queues": 64}}}}},
        ["a", "Limited", 30, 64, 8, 50],
    ),
    (
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}},
        {"spec": {"devices": {"requests": [{"exactly": {"allocationMode": "ExactCount", "count": 1}}]}}},
        ["a", "pending"],
    ),
    (
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {"expression": "device.attributes['x'].ready"}}]}},
        {"metadata": {"generation": 1}},
        ["a"],
    ),
    (
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "behavior": {"scaleDown": {}}}},
        {
            "spec": {
                "minReplicas": 1,
                "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 80}}}],
                "behavior": {"scaleUp": {"selectPolicy": "Max"}, "scaleDown": {"selectPolicy": "Max"}},
            }
        },
        ["a", "Deployment/web", "cpu: <unknown>/80%", "1", 3, 0],
    ),
]


@pytest.mark.parametrize(("kind", "fields", "wanted", "cells"), VALID, ids=[case[0] for case in VALID])
async def test_objects_are_defaulted_and_printed(
    api: Any, kind: str, fields: Object, wanted: Object, cells: list[Any]
) -> None:
    response = await api.ok("POST", path_of(kind), new_object(kind, fields))
    assert contains(response, wanted), response
    assert await api.ok("GET", f"{path_of(kind)}/a") == response
    assert await api.cells(f"{path_of(kind)}/a") == cells


INVALID: list[tuple[str, Object, set[str]]] = [
    ("Role", {"rules": [{}]}, {"rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"}),
    ("Role", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, {"rules[0].nonResourceURLs"}),
    (
        "RoleBinding",
        {"subjects": [{}]},
        {"roleRef.kind", "roleRef.name", "subjects[0].kind", "subjects[0].name"},
    ),
    ("ClusterRoleBinding", {"roleRef": SELF}, {"roleRef.kind"}),
    ("ClusterRole", {"aggregationRule": {}}, {"aggregationRule.clusterRoleSelectors"}),
    ("Lease", {"spec": {"leaseDurationSeconds": 0}}, {"spec.leaseDurationSeconds"}),
    ("PriorityClass", {"value": 1_000_000_001}, {"value"}),
    ("RuntimeClass", {"handler": "A"}, {"handler"}),
    (
        "PodDisruptionBudget",
        {"spec": {"minAvailable": "200%", "maxUnavailable": -1}},
        {"spec", "spec.minAvailable", "spec.maxUnavailable"},
    ),
    (
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}]},
        {"endpoints[0].addresses[0]"},
    ),
    ("EndpointSlice", {}, {"addressType"}),
    ("Ingress", {}, {"spec"}),
    (
        "Ingress",
        {
            "spec": {
                "rules": [
                    {
                        "host": "1.2.3.4",
                        "http": {"paths": [{"pathType": "Exact", "path": "x", "backend": {}}]},
                    }
                ]
            }
        },
        {"spec.rules[0].host", "spec.rules[0].http.paths[0].path", "spec.rules[0].http.paths[0].backend"},
    ),
    ("IngressClass", {"spec": {"controller": "x"}}, {"spec.controller"}),
    (
        "NetworkPolicy",
        {
            "spec": {
                "ingress": [{"ports": [{"port": 5, "endPort": 4}], "from": [{}, {"ipBlock": {"cidr": "x"}}]}]
            }
        },
        {
            "spec.ingress[0].ports[0].endPort",
            "spec.ingress[0].from[0]",
            "spec.ingress[0].from[1].ipBlock.cidr",
        },
    ),
    ("IPAddress", {}, {"metadata.name", "spec.parentRef"}),
    ("ServiceCIDR", {"spec": {"cidrs": ["10.0.0.0/24", "10.1.0.0/24"]}}, {"spec.cidrs"}),
    ("StorageClass", {"volumeBindingMode": "Later"}, {"provisioner", "volumeBindingMode"}),
    (
        "CSIDriver",
        {"spec": {"tokenRequests": [{"expirationSeconds": 5}]}},
        {"spec.tokenRequests[0].expirationSeconds"},
    ),
    ("CSINode", {"spec": {"drivers": [{"name": "x"}]}}, {"spec.drivers[0].nodeID"}),
    ("CSIStorageCapacity", {"capacity": "-1", "storageClassName": "x"}, {"capacity"}),
    ("VolumeAttachment", {}, {"spec.attacher", "spec.source", "spec.nodeName"}),
    ("VolumeAttributesClass", {"driverName": "x"}, {"parameters"}),
    (
        "FlowSchema",
        {"spec": {"matchingPrecedence": 1}},
        {"spec.matchingPrecedence", "spec.priorityLevelConfiguration.name"},
    ),
    ("PriorityLevelConfiguration", {"spec": {"type": "Limited"}}, {"spec.limited"}),
    (
        "APIService",
        {"spec": {"group": "g.example.com", "version": "v1"}},
        {"metadata.name", "spec.groupPriorityMinimum", "spec.versionPriority"},
    ),
    ("ResourceClaim", {"spec": {"devices": {"requests": [{"name": "r"}]}}}, {"spec.devices.requests[0]"}),
    (
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {"expression": "1"}}]}},
        {"spec.selectors[0].cel.expression"},
    ),
    ("ResourceSlice", {}, {"spec", "spec.driver", "spec.pool.name", "spec.pool.resourceSliceCount"}),
    (
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "minReplicas": 3,
                "maxReplicas": 2,
                "scaleTargetRef": {**TARGET, "apiVersion": "v1"},
                "metrics": [{}],
            }
        },
        {"spec.maxReplicas", "spec.scaleTargetRef.apiVersion", "spec.metrics[0].type"},
    ),
]


@pytest.mark.parametrize(
    ("kind", "fields", "invalid_fields"), INVALID, ids=[f"{case[0]}-{n}" for n, case in enumerate(INVALID)]
)
async def test_invalid_objects_are_rejected(
    api: Any, kind: str, fields: Object, invalid_fields: set[str]
) -> None:
    assert await api.invalid_fields("POST", path_of(kind), new_object(kind, fields)) == invalid_fields


IMMUTABLE: list[tuple[str, Object, Object, set[str]]] = [
    ("RoleBinding", {"roleRef": SELF}, {"roleRef": {"name": "other"}}, {"roleRef"}),
    ("PriorityClass", {"value": 1}, {"value": 2}, {"value"}),
    ("RuntimeClass", {"handler": "a"}, {"handler": "b"}, {"handler"}),
    ("EndpointSlice", {"addressType": "IPv4"}, {"addressType": "IPv6"}, {"addressType"}),
    (
        "IngressClass",
        {"spec": {"controller": "a.b/c"}},
        {"spec": {"controller": "a.b/d"}},
        {"spec.controller"},
    ),
    (
        "ServiceCIDR",
        {"spec": {"cidrs": ["10.9.0.0/24"]}},
        {"spec": {"cidrs": ["10.8.0.0/24"]}},
        {"spec.cidrs[0]"},
    ),
    (
        "StorageClass",
        {"provisioner": "a"},
        {"provisioner": "b", "parameters": {"c": "d"}},
        {"provisioner", "parameters"},
    ),
    ("CSIDriver", {}, {"spec": {"attachRequired": False}}, {"spec.attachedRequired"}),
    ("ResourceClaimTemplate", {}, {"spec": {"metadata": {"labels": {"a": "b"}}}}, {"spec"}),
]


@pytest.mark.parametrize(
    ("kind", "fields", "change", "invalid_fields"), IMMUTABLE, ids=[case[0] for case in IMMUTABLE]
)
async def test_immutable_fields(
    api: Any, kind: str, fields: Object, change: Object, invalid_fields: set[str]
) -> None:
    await api.ok("POST", path_of(kind), new_object(kind, fields))
    assert await api.invalid_fields("PATCH", f"{path_of(kind)}/a", change) == invalid_fields


async def test_generation_counts_changes_of_the_spec(api: Any) -> None:
    budgets = path_of("PodDisruptionBudget")
    await api.ok("POST", budgets, new_object("PodDisruptionBudget", {"spec": {"minAvailable": 1}}))
    counted = await api.ok("PATCH", f"{budgets}/a", {"spec": {"minAvailable": 2}})
    assert counted["metadata"]["generation"] == 2
    status = {"spec": {"minAvailable": 9}, "status": {"currentHealthy": 3}}
    after = await api.ok("PATCH", f"{budgets}/a/status", status)
    assert after["metadata"]["generation"] == 2
    assert after["spec"]["minAvailable"] == 2
    assert after["status"]["currentHealthy"] == 3
    assert await api.invalid_fields("PATCH", f"{budgets}/a/status", {"status": {"currentHealthy": -1}}) == {
        "status.currentHealthy"
    }


async def test_kinds_that_allow_create_on_update(api: Any) -> None:
    status, _ = await api("PUT", f"{path_of('Role')}/new", new_object("Role", {}, "new"))
    assert status == 201
    status, _ = await api("PUT", f"{path_of('NetworkPolicy')}/new", new_object("NetworkPolicy", {}, "new"))
    assert status == 404


async def test_kinds_that_require_a_resource_version_on_update(api: Any) -> None:
    leases = path_of("Lease")
    lease = await api.ok("POST", leases, new_object("Lease", {}))
    update = new_object("Lease", {"spec": {"holderIdentity": "me"}})
    assert await api.invalid_fields("PUT", f"{leases}/a", update) == {"metadata.resourceVersion"}
    update["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
    await api.ok("PUT", f"{leases}/a", update)


async def test_delete_of_storage_kinds_returns_the_object(api: Any) -> None:
    classes = path_of("StorageClass")
    await api.ok("POST", classes, new_object("StorageClass", {"provisioner": "p"}))
    assert (await api.ok("DELETE", f"{classes}/a"))["kind"] == "StorageClass"


async def test_field_selectors_of_resource_slices(api: Any) -> None:
    slices = path_of("ResourceSlice")
    for name, node in (("a", "one"), ("b", "two")):
        pool = {"name": node, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": node, "pool": pool}
        await api.ok("POST", slices, new_object("ResourceSlice", {"spec": spec}, name))
    found = await api.ok("GET", f"{slices}?fieldSelector=spec.driver=d.example.com,spec.nodeName=two")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
