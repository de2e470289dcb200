"""Control planes of each supported version of Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.conftest import Talk
from tests.waiting import eventually

from kubewright.api.gvk import GroupKind
from kubewright.api.kubernetes_version import NEWEST, serving, serving_version, supported
from kubewright.client import condition
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import TestServer

VERSIONS = [str(version) for version in supported()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_version_starts_and_publishes_itself(version: str) -> None:
    async with ControlPlane(kubernetes_version=version, port=None) as plane:
        found = await plane.client().version()
        assert (found["minor"], found["gitVersion"]) == (version[2:], f"v{version}.0")
        assert found["minCompatibilityMinor"] == str(int(version[2:]) - 1)


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Kubernetes 1\.20 is not supported; use one of 1\.33"):
        ControlPlane(kubernetes_version="1.20")


@pytest.mark.control_plane(kubernetes="1.33")
async def test_the_marker_selects_a_version(control_plane: TestServer, kubernetes_version: str) -> None:
    assert kubernetes_version == str(control_plane.plane.kubernetes_version) == "1.33"
    claims = GroupKind("resource.k8s.io", "ResourceClaim")  # stable since 1.34
    assert not await control_plane.client().mapper.versions_for(claims)


class Served:
    """A control plane of one version, and the first version of each thing that tests look at."""

    def __init__(self, plane: ControlPlane) -> None:
        self.talk = Talk(plane.server)
        self.minor = plane.kubernetes_version.minor

    async def warnings(self, path: str, body: Any) -> str:
        response = await self.talk.send("POST", f"{path}?dryRun=All", body)
        assert response.status in (200, 201), response.body
        return " ".join(response.headers.get("Warning") or ())


@pytest.fixture(params=VERSIONS)
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    async with ControlPlane(kubernetes_version=request.param, port=None) as plane:
        yield Served(plane)


async def test_what_a_version_means(served: Served) -> None:
    """Groups, fields, roles, OpenAPI, CEL, flow schemas, warnings and removed APIs of each version.

    The recordings of `tests/conformance` compare everything else; this is one example of each part.
    """
    talk, minor = served.talk, served.minor
    assert (await talk("GET", "/apis/resource.k8s.io/v1"))[0] == (200 if minor >= 34 else 404)
    assert (await talk("GET", "/openapi/v3/apis/resource.k8s.io/v1"))[0] == (200 if minor >= 34 else 404)
    core = await talk.ok("GET", "/openapi/v3/api/v1")
    fields = core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert ("hostnameOverride" in fields) is (minor >= 34)
    bundle = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:cluster-trust-bundle-discovery"
    assert (await talk("GET", bundle))[0] == (200 if minor >= 37 else 404)
    flow = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/endpoint-controller"
    assert (await talk("GET", flow))[0] == (200 if minor == 33 else 404)
    service = {
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"},
    }
    warning = await served.warnings("/api/v1/namespaces/default/services", service)
    assert ("is deprecated" in warning) is (minor >= 35)
    status, _ = await talk("GET", "/apis/networking.k8s.io/v1alpha1")
    assert status == 404, "an alpha API is not served by default"


async def test_fields_of_later_versions(served: Served) -> None:
    """Strict validation rejects them, warnings name them, and objects are stored without them."""
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "hostnameOverride": "h"},
    }
    path, known = "/api/v1/namespaces/default/pods", served.minor >= 34
    status, body = await served.talk("POST", f"{path}?fieldValidation=Strict&dryRun=All", pod)
    assert status == (201 if known else 400), body
    status, created = await served.talk("POST", f"{path}?dryRun=All", pod)
    # HostnameOverride is alpha in 1.34: the field is known, and dropped without a warning.
    assert ("hostnameOverride" in created["spec"]) is (served.minor >= 35)
    assert ("unknown field" in await served.warnings(path, pod)) is not known


def widgets(rule: str) -> dict[str, Any]:
    """Return a CRD with one CEL rule about a list of strings."""
    text = {"type": "string", "maxLength": 9}
    names = {"type": "array", "maxItems": 9, "items": text, "x-kubernetes-validations": [{"rule": rule}]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"names": names}}}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(
    ("function", "rule", "first"),
    [
        ("isSemver", "isSemver(self[0])", 34),
        ("sort", "self.sort() == self", 35),
        ("sortBy", "self.sortBy(x, x) == self", 35),
        ("isSorted", "self.isSorted()", 0),
    ],
)
async def test_new_expressions_use_the_functions_of_the_version_before(
    served: Served, function: str, rule: str, first: int
) -> None:
    status, body = await served.talk("POST", f"{CRDS}?dryRun=All", widgets(rule))
    if served.minor >= first:
        assert status == 201, body
    else:
        assert status == 422
        assert f"undeclared reference to '{function}'" in body["message"]


async def test_stored_expressions_use_all_functions(tmp_path: Path) -> None:
    """A CRD of a later version works, and unchanged rules can be written again; new rules cannot."""
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with ControlPlane(store=store, port=None) as plane:
        await Talk(plane.server).ok("POST", CRDS, widgets("isSemver(self[0])"))
    async with ControlPlane(store=store, port=None, kubernetes_version="1.33") as plane:
        talk = Talk(plane.server)
        await plane.client().wait(
            "customresourcedefinitions.apiextensions.k8s.io",
            "widgets.example.com",
            until=condition("Established"),
            timeout=60,
        )
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "names": ["x"]}
        status, body = await talk("POST", "/apis/example.com/v1/namespaces/default/widgets", widget)
        assert (status, "failed rule: isSemver(self[0])" in body["message"]) == (422, True)
        stored = await talk.ok("GET", f"{CRDS}/widgets.example.com")
        stored["metadata"]["labels"] = {"changed": "yes"}
        stored = await talk.ok("PUT", f"{CRDS}/widgets.example.com", stored)
        changed = widgets("self.all(x, isSemver(x))")
        changed["metadata"] = stored["metadata"]
        assert (await talk("PUT", f"{CRDS}/widgets.example.com", changed))[0] == 422


async def test_simulated_kubelets_report_the_version_of_the_server() -> None:
    async with ControlPlane(kubernetes_version="1.34", port=None, nodes=1) as plane:
        (node,) = [each async for each in plane.client().list("nodes")]
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.0"


async def test_generated_flow_schemas_of_other_versions_are_deleted(tmp_path: Path) -> None:
    """As by kube-apiserver, unless a user has taken over the object."""
    store, path = f"sqlite:{tmp_path / 'store.db'}", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    async with ControlPlane(store=store, port=None, kubernetes_version="1.33") as plane:
        talk = Talk(plane.server)
        kept = await talk.ok("GET", f"{path}/endpoint-controller")
        kept["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] = "false"
        await talk.ok("PUT", f"{path}/endpoint-controller", kept)
    async with ControlPlane(store=store, port=None) as plane:
        talk = Talk(plane.server)
        assert (await talk("GET", f"{path}/endpoint-controller"))[0] == 200
        assert (await talk("GET", f"{path}/workload-leader-election"))[0] == 404


async def test_metrics_name_the_features_of_the_version(served: Served) -> None:
    _, text = await served.talk("GET", "/metrics")
    enabled = "1.0" if served.minor >= 35 else "0.0"
    stage = "" if served.minor >= 36 else "BETA"
    assert f'kubernetes_feature_enabled{{name="ImageVolume",stage="{stage}"}} {enabled}' in text


class _Versions:
    """Listener that records the version with which background tasks of a server run."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.seen.add(str(serving_version()))


async def test_servers_of_different_versions_in_one_process_do_not_affect_each_other() -> None:
    """Also in a request that is part of one to another server, and in tasks outside of requests."""
    group = "authorization.k8s.io/v1"
    path = f"/apis/{group}/selfsubjectrulesreviews"
    review = {"apiVersion": group, "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    async with ControlPlane(kubernetes_version="1.33", port=None) as old, ControlPlane(port=None) as new:
        assert serving_version() == NEWEST
        for outer in supported():
            with serving(outer):
                found = [await Talk(plane.server).ok("POST", path, review) for plane in (old, new)]
            assert ["creationTimestamp" in each["metadata"] for each in found] == [True, False]
        for plane in (old, new):
            versions = _Versions()
            plane.server.dispatcher.listeners.append(versions)
            await Talk(plane.server).ok("POST", "/api/v1/namespaces/default/configmaps", config_map)
            await eventually(partial(getattr, versions, "seen"))
            assert versions.seen == {str(plane.kubernetes_version)}
