"""Lists: pages, selectors, versions, representations."""

from __future__ import annotations

import base64
import json

import pytest

from kubewright.apiserver.rest.verbs.list import decode_continue, encode_continue

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
async def five(talk, widget, base):
    made = []
    for number in range(5):
        color = "blue" if number % 2 else "red"
        labels = {"n": str(number)}
        made.append(
            await talk.ok(
                "POST", base, widget(f"w{number}", spec={"color": color}, metadata={"labels": labels})
            )
        )
    return made


def names(response):
    return [item["metadata"]["name"] for item in response["items"]]


async def test_pages_are_consistent(talk, widget, base, five):
    first = await talk.ok("GET", f"{base}?limit=2")
    assert names(first) == ["w0", "w1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await talk.ok("POST", base, widget("w2a"))
    await talk.ok("DELETE", f"{base}/w3")
    rest = await talk.ok("GET", f"{base}?limit=9&continue={first['metadata']['continue']}")
    assert names(rest) == ["w2", "w3", "w4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names(await talk.ok("GET", base)) == ["w0", "w1", "w2", "w2a", "w4"]
    assert (await talk("GET", f"{base}?continue=garbage"))[0] == 400
    for broken, place in (("x", 0), ("abcde", 4), ("ab*d", 2)):
        status, error = await talk("GET", f"{base}?continue={broken}")
        assert status == 400
        assert error["message"].endswith(f": illegal base64 data at input byte {place}")
    token = first["metadata"]["continue"]
    assert (await talk("GET", f"{base}?continue={token}&resourceVersion=5"))[0] == 400


async def test_expired_continue_token_has_an_inconsistent_successor(talk, server, widget, base, five):
    first = await talk.ok("GET", f"{base}?limit=2")
    for number in range(3):
        await talk.ok("POST", base, widget(f"x{number}"))
    await server.storage.compact(await server.storage.revision())
    status, error = await talk("GET", f"{base}?limit=2&continue={first['metadata']['continue']}")
    assert (status, error["reason"]) == (410, "Expired")
    rest = await talk.ok("GET", f"{base}?continue={error['metadata']['continue']}")
    assert names(rest)[0] == "w2"
    version = first["metadata"]["resourceVersion"]
    assert (await talk("GET", f"{base}?resourceVersion={version}&resourceVersionMatch=Exact"))[0] == 410


def test_continue_tokens_are_limited_to_the_collection():
    assert decode_continue(encode_continue(7, "ns/a")) == (7, "ns/a\0")
    with pytest.raises(Exception, match="continue key is not valid"):
        decode_continue(encode_continue(7, "../../secrets/a"))


async def test_selectors(talk, base, five):
    assert names(await talk.ok("GET", f"{base}?labelSelector=n+in+(1,2)")) == ["w1", "w2"]
    assert names(await talk.ok("GET", f"{base}?fieldSelector=metadata.name!=w1,spec.color=blue")) == ["w3"]
    page = await talk.ok("GET", f"{base}?fieldSelector=spec.color=red&limit=2")
    assert names(page) == ["w0", "w2"]
    assert "remainingItemCount" not in page["metadata"]
    rest = await talk.ok(
        "GET", f"{base}?fieldSelector=spec.color=red&continue={page['metadata']['continue']}"
    )
    assert names(rest) == ["w4"]
    assert (await talk("GET", f"{base}?labelSelector=a+in"))[0] == 400
    status, error = await talk("GET", f"{base}?fieldSelector=spec.size=1")
    assert (status, error["message"]) == (400, "field label not supported: spec.size")


async def test_resource_version_match(talk, base, five, server):
    server.freshness_timeout = 0.05
    second = five[1]["metadata"]["resourceVersion"]
    exact = f"{base}?resourceVersion={second}&resourceVersionMatch="
    assert names(await talk.ok("GET", exact + "Exact")) == ["w0", "w1"]
    assert len(names(await talk.ok("GET", exact + "NotOlderThan"))) == 5
    assert len(names(await talk.ok("GET", f"{base}?resourceVersion={second}"))) == 5
    assert names(await talk.ok("GET", f"{base}?resourceVersion={second}&limit=9")) == ["w0", "w1"]
    assert (await talk("GET", f"{base}?resourceVersionMatch=Exact"))[0] == 422
    assert (await talk("GET", f"{base}?resourceVersion=0&resourceVersionMatch=Exact"))[0] == 422
    assert (await talk("GET", f"{base}?resourceVersion=abc"))[0] == 400
    status, error = await talk("GET", f"{base}?resourceVersion=99999")
    assert (status, error["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert (await talk("GET", f"{base}/w1?resourceVersion=99999"))[0] == 504


async def test_list_of_all_namespaces(talk, base, five, widget):
    other = base.replace("default", "other")
    await talk.ok("POST", other, widget("z"))
    everything = await talk.ok("GET", "/apis/example.com/v1/widgets")
    assert len(everything["items"]) == 6
    assert everything["items"][0] == await talk.ok("GET", f"{base}/w0")
    assert everything["kind"] == "WidgetList"
    assert (await talk.ok("GET", base.replace("default", "nothing")))["items"] == []


async def test_tables(talk, base, five):
    response = await talk.send("GET", base, Accept=TABLE)
    table = json.loads(response.body)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"][0] == "w0"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    none = await talk.ok("GET", f"{base}?includeObject=None", Accept=TABLE)
    assert none["rows"][0]["object"] is None
    assert (await talk("GET", f"{base}?includeObject=Some", Accept=TABLE))[0] == 400
    assert len((await talk.ok("GET", f"{base}/w0", Accept=TABLE))["rows"]) == 1


async def test_metadata_only(talk, base, five):
    one = await talk.ok("GET", f"{base}/w0", Accept=PARTIAL)
    assert one["kind"] == "PartialObjectMetadata"
    assert "spec" not in one
    many = await talk.ok("GET", base, Accept=PARTIAL_LIST)
    assert (many["kind"], len(many["items"])) == ("PartialObjectMetadataList", 5)
    assert (await talk("GET", base, Accept=PARTIAL))[0] == 406
    assert (await talk("GET", f"{base}/w0", Accept=PARTIAL_LIST))[0] == 500


async def test_media_types(talk, base, five):
    response = await talk.send("GET", f"{base}/w0", Accept="application/yaml")
    assert response.content_type == "application/yaml"
    assert b"kind: Widget\n" in response.body
    assert (await talk("GET", f"{base}/w0", Accept="text/plain"))[0] == 406
    assert (
        await talk.send("GET", f"{base}/no", Accept="application/yaml")
    ).content_type == "application/yaml"
    pretty = await talk.send("GET", f"{base}/w0?pretty=true")
    assert pretty.body.startswith(b'{\n  "apiVersion"')
    assert (await talk.send("GET", f"{base}/w0", User_Agent="curl/8")).body.startswith(b"{\n")
    yaml = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: three}\nspec: {size: 3}\n"
    made = await talk.ok("POST", base, yaml, Content_Type="application/yaml")
    assert made["spec"]["size"] == 3


async def test_invalid_continue_tokens(talk, base):
    for token, why in (
        ({"v": "bogus"}, "server does not recognize this encoded version bogus"),
        ({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"}, "incorrect encoded start resourceVersion"),
        ({"v": "meta.k8s.io/v1", "rv": 5, "start": ""}, "encoded start key empty"),
        ({"v": "meta.k8s.io/v1", "rv": 1, "start": "/../"}, "/../"),
    ):
        text = base64.urlsafe_b64encode(json.dumps(token).encode()).rstrip(b"=").decode()
        status, error = await talk("GET", f"{base}?continue={text}")
        assert status == 400
        assert error["message"].startswith(f"invalid continue token: continue key is not valid: {why}")


async def test_list_by_name_has_one_page(talk, widget, base):
    for name in "ab":
        await talk.ok("POST", base, widget(name))
    page = await talk.ok("GET", f"{base}?limit=1&fieldSelector=metadata.name=a")
    assert [item["metadata"]["name"] for item in page["items"]] == ["a"]
    assert not page["metadata"].get("continue")


async def test_numbers_in_queries_are_numbers(talk, base):
    for query in ("limit=", "limit=x", "limit=1.5", "timeoutSeconds="):
        assert (await talk("GET", f"{base}?{query}"))[0] == 400


async def test_incomplete_accept_parameters(talk, base, five):
    for accept in ("application/json;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1"):
        assert (await talk("GET", base, Accept=accept))[0] == 406
        assert (await talk("GET", base, Accept=f"{accept},application/json"))[0] == 200


async def test_partial_metadata_in_protobuf(talk, base, five):
    accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    response = await talk.send("GET", f"{base}/w0", Accept=accept)
    assert (response.status, response.content_type) == (200, "application/vnd.kubernetes.protobuf")
    assert response.body.startswith(b"k8s\0")
    assert (await talk.send("GET", f"{base}/w0", Accept="application/vnd.kubernetes.protobuf")).status == 406


async def test_a_timeout_is_a_duration(talk, base):
    status, error = await talk("GET", f"{base}?timeout=soon")
    assert status == 400
    assert error["message"].startswith("invalid timeout specified in the request URL - time: invalid dur")


@pytest.mark.parametrize("value", ["true", "1"])
async def test_export_is_rejected(talk, base, widget, value):
    await talk.ok("POST", base, widget("a"))
    status, error = await talk("GET", f"{base}/a?export={value}")
    assert (status, error["message"]) == (
        400,
        "the export parameter, deprecated since v1.14, is no longer supported",
    )
    assert (await talk("GET", f"{base}/a?export=false"))[0] == 200
