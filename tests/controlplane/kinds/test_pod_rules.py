"""Validation of pod specs: operating systems, addresses, volume sources, warnings."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/ns/pods"
CONTAINER = {"name": "c", "image": "i"}


def spec(**rest: Any) -> dict[str, Any]:
    return {"containers": [CONTAINER], **rest}


async def test_fields_of_disabled_features_are_dropped(cluster: Any) -> None:
    container = {**CONTAINER, "lifecycle": {"stopSignal": "SIGTERM"}}
    source = {
        "downwardAPI": {"items": [{"path": "p", "user": 1, "fieldRef": {"fieldPath": "metadata.name"}}]}
    }
    volume = {"name": "v", "projected": {"sources": [source], "defaultUser": 1}}
    pod = await cluster.create(PODS, "p", spec={"containers": [container], "volumes": [volume]})
    assert "lifecycle" not in pod["spec"]["containers"][0]
    projected = pod["spec"]["volumes"][0]["projected"]
    assert "defaultUser" not in projected
    assert "user" not in projected["sources"][0]["downwardAPI"]["items"][0]
    assert cluster.warnings == []  # dropped without a warning, unlike unknown fields


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ({"iscsi": {"targetPortal": "t", "iqn": "bad", "lun": 300}}, {"iscsi.iqn", "iscsi.lun"}),
        ({"fc": {}}, {"fc.targetWWNs"}),
        ({"fc": {"targetWWNs": ["a"]}}, {"fc.lun"}),
        ({"flexVolume": {"driver": "d", "options": {"k8s.io/x": "y"}}}, {"flexVolume.options[k8s.io/x]"}),
        (
            {"azureDisk": {"diskName": "a", "diskURI": "b", "kind": "X"}},
            {"azureDisk.kind", "azureDisk.diskURI"},
        ),
        ({"quobyte": {"registry": "a", "volume": "v"}}, {"quobyte.registry"}),
        ({"flocker": {}}, {"flocker"}),
        ({"csi": {"driver": "-bad"}}, {"csi.driver"}),
        ({"gcePersistentDisk": {"pdName": "a", "partition": 300}}, {"persistentDisk.partition"}),
        ({"image": {"reference": "", "pullPolicy": "X"}}, {"image.reference", "image.pullPolicy"}),
    ],
)
async def test_volume_sources(cluster: Any, source: dict[str, Any], wrong: set[str]) -> None:
    rejected = await cluster.rejected(PODS, "p", spec=spec(volumes=[{"name": "v", **source}]))
    assert set(rejected) == {f"spec.volumes[0].{field}" for field in wrong}


async def test_options_of_another_operating_system_are_forbidden(cluster: Any) -> None:
    rejected = await cluster.rejected(
        PODS, "p", spec=spec(os={"name": "windows"}, hostPID=True, securityContext={"runAsUser": 1})
    )
    assert rejected == {
        "spec.hostPID": "Forbidden: cannot be set for a windows pod",
        "spec.securityContext.runAsUser": "Forbidden: cannot be set for a windows pod",
    }
    options = {"windowsOptions": {"runAsUserName": "a"}}
    rejected = await cluster.rejected(PODS, "p", spec=spec(os={"name": "linux"}, securityContext=options))
    assert set(rejected) == {"spec.securityContext.windowsOptions"}
    options = {"windowsOptions": {"hostProcess": True, "runAsUserName": "d/\\u"}}
    rejected = await cluster.rejected(PODS, "p", spec=spec(securityContext=options))
    assert set(rejected) == {"spec.hostNetwork", "spec.securityContext.windowsOptions.runAsUserName"}


async def test_annotations_are_validated(cluster: Any) -> None:
    mirror, cost = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"
    armor = "container.apparmor.security.beta.kubernetes.io/"
    notes = {mirror: "x", cost: "+5", f"{armor}other": "runtime/default"}
    rejected = await cluster.rejected(PODS, "p", metadata={"annotations": notes}, spec=spec())
    assert set(rejected) == {f"metadata.annotations[{key}]" for key in notes}
    pod = await cluster.create(PODS, "p", metadata={"annotations": {f"{armor}c": "localhost/x"}}, spec=spec())
    profile = {"type": "Localhost", "localhostProfile": "x"}
    assert pod["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}
    assert len(cluster.warnings) == 1
    status, response = await cluster.patch(f"{PODS}/p", {"metadata": {"annotations": {f"{armor}c": None}}})
    assert status == 422
    assert response["details"]["causes"][0]["message"] == (
        "Forbidden: may not remove or update AppArmor annotations"
    )


async def test_resource_claims(cluster: Any) -> None:
    claims = [{"name": "a"}, {"name": "a", "resourceClaimName": "b"}]
    rejected = await cluster.rejected(PODS, "p", spec=spec(resourceClaims=claims))
    assert rejected["spec.resourceClaims[1].name"] == 'Duplicate value: "a"'
    assert "must specify one of" in rejected["spec.resourceClaims[0]"]


async def test_pod_level_resources_cover_those_of_containers(cluster: Any) -> None:
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    sidecar = {**container, "name": "s", "restartPolicy": "Always"}
    whole = {
        "containers": [container],
        "initContainers": [sidecar],
        "resources": {"requests": {"cpu": "1500m"}},
    }
    rejected = await cluster.rejected(PODS, "p", spec=whole)
    assert rejected == {
        "spec.resources.requests[cpu]": (
            'Invalid value: "1500m": must be greater than or equal to aggregate container requests of 2'
        )
    }
    rejected = await cluster.rejected(
        PODS, "p", spec=spec(resources={"limits": {"ephemeral-storage": "1Gi"}})
    )
    assert set(rejected) == {"spec.resources.limits[ephemeral-storage]"}


async def test_match_label_keys(cluster: Any) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["x"],
        "labelSelector": {"matchLabels": {"x": "y"}},
    }
    rejected = await cluster.rejected(
        PODS, "p", metadata={"labels": {"x": "y"}}, spec=spec(topologySpreadConstraints=[constraint])
    )
    assert rejected == {
        "spec.topologySpreadConstraints[0][0]": (
            'Invalid value: "x": exists in both matchLabelKeys and labelSelector'
        )
    }


async def test_file_key_references(cluster: Any) -> None:
    variable = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a", "key": "K"}}}
    container = {**CONTAINER, "env": [variable]}
    pod = await cluster.create(
        PODS, "p", spec={"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    )
    assert pod["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False
    rejected = await cluster.rejected(PODS, "q", spec={"containers": [container]})
    assert rejected == {"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName": 'Not found: "v"'}


async def test_warnings_about_pod_specs(cluster: Any) -> None:
    container = {**CONTAINER, "ports": [{"containerPort": 1, "hostIP": "1.2.3.4"}]}
    secret = {"secretName": "s", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}
    await cluster.create(
        PODS,
        "a.b",
        metadata={"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
        spec={"containers": [container], "volumes": [{"name": "v", "secret": secret}], "affinity": affinity},
    )
    host_name, annotation, paths, port, selector = cluster.warnings
    assert host_name.startswith("metadata.name: this is used in the Pod's hostname")
    assert annotation.endswith('non-functional in v1.16+; use the "priorityClassName" field instead')
    assert paths == 'volume "v" (Secret "s"): overlapping paths: "x/y" with "x"'
    assert port.startswith("spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0")
    assert selector.endswith("[0].labelSelector: a null labelSelector results in matching no pod")


async def test_the_status_of_a_pod_is_validated(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec(nodeName="n"))
    for status, field in (
        ({"podIP": "bad"}, "status.podIPs[0]"),
        ({"podIP": "010.0.0.1"}, "status.podIPs[0]"),
        ({"hostIP": "1.1.1.1", "hostIPs": [{"ip": "2.2.2.2"}]}, "status.hostIPs[0].ip"),
        ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}, "status.podIPs"),
        ({"observedGeneration": -1}, "status.observedGeneration"),
        ({"nominatedNodeName": "m"}, "status.nominatedNodeName"),
        ({"conditions": [{"type": "a b", "status": "True"}]}, "status.conditions[0].Type"),
        ({"resourceClaimStatuses": [{"name": "x"}]}, "status.resourceClaimStatuses[0].name"),
    ):
        code, response = await cluster.patch(f"{PODS}/p/status", {"status": status})
        assert code == 422, status
        assert [cause["field"] for cause in response["details"]["causes"]] == [field]


async def test_evictions_of_policy_v1beta1(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
    status, response = await cluster.call("POST", f"{PODS}/p/eviction", body)
    assert (status, response["status"]) == (201, "Success")


async def test_annotations_and_fields_must_match(cluster: Any) -> None:
    armor = "container.apparmor.security.beta.kubernetes.io/c"
    seccomp = "seccomp.security.alpha.kubernetes.io/pod"
    container = {**CONTAINER, "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    rejected = await cluster.rejected(
        PODS,
        "p",
        metadata={"annotations": {armor: "unconfined", seccomp: "localhost/a"}},
        spec={
            "containers": [container],
            "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}},
        },
    )
    assert rejected == {
        "spec.containers[0].securityContext.appArmorProfile.type": (
            "Forbidden: apparmor type in annotation and field must match"
        ),
        "spec.securityContext.seccompProfile.localhostProfile": (
            "Forbidden: seccomp profile in annotation and field must match"
        ),
    }


async def test_non_canonical_addresses(cluster: Any) -> None:
    odd = "2001:DB8::1"
    await cluster.create(PODS, "p", spec=spec(hostAliases=[{"ip": odd}]))
    text = f'IPv6 address "{odd}" should be in RFC 5952 canonical format ("2001:db8::1")'
    assert cluster.warnings == [f"spec.hostAliases[0].ip: {text}"]
    subset = {"addresses": [{"ip": odd}], "ports": [{"port": 1}]}
    await cluster.create("/api/v1/namespaces/ns/endpoints", "e", subsets=[subset])
    assert f"subsets[0].addresses[0].ip: {text}" in cluster.warnings


async def test_overhead_is_validated(cluster: Any) -> None:
    rejected = await cluster.rejected(PODS, "p", spec=spec(overhead={"foo": "1"}))
    assert set(rejected) == {"spec.overhead.limits[foo]"}
