"""OpenAPI documents of the built-in kinds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubewright.apiserver import SYSTEM, APIServer, HTTPRequest
from kubewright.controlplane.builtins import builtin_resources
from kubewright.storage.memory import MemoryStorage

PODS = "/api/v1/namespaces/{namespace}/pods"
METHODS = {"get", "put", "post", "delete", "options", "head", "patch"}


async def every_document() -> dict[str, Any]:
    async with APIServer(MemoryStorage()) as server:
        for resource in builtin_resources():
            server.add(resource)

        async def get(path: str) -> Any:
            response = await server.handle(HTTPRequest("GET", path, user=SYSTEM))
            assert response.status == 200, (path, response.body)
            return json.loads(response.body)

        index = (await get("/openapi/v3"))["paths"]
        found = {path: await get(entry["serverRelativeURL"]) for path, entry in index.items()}
        return {**found, "v2": await get("/openapi/v2")}


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """Every document of a server of all built-in kinds: by path, and `v2`."""
    return asyncio.run(every_document())


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def names(operation: dict[str, Any]) -> list[str]:
    return [parameter["name"] for parameter in operation.get("parameters") or ()]


def test_groups_and_their_versions_have_documents(documents: dict[str, Any]) -> None:
    assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= documents.keys()
    group = documents["apis/rbac.authorization.k8s.io"]["paths"]["/apis/rbac.authorization.k8s.io/"]["get"]
    assert group["operationId"] == "getRbacAuthorizationAPIGroup"
    assert group["tags"] == ["rbacAuthorization"]
    listing = documents["apis/apps/v1"]["paths"]["/apis/apps/v1/"]["get"]
    assert listing["operationId"] == "getAppsV1APIResources"


def test_names_of_operations_are_unique_and_the_same_in_both_versions(
    documents: dict[str, Any],
) -> None:
    apart: dict[str, str] = {}
    for path, document in documents.items():
        if path != "v2":
            apart |= {where: operation["operationId"] for where, operation in operations(document).items()}
    together = {where: each["operationId"] for where, each in operations(documents["v2"]).items()}
    assert apart == together
    assert len(set(together.values())) == len(together)


def test_every_referenced_definition_exists(documents: dict[str, Any]) -> None:
    def check(value: Any, document: dict[str, Any]) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                found: Any = document
                for part in reference.removeprefix("#/").split("/"):
                    assert part in found, reference
                    found = found[part]
            for inner in value.values():
                check(inner, document)
        elif isinstance(value, list):
            for inner in value:
                check(inner, document)

    for document in documents.values():
        check(document, document)


def test_media_types_of_built_in_kinds(documents: dict[str, Any]) -> None:
    core = documents["api/v1"]["paths"]
    media = {"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
    assert core[PODS]["post"]["responses"]["201"]["content"].keys() == media
    assert core[PODS]["post"]["requestBody"]["content"].keys() == {"*/*"}
    streams = {"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
    assert core[PODS]["get"]["responses"]["200"]["content"].keys() == media | streams
    assert core[PODS + "/{name}"]["patch"]["responses"].keys() == {"200", "201", "401"}
    assert (
        "application/strategic-merge-patch+json" in core[PODS + "/{name}"]["patch"]["requestBody"]["content"]
    )
    assert documents["v2"]["paths"][PODS]["get"]["produces"][-2:] == sorted(streams)


def test_deletecollection_has_list_and_delete_options(documents: dict[str, Any]) -> None:
    delete = documents["api/v1"]["paths"][PODS]["delete"]
    assert delete["operationId"] == "deleteCoreV1CollectionNamespacedPod"
    assert {"labelSelector", "propagationPolicy", "dryRun"} <= set(names(delete))
    assert "watch" not in names(delete)
    assert delete["requestBody"]["content"]["*/*"]["schema"]["$ref"].endswith(".DeleteOptions")


def test_response_kind_of_deletions(documents: dict[str, Any]) -> None:
    def response_kind(path: str) -> str:
        content = documents["api/v1"]["paths"][path]["delete"]["responses"]["200"]["content"]
        reference: str = content["application/json"]["schema"]["$ref"]
        return reference.rpartition(".")[2]

    assert response_kind(PODS + "/{name}") == "Pod"
    assert response_kind("/api/v1/namespaces/{namespace}/configmaps/{name}") == "Status"
    assert response_kind("/api/v1/namespaces/{name}") == "Status"


def test_methods_of_connect_subresources(documents: dict[str, Any]) -> None:
    core = documents["api/v1"]["paths"]
    execution = core[PODS + "/{name}/exec"]
    assert execution.keys() == {"get", "post", "parameters"}
    assert execution["get"]["x-kubernetes-action"] == "connect"
    assert execution["get"]["x-kubernetes-group-version-kind"]["kind"] == "PodExecOptions"
    assert names(execution) == [
        "command",
        "container",
        "name",
        "namespace",
        "stderr",
        "stdin",
        "stdout",
        "tty",
    ]
    proxy = core["/api/v1/nodes/{name}/proxy/{path}"]
    assert proxy.keys() == METHODS | {"parameters"}
    assert proxy["head"]["operationId"] == "connectCoreV1HeadNodeProxyWithPath"
    assert [(entry["name"], entry["in"]) for entry in proxy["parameters"]] == [
        ("name", "path"),
        ("path", "path"),
        ("path", "query"),
    ]


def test_kinds_of_subresources(documents: dict[str, Any]) -> None:
    core = documents["api/v1"]["paths"]
    eviction = core[PODS + "/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"] == {
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
    }
    assert eviction["requestBody"]["content"]["*/*"]["schema"]["$ref"].endswith("policy.v1.Eviction")
    log = core[PODS + "/{name}/log"]["get"]
    assert log["responses"]["200"]["content"]["text/plain"] == {"schema": {"type": "string"}}
    scale = documents["apis/apps/v1"]["paths"][
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    ]
    assert scale["get"]["x-kubernetes-group-version-kind"]["kind"] == "Scale"


def test_watch_paths(documents: dict[str, Any]) -> None:
    found = {
        path: item["get"]["operationId"]
        for path, item in documents["apis/apps/v1"]["paths"].items()
        if path.startswith("/apis/apps/v1/watch/") and "deployments" in path
    }
    assert found == {
        "/apis/apps/v1/watch/deployments": "watchAppsV1DeploymentListForAllNamespaces",
        "/apis/apps/v1/watch/namespaces/{namespace}/deployments": "watchAppsV1NamespacedDeploymentList",
        "/apis/apps/v1/watch/namespaces/{namespace}/deployments/{name}": "watchAppsV1NamespacedDeployment",
    }
    cluster = documents["api/v1"]["paths"]["/api/v1/watch/nodes"]["get"]
    assert (cluster["operationId"], cluster["x-kubernetes-action"]) == ("watchCoreV1NodeList", "watchlist")


def test_definitions_list_the_kinds_of_their_group(documents: dict[str, Any]) -> None:
    options = documents["apis/apps/v1"]["components"]["schemas"][
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    ]
    kinds = [(kind["group"], kind["version"]) for kind in options["x-kubernetes-group-version-kind"]]
    assert kinds == [("", "v1"), ("apps", "v1")]
    strategy = documents["apis/apps/v1"]["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentStrategy"]
    assert strategy["properties"]["type"]["enum"] == ["Recreate", "RollingUpdate"]
    simple = documents["v2"]["definitions"]["io.k8s.api.core.v1.Container"]["properties"]
    assert simple["imagePullPolicy"]["enum"] == ["Always", "IfNotPresent", "Never"]
    assert simple["securityContext"]["$ref"] == "#/definitions/io.k8s.api.core.v1.SecurityContext"
    assert "default" not in simple["name"]
