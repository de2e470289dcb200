"""Rules of pods beyond their containers: systems, addresses, volumes elsewhere, what is warned about."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/ns/pods"
CONTAINER = {"name": "c", "image": "i"}


def spec(**rest: Any) -> dict[str, Any]:
    return {"containers": [CONTAINER], **rest}


async def test_fields_of_features_that_are_off_are_left_out(cluster: Any) -> None:
    container = {**CONTAINER, "lifecycle": {"stopSignal": "SIGTERM"}}
    source = {"clusterTrustBundle": {"name": "b", "path": "p"}}
    volume = {"name": "v", "projected": {"sources": [source]}}
    pod = await cluster.create(PODS, "p", spec={"containers": [container], "volumes": [volume]})
    assert "lifecycle" not in pod["spec"]["containers"][0]
    assert pod["spec"]["volumes"][0]["projected"]["sources"] == [{}]
    assert cluster.warnings == ['volume "v" (Projected) has no sources provided']


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
async def test_volumes_that_lie_elsewhere(cluster: Any, source: dict[str, Any], wrong: set[str]) -> None:
    refused = await cluster.refused(PODS, "p", spec=spec(volumes=[{"name": "v", **source}]))
    assert set(refused) == {f"spec.volumes[0].{field}" for field in wrong}


async def test_a_windows_pod_has_no_linux_options_and_the_other_way_round(cluster: Any) -> None:
    refused = await cluster.refused(
        PODS, "p", spec=spec(os={"name": "windows"}, hostPID=True, securityContext={"runAsUser": 1})
    )
    assert refused == {
        "spec.hostPID": "Forbidden: cannot be set for a windows pod",
        "spec.securityContext.runAsUser": "Forbidden: cannot be set for a windows pod",
    }
    options = {"windowsOptions": {"runAsUserName": "a"}}
    refused = await cluster.refused(PODS, "p", spec=spec(os={"name": "linux"}, securityContext=options))
    assert set(refused) == {"spec.securityContext.windowsOptions"}
    options = {"windowsOptions": {"hostProcess": True, "runAsUserName": "d/\\u"}}
    refused = await cluster.refused(PODS, "p", spec=spec(securityContext=options))
    assert set(refused) == {"spec.hostNetwork", "spec.securityContext.windowsOptions.runAsUserName"}


async def test_annotations_that_mean_something(cluster: Any) -> None:
    mirror, cost = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"
    armor = "container.apparmor.security.beta.kubernetes.io/"
    notes = {mirror: "x", cost: "+5", f"{armor}other": "runtime/default"}
    refused = await cluster.refused(PODS, "p", metadata={"annotations": notes}, spec=spec())
    assert set(refused) == {f"metadata.annotations[{key}]" for key in notes}
    pod = await cluster.create(PODS, "p", metadata={"annotations": {f"{armor}c": "localhost/x"}}, spec=spec())
    profile = {"type": "Localhost", "localhostProfile": "x"}
    assert pod["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}
    assert len(cluster.warnings) == 1
    status, answer = await cluster.patch(f"{PODS}/p", {"metadata": {"annotations": {f"{armor}c": None}}})
    assert status == 422
    assert answer["details"]["causes"][0]["message"] == (
        "Forbidden: may not remove or update AppArmor annotations"
    )


async def test_claims_of_devices_are_named_once_and_in_one_way(cluster: Any) -> None:
    claims = [{"name": "a"}, {"name": "a", "resourceClaimName": "b"}]
    refused = await cluster.refused(PODS, "p", spec=spec(resourceClaims=claims))
    assert refused["spec.resourceClaims[1].name"] == 'Duplicate value: "a"'
    assert "must specify one of" in refused["spec.resourceClaims[0]"]


async def test_a_pod_asks_for_no_less_than_its_containers(cluster: Any) -> None:
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    sidecar = {**container, "name": "s", "restartPolicy": "Always"}
    whole = {
        "containers": [container],
        "initContainers": [sidecar],
        "resources": {"requests": {"cpu": "1500m"}},
    }
    refused = await cluster.refused(PODS, "p", spec=whole)
    assert refused == {
        "spec.resources.requests[cpu]": (
            'Invalid value: "1500m": must be greater than or equal to aggregate container requests of 2'
        )
    }
    refused = await cluster.refused(PODS, "p", spec=spec(resources={"limits": {"ephemeral-storage": "1Gi"}}))
    assert set(refused) == {"spec.resources.limits[ephemeral-storage]"}


async def test_keys_of_labels_are_matched_once(cluster: Any) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["x"],
        "labelSelector": {"matchLabels": {"x": "y"}},
    }
    refused = await cluster.refused(
        PODS, "p", metadata={"labels": {"x": "y"}}, spec=spec(topologySpreadConstraints=[constraint])
    )
    assert refused == {
        "spec.topologySpreadConstraints[0][0]": (
            'Invalid value: "x": exists in both matchLabelKeys and labelSelector'
        )
    }


async def test_variables_from_files(cluster: Any) -> None:
    variable = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a", "key": "K"}}}
    container = {**CONTAINER, "env": [variable]}
    pod = await cluster.create(
        PODS, "p", spec={"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    )
    assert pod["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False
    refused = await cluster.refused(PODS, "q", spec={"containers": [container]})
    assert refused == {"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName": 'Not found: "v"'}


async def test_what_is_unwise_is_warned_about(cluster: Any) -> None:
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


async def test_the_status_of_a_pod_is_checked(cluster: Any) -> None:
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
        code, answer = await cluster.patch(f"{PODS}/p/status", {"status": status})
        assert code == 422, status
        assert [cause["field"] for cause in answer["details"]["causes"]] == [field]


async def test_evictions_in_their_old_version(cluster: Any) -> None:
    await cluster.create(PODS, "p", spec=spec())
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
    status, answer = await cluster.call("POST", f"{PODS}/p/eviction", body)
    assert (status, answer["status"]) == (201, "Success")


async def test_annotations_and_fields_say_the_same(cluster: Any) -> None:
    armor = "container.apparmor.security.beta.kubernetes.io/c"
    seccomp = "seccomp.security.alpha.kubernetes.io/pod"
    container = {**CONTAINER, "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    refused = await cluster.refused(
        PODS,
        "p",
        metadata={"annotations": {armor: "unconfined", seccomp: "localhost/a"}},
        spec={
            "containers": [container],
            "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}},
        },
    )
    assert refused == {
        "spec.containers[0].securityContext.appArmorProfile.type": (
            "Forbidden: apparmor type in annotation and field must match"
        ),
        "spec.securityContext.seccompProfile.localhostProfile": (
            "Forbidden: seccomp profile in annotation and field must match"
        ),
    }


async def test_addresses_that_are_written_in_an_odd_way(cluster: Any) -> None:
    odd = "2001:DB8::1"
    await cluster.create(PODS, "p", spec=spec(hostAliases=[{"ip": odd}]))
    text = f'IPv6 address "{odd}" should be in RFC 5952 canonical format ("2001:db8::1")'
    assert cluster.warnings == [f"spec.hostAliases[0].ip: {text}"]
    subset = {"addresses": [{"ip": odd}], "ports": [{"port": 1}]}
    await cluster.create("/api/v1/namespaces/ns/endpoints", "e", subsets=[subset])
    assert f"subsets[0].addresses[0].ip: {text}" in cluster.warnings


async def test_overhead_is_made_of_resources(cluster: Any) -> None:
    refused = await cluster.refused(PODS, "p", spec=spec(overhead={"foo": "1"}))
    assert set(refused) == {"spec.overhead.limits[foo]"}
