"""OpenAPI documents of custom resources and of a server's own paths."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec

from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver import APIServer, HTTPRequest, Resource, ScaleSubresource, Subresource, Version
from kubewright.apiserver.openapi.v2 import merge_documents
from kubewright.schema.structural import Node

WIDGETS = "/apis/example.com/v1/namespaces/{namespace}/widgets"
WIDGET = WIDGETS + "/{name}"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


async def document(talk: Any, path: str = "apis/example.com/v1") -> dict[str, Any]:
    found: dict[str, Any] = await talk.ok("GET", f"/openapi/v3/{path}")
    return found


def names(operation: dict[str, Any]) -> list[str]:
    return [parameter["name"] for parameter in operation.get("parameters") or ()]


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


async def test_operations_of_a_custom_resource(talk: Any) -> None:
    paths = (await document(talk))["paths"]
    assert paths.keys() == {WIDGETS, WIDGET, WIDGET + "/status", "/apis/example.com/v1/widgets"}
    made = {
        f"{method} {path.removeprefix('/apis/example.com/v1')}": operation["operationId"]
        for path, item in paths.items()
        for method, operation in item.items()
        if method != "parameters"
    }
    inside = "/namespaces/{namespace}/widgets"
    assert made == {
        f"get {inside}": "listExampleComV1NamespacedWidget",
        f"post {inside}": "createExampleComV1NamespacedWidget",
        f"delete {inside}": "deleteExampleComV1CollectionNamespacedWidget",
        f"get {inside}/{{name}}": "readExampleComV1NamespacedWidget",
        f"put {inside}/{{name}}": "replaceExampleComV1NamespacedWidget",
        f"patch {inside}/{{name}}": "patchExampleComV1NamespacedWidget",
        f"delete {inside}/{{name}}": "deleteExampleComV1NamespacedWidget",
        f"get {inside}/{{name}}/status": "readExampleComV1NamespacedWidgetStatus",
        f"put {inside}/{{name}}/status": "replaceExampleComV1NamespacedWidgetStatus",
        f"patch {inside}/{{name}}/status": "patchExampleComV1NamespacedWidgetStatus",
        "get /widgets": "listExampleComV1WidgetForAllNamespaces",
    }
    assert {
        tag for item in paths.values() for verb in item if verb != "parameters" for tag in item[verb]["tags"]
    } == {"exampleCom_v1"}


async def test_common_parameters_are_parameters_of_the_path(talk: Any) -> None:
    paths = (await document(talk))["paths"]
    item = paths[WIDGET]
    assert names(item) == ["name", "namespace", "pretty"]
    assert names(item["get"]) == ["resourceVersion"]
    assert names(item["patch"]) == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert "propagationPolicy" in names(item["delete"])
    alone = paths["/apis/example.com/v1/widgets"]
    assert "parameters" not in alone["get"]
    assert {"labelSelector", "pretty", "watch"} <= set(names(alone))


async def test_bodies_and_responses_of_a_custom_resource(talk: Any) -> None:
    paths = (await document(talk))["paths"]
    create, delete, patch = paths[WIDGETS]["post"], paths[WIDGET]["delete"], paths[WIDGET]["patch"]
    assert create["requestBody"]["required"] is True
    assert create["requestBody"]["content"].keys() == {"application/json", "application/yaml"}
    assert create["responses"].keys() == {"200", "201", "202", "401"}
    assert references(delete["requestBody"]) == {f"#/components/schemas/{OPTIONS}"}
    assert "required" not in delete["requestBody"]
    assert delete["responses"].keys() == {"200", "202", "401"}
    assert references(delete["responses"]) == {f"#/components/schemas/{STATUS}"}
    assert patch["responses"].keys() == {"200", "401"}
    assert patch["requestBody"]["content"].keys() == {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    }
    assert "requestBody" not in paths[WIDGETS]["delete"]


async def test_documents_contain_exactly_the_referenced_definitions(talk: Any) -> None:
    for path, prefix, section in (
        ("/openapi/v3/apis/example.com/v1", "#/components/schemas/", "schemas"),
        ("/openapi/v2", "#/definitions/", "definitions"),
    ):
        found = await talk.ok("GET", path)
        definitions = found.get("components", found)[section]
        used = {name.removeprefix(prefix) for name in references(found) if name.startswith(prefix)}
        assert used == definitions.keys()


async def test_version_2_shares_parameters(talk: Any) -> None:
    found = await talk.ok("GET", "/openapi/v2")
    used = {name for name in references(found["paths"]) if name.startswith("#/parameters/")}
    assert used == {f"#/parameters/{name}" for name in found["parameters"]}
    patch = found["paths"][WIDGET]["patch"]["parameters"]
    assert [entry["name"] for entry in patch if "name" in entry] == ["dryRun", "fieldValidation"]
    create = found["paths"][WIDGETS]["post"]
    assert create["parameters"][0]["schema"] == {"$ref": "#/definitions/com.example.v1.Widget"}
    assert (create["consumes"], create["schemes"]) == (["application/json", "application/yaml"], ["https"])
    assert found["security"] == [{"BearerToken": []}]


async def test_shared_parameters_of_aggregated_servers() -> None:
    limit = {"name": "limit", "in": "query", "type": "integer"}
    own: dict[str, Any] = {
        "paths": {},
        "definitions": {"a": msgspec.Raw(b'{"type":"object"}'), "b": msgspec.Raw(b'{"type":"string"}')},
        "parameters": {"limit-1": {**limit, "description": "ours"}},
    }
    item = {
        "get": {
            "parameters": [{"$ref": "#/parameters/limit-1"}],
            "responses": {"200": {"schema": {"$ref": "#/definitions/b"}}},
        }
    }
    other = {
        "paths": {"/apis/far/v1/things": item, "/version/": item},
        "definitions": {"a": {"type": "object"}, "b": {"type": "object"}},
        "parameters": {"limit-1": limit},
    }
    merge_documents(own, other)
    assert own["definitions"].keys() == {"a", "b", "b_v2"}
    assert own["parameters"]["limit-1_v2"] == limit
    assert own["paths"].keys() == {"/apis/far/v1/things"}
    assert references(own["paths"]) == {"#/parameters/limit-1_v2", "#/definitions/b_v2"}


async def test_custom_kind_with_all_subresources(talk: Any, server: APIServer) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["maybe", "color"],
                "properties": {
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "maybe": {"type": "string", "nullable": True},
                    "port": {"x-kubernetes-int-or-string": True},
                    "inner": {"type": "object", "x-kubernetes-embedded-resource": True},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
    version = Version(
        name="v2beta1",
        schema=Node(schema),
        field_selectors={"spec.color": ".spec.color"},
        subresources={
            "scale": ScaleSubresource(),
            "boost": Subresource(verbs=("create",), kind=GroupVersionKind("cars.k8s.io", "v1", "Boost")),
            "wire": Subresource(verbs=("get", "create"), connects=True),
        },
    )
    server.add(Resource(group="cars.k8s.io", kind="Car", plural="cars", versions=[version], namespaced=False))
    found = await document(talk, "apis/cars.k8s.io/v2beta1")
    car = found["components"]["schemas"]["io.k8s.cars.v2beta1.Car"]
    assert car["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]
    spec = car["properties"]["spec"]["properties"]
    assert spec["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert spec["port"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert spec["inner"]["required"] == ["kind", "apiVersion"]
    assert spec["inner"]["properties"].keys() == {"apiVersion", "kind", "metadata"}
    paths = found["paths"]
    item = "/apis/cars.k8s.io/v2beta1/cars/{name}"
    assert paths[item]["get"]["operationId"] == "readCarsV2beta1Car"
    scale = paths[item + "/scale"]["put"]
    assert references(scale) == {"#/components/schemas/io.k8s.api.autoscaling.v1.Scale"}
    assert scale["x-kubernetes-group-version-kind"]["kind"] == "Car"
    boost = paths[item + "/boost"]["post"]
    assert boost["requestBody"]["content"]["application/json"] == {"schema": {"type": "object"}}
    assert paths[item + "/wire"].keys() == {"get", "post", "parameters"}
    assert paths[item + "/wire"]["get"]["operationId"] == "connectCarsV2beta1GetCarWire"
    assert paths[item + "/wire"]["get"]["responses"]["200"]["content"] == {
        "*/*": {"schema": {"type": "string"}}
    }
    simple = (await talk.ok("GET", "/openapi/v2"))["definitions"]["io.k8s.cars.v2beta1.Car"]
    spec = simple["properties"]["spec"]
    assert spec["required"] == ["color"]
    assert spec["properties"]["maybe"] == {}
    assert spec["properties"]["color"] == {"type": "string", "enum": ["red", "blue"]}
    assert spec["properties"]["free"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert simple["properties"]["metadata"]["$ref"].endswith(".ObjectMeta")


async def test_change_of_one_group_keeps_other_documents(talk: Any, server: APIServer) -> None:
    version = Version(name="v1", schema=Node({"type": "object"}))
    server.add(Resource(group="other.com", kind="Thing", plural="things", versions=[version]))
    before = (await talk.ok("GET", "/openapi/v3"))["paths"]
    kept = server.openapi._v3["apis/example.com/v1"]
    richer = Version(name="v1", schema=Node({"type": "object", "properties": {"a": {"type": "string"}}}))
    server.add(Resource(group="other.com", kind="Thing", plural="things", versions=[richer]))
    after = (await talk.ok("GET", "/openapi/v3"))["paths"]
    assert server.openapi._v3["apis/example.com/v1"] is kept
    assert before["apis/example.com/v1"] == after["apis/example.com/v1"]
    assert before["apis/other.com/v1"] != after["apis/other.com/v1"]
    server.remove("other.com", "things")
    assert "apis/other.com/v1" not in (await talk.ok("GET", "/openapi/v3"))["paths"]
    assert (await talk("GET", "/openapi/v3/apis/other.com/v1"))[0] == 404


async def test_document_of_the_version_endpoint(talk: Any, server: APIServer) -> None:
    found = await document(talk, "version")
    assert found["paths"]["/version/"]["get"]["responses"].keys() == {"200", "401"}
    info = found["components"]["schemas"]["io.k8s.apimachinery.pkg.version.Info"]
    assert info["properties"].keys() == server.version.to_dict().keys()
    assert found["info"]["version"] == f"{server.version.major}.{server.version.minor}"
    assert found["components"]["securitySchemes"]["BearerToken"]["type"] == "apiKey"


async def test_documents_of_the_issuer_endpoints(talk: Any, server: APIServer) -> None:
    assert (await talk("GET", "/openapi/v3/openid/v1/jwks"))[0] == 404

    async def keys(request: HTTPRequest) -> Any:
        raise NotImplementedError

    server.add_handler("/openid/v1/jwks", keys)
    content = (await document(talk, "openid/v1/jwks"))["paths"]["/openid/v1/jwks/"]["get"]["responses"]["200"]
    assert content["content"].keys() == {"application/jwk-set+json"}
    assert "openid/v1/jwks" in (await talk.ok("GET", "/openapi/v3"))["paths"]


def test_openapi_modules_are_loaded_on_first_request() -> None:
    script = (
        "import sys, json, kubewright.apiserver.server;"
        "print(json.dumps([name for name in sys.modules if 'openapi' in name or 'builtin_openapi' in name]))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == ["kubewright.apiserver.openapi", "kubewright.apiserver.openapi.service"]
