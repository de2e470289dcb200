"""Defaults, refusals, changes and printing of the kinds outside of the core group."""

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
    """Where objects of a kind are."""
    version, plural, namespaced = KINDS[kind]
    return f"/apis/{version}/{'namespaces/ns/' if namespaced else ''}{plural}"


def made(kind: str, fields: Object, name: str = "a") -> Object:
    """An object of a kind."""
    return {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": name}, **fields}


def contains(found: Any, wanted: Any) -> bool:
    """Whether everything wanted is there."""
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

GOOD: list[tuple[str, Object, Object, list[Any]]] = [
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


@pytest.mark.parametrize(("kind", "fields", "wanted", "cells"), GOOD, ids=[case[0] for case in GOOD])
async def test_objects_are_completed_and_printed(
    talk: Any, kind: str, fields: Object, wanted: Object, cells: list[Any]
) -> None:
    answer = await talk.ok("POST", path_of(kind), made(kind, fields))
    assert contains(answer, wanted), answer
    assert await talk.ok("GET", f"{path_of(kind)}/a") == answer
    assert await talk.cells(f"{path_of(kind)}/a") == cells


BAD: list[tuple[str, Object, set[str]]] = [
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
    ("kind", "fields", "faults"), BAD, ids=[f"{case[0]}-{n}" for n, case in enumerate(BAD)]
)
async def test_what_is_wrong_is_named(talk: Any, kind: str, fields: Object, faults: set[str]) -> None:
    assert await talk.faults("POST", path_of(kind), made(kind, fields)) == faults


FIXED: list[tuple[str, Object, Object, set[str]]] = [
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


@pytest.mark.parametrize(("kind", "fields", "change", "faults"), FIXED, ids=[case[0] for case in FIXED])
async def test_what_may_not_change_stays(
    talk: Any, kind: str, fields: Object, change: Object, faults: set[str]
) -> None:
    await talk.ok("POST", path_of(kind), made(kind, fields))
    assert await talk.faults("PATCH", f"{path_of(kind)}/a", change) == faults


async def test_a_new_spec_is_a_new_generation_and_a_status_is_not(talk: Any) -> None:
    budgets = path_of("PodDisruptionBudget")
    await talk.ok("POST", budgets, made("PodDisruptionBudget", {"spec": {"minAvailable": 1}}))
    counted = await talk.ok("PATCH", f"{budgets}/a", {"spec": {"minAvailable": 2}})
    assert counted["metadata"]["generation"] == 2
    status = {"spec": {"minAvailable": 9}, "status": {"currentHealthy": 3}}
    after = await talk.ok("PATCH", f"{budgets}/a/status", status)
    assert after["metadata"]["generation"] == 2
    assert after["spec"]["minAvailable"] == 2
    assert after["status"]["currentHealthy"] == 3
    assert await talk.faults("PATCH", f"{budgets}/a/status", {"status": {"currentHealthy": -1}}) == {
        "status.currentHealthy"
    }


async def test_an_update_creates_where_the_kind_says_so(talk: Any) -> None:
    status, _ = await talk("PUT", f"{path_of('Role')}/new", made("Role", {}, "new"))
    assert status == 201
    status, _ = await talk("PUT", f"{path_of('NetworkPolicy')}/new", made("NetworkPolicy", {}, "new"))
    assert status == 404


async def test_some_kinds_are_updated_only_by_who_has_seen_them(talk: Any) -> None:
    leases = path_of("Lease")
    lease = await talk.ok("POST", leases, made("Lease", {}))
    blind = made("Lease", {"spec": {"holderIdentity": "me"}})
    assert await talk.faults("PUT", f"{leases}/a", blind) == {"metadata.resourceVersion"}
    blind["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
    await talk.ok("PUT", f"{leases}/a", blind)


async def test_storage_kinds_answer_a_delete_with_the_object(talk: Any) -> None:
    classes = path_of("StorageClass")
    await talk.ok("POST", classes, made("StorageClass", {"provisioner": "p"}))
    assert (await talk.ok("DELETE", f"{classes}/a"))["kind"] == "StorageClass"


async def test_slices_are_selected_by_node_and_driver(talk: Any) -> None:
    slices = path_of("ResourceSlice")
    for name, node in (("a", "one"), ("b", "two")):
        pool = {"name": node, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": node, "pool": pool}
        await talk.ok("POST", slices, made("ResourceSlice", {"spec": spec}, name))
    found = await talk.ok("GET", f"{slices}?fieldSelector=spec.driver=d.example.com,spec.nodeName=two")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
