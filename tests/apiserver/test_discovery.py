"""Discovery, OpenAPI, health, metrics and the other paths."""

from __future__ import annotations

import json

from kubewright.apiserver import Resource, Version
from kubewright.apiserver.http.messages import HTTPResponse

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def test_groups_versions_resources(talk, server):
    server.add(
        Resource(
            group="z.io",
            kind="Z",
            plural="zs",
            versions=[Version(name="v1beta1"), Version(name="v1")],
            group_priority=2000,
        )
    )
    groups = await talk.ok("GET", "/apis")
    assert [group["name"] for group in groups["groups"]] == ["z.io", "example.com"]
    assert groups["groups"][0]["preferredVersion"]["version"] == "v1"
    group = await talk.ok("GET", "/apis/z.io")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    resources = await talk.ok("GET", "/apis/example.com/v1")
    assert [entry["name"] for entry in resources["resources"]] == ["widgets", "widgets/status"]
    assert resources["resources"][0]["shortNames"] == ["wd"]
    assert (await talk("GET", "/apis/none.io"))[0] == 404
    assert (await talk.ok("GET", "/api"))["versions"] == []
    server.remove("z.io", "zs")
    assert len((await talk.ok("GET", "/apis"))["groups"]) == 1


async def test_aggregated_discovery_is_cached_by_clients(talk, server):
    response = await talk.send("GET", "/apis", Accept=AGGREGATED)
    assert response.content_type.startswith("application/json;g=apidiscovery.k8s.io;v=v2")
    document = json.loads(response.body)
    resource = document["items"][0]["versions"][0]["resources"][0]
    assert (resource["resource"], resource["scope"]) == ("widgets", "Namespaced")
    assert resource["subresources"][0]["subresource"] == "status"
    tag = response.headers["ETag"]
    again = await talk.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")
    server.add(Resource(group="n.io", kind="N", plural="ns", versions=[Version(name="v1")]))
    assert (await talk.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag)).status == 200


async def test_openapi_v3(talk):
    index = await talk.ok("GET", "/openapi/v3")
    url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"]
    response = await talk.send("GET", url)
    assert response.headers["Cache-Control"] == "public, immutable"
    document = json.loads(response.body)
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "example.com",
        "version": "v1",
        "kind": "Widget",
    }
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert "application/apply-patch+yaml" in patch["requestBody"]["content"]
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["properties"]["spec"]["properties"]["size"]["maximum"] == 10
    stale = await talk.send("GET", "/openapi/v3/apis/example.com/v1?hash=OLD")
    assert (stale.status, stale.headers["Location"]) == (301, url)
    assert (await talk.send("GET", url, If_None_Match=response.headers["ETag"])).status == 304
    assert (await talk("GET", "/openapi/v3/apis/none/v1"))[0] == 404
    v2 = await talk.ok("GET", "/openapi/v2")
    assert "com.example.v1.Widget" in v2["definitions"]
    assert (await talk("GET", "/openapi/v2", Accept="text/html"))[0] == 406


async def test_health(talk, server):
    assert (await talk.send("GET", "/healthz")).body == b"ok"
    problems: list[Exception] = []

    def check():
        if problems:
            raise problems[0]

    server.health.add("disk", check)
    verbose = await talk.send("GET", "/readyz?verbose")
    assert b"[+]disk ok\n" in verbose.body
    problems.append(OSError("full"))
    failed = await talk.send("GET", "/readyz")
    assert failed.status == 500
    assert b"[-]disk failed: reason withheld\n" in failed.body
    assert (await talk.send("GET", "/readyz?exclude=disk")).status == 200
    assert (await talk.send("GET", "/livez/disk")).status == 500
    assert (await talk.send("GET", "/livez/ping")).status == 200
    assert (await talk.send("GET", "/livez/none")).status == 404


async def test_metrics_count_requests(talk, base):
    await talk.ok("GET", base)
    await talk("GET", f"{base}/none")
    text = (await talk.send("GET", "/metrics")).body.decode()
    assert (
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="example.com",'
        'resource="widgets",scope="namespace",subresource="",verb="LIST",version="v1"} 1.0' in text
    )
    assert 'code="404"' in text
    assert "apiserver_request_duration_seconds_bucket" in text


async def test_other_paths(talk, server, base):
    assert "/apis/example.com/v1" in (await talk.ok("GET", "/"))["paths"]
    assert (await talk.ok("GET", "/version"))["major"] == "1"
    assert (await talk("POST", "/version", {}))[0] == 405
    assert (await talk("GET", "/none"))[1] == "404 page not found\n"
    assert (await talk("PUT", base, {}))[1]["message"] == "name must be provided"

    async def proxy(request):
        return HTTPResponse(200, request.path.encode(), content_type="text/plain")

    server.add_prefix_handler("/apis/example.com/v1", proxy)
    assert (await talk("GET", base))[1] == base
    server.remove_handler("/apis/example.com/v1")
    assert (await talk.ok("GET", base))["items"] == []


async def test_discovery_of_typed_kinds(talk, server):
    server.add(Resource(group="", kind="Note", plural="notes", versions=[Version(name="v1")], custom=False))
    path = "/api/v1/namespaces/d/notes"
    made = await talk.ok("POST", path, {"metadata": {"name": "a"}})
    assert (made["kind"], made["apiVersion"]) == ("Note", "v1")
    assert "kind" not in (await talk.ok("GET", path))["items"][0]
    status, error = await talk("GET", "/api/v1/nothings")
    assert (status, error["details"]) == (404, {})
    assert (await talk("PUT", path, {}))[0] == 405
    assert (await talk("POST", f"{path}/a", {}))[0] == 405
    assert (await talk("DELETE", "/api/v1/notes"))[0] == 405
    assert (await talk("POST", path, {"kind": "Other", "metadata": {"name": "b"}}))[0] == 400


async def test_discovery_media_types_and_methods(talk, base):
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    for path, accept in (("/apis", table), ("/apis/example.com/v1", table), ("/apis", beta)):
        assert (await talk("GET", path, Accept=accept))[0] == 406
    assert (await talk.ok("GET", "/apis", Accept=f"{beta},application/json"))["kind"] == "APIGroupList"
    for method, path, status in (
        ("DELETE", "/apis", 200),
        ("POST", "/apis/example.com", 200),
        ("POST", "/livez", 200),
        ("HEAD", "/apis", 200),
        ("POST", "/apis/example.com/v1", 405),
        ("POST", "/version", 405),
    ):
        assert (await talk.send(method, path)).status == status
    assert (await talk("GET", "/healthz/"))[0] == 404
    assert (await talk("GET", f"/{base}"))[0] == 404
    assert (await talk("POST", "/apis/example.com/v1/watch/namespaces/default/widgets", {}))[0] == 405
