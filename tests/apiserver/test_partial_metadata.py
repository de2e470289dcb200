"""PartialObjectMetadata: cut out of the stored bytes, with the same result as from the decoded object."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubewright.apiserver import SYSTEM, APIServer, HTTPRequest, Resource, Strategy, Version
from kubewright.apiserver.encoding.negotiation import JSON, PROTOBUF, ResponseFormat, encode
from kubewright.apiserver.encoding.protobuf import builtin_codec, watch_frame
from kubewright.apiserver.encoding.representation import Representation, StorageCodec, partial_object_metadata
from kubewright.apiserver.resources.conversion import NoConversion
from kubewright.storage.contract import KeyValue

HIDDEN = "example.com/hidden"
GVK = {"apiVersion": "example.com/v1", "kind": "Widget"}
METADATA: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "a", "uid": "u", "labels": {"metadata": "}", "ä": '"\\\n\t\u2028{'}, "finalizers": []},
    {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {"f:labels": {}}}}]},
    {"name": "a", "annotations": {HIDDEN: "x", "b": "c"}},
    {},
]
SPECS: list[dict[str, Any]] = [{}, {"spec": {"metadata": {"name": "b"}, "x": '"metadata":{'}}, {"data": None}]


class Hides(Strategy):
    """A strategy with an annotation that only whole objects have."""

    table_hidden_annotation = HIDDEN


class Renames:
    """A converter that changes metadata."""

    def convert(self, objects: list[Any], from_version: str, to_version: str) -> list[Any]:
        """Add a label."""
        for obj in objects:
            obj["apiVersion"] = f"example.com/{to_version}"
            obj["metadata"]["labels"] = {"version": to_version}
        return objects


def widgets(**settings: Any) -> Resource:
    versions = [Version(name="v1"), Version(name="v2")]
    return Resource(
        group="example.com",
        kind="Widget",
        plural="widgets",
        versions=versions,
        storage_version="v1",
        **{"converter": NoConversion("example.com"), **settings},
    )


def partial(resource: Resource, media: str = JSON, version: int = 0) -> Representation:
    response_format = ResponseFormat(media, "PartialObjectMetadata", "v1")
    return Representation(StorageCodec(resource), resource.versions[version], response_format)


@pytest.mark.parametrize("strategy", [Strategy, Hides])
@pytest.mark.parametrize("version", [0, 1])
async def test_metadata_is_cut_out_of_stored_bytes(strategy: type[Strategy], version: int) -> None:
    resource = widgets(strategy=strategy())
    representation = partial(resource, version=version)
    items, expected = [], []
    for revision, metadata in enumerate(METADATA, 5):
        for fields in SPECS:
            value = representation.codec.pack({**GVK, "metadata": metadata, **fields})
            shown = {**metadata, "resourceVersion": str(revision)}
            if strategy is Hides and HIDDEN in shown.get("annotations", ()):
                del shown["annotations"]
                shown["annotations"] = {"b": "c"}
            decoded = encode(partial_object_metadata({"metadata": shown}))
            assert await representation.one(value, revision) == decoded
            items.append(KeyValue("k", value, revision, revision))
            expected.append(json.loads(decoded))
            if metadata and representation.splice(value, revision) is None:
                assert strategy is Hides
                assert HIDDEN in metadata["annotations"]
    listed = await representation.many(items, {"resourceVersion": "9"})
    assert json.loads(b"".join(listed) if isinstance(listed, list) else listed) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9"},
        "items": expected,
    }


async def test_objects_that_a_conversion_or_a_newer_schema_may_change_are_decoded() -> None:
    value = partial(widgets()).codec.pack({**GVK, "metadata": {"name": "a"}})
    converted = partial(widgets(converter=Renames()), version=1)
    assert not converted.direct
    assert json.loads(await converted.one(value, 5))["metadata"]["labels"] == {"version": "v2"}
    assert partial(widgets(schema_revision=4)).splice(value, 5) is not None
    assert partial(widgets(schema_revision=5)).splice(value, 5) is None
    assert partial(widgets()).splice(value.replace(b"example.com/v1", b"example.com/v0"), 5) is None
    assert partial(widgets()).splice(value + b"}", 5) is None


async def test_all_requests_return_the_same_metadata(
    server: APIServer, talk: Any, base: str, widget: Any
) -> None:
    for name in ("a", "b"):
        await talk.ok("POST", base, widget(name, spec={"color": "red"}, metadata={"labels": {"x": "y"}}))
    objects = (await talk.ok("GET", base))["items"]
    expected = [partial_object_metadata(each) for each in objects]
    accept = "{};as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
    listed = await talk.ok("GET", base, Accept=accept.format(JSON, "List"))
    assert listed["items"] == expected
    assert await talk.ok("GET", f"{base}/a", Accept=accept.format(JSON, "")) == expected[0]
    response = await talk.send("GET", f"{base}/a", Accept=accept.format(PROTOBUF, ""))
    assert response.body == builtin_codec().encode(expected[0])
    response = await talk.send("GET", base, Accept=accept.format(PROTOBUF, "List"))
    assert builtin_codec().decode(response.body)["items"] == [
        {"metadata": each["metadata"]} for each in expected
    ]

    async def watch(media: str, query: str) -> Any:
        headers = {"Accept": accept.format(media, "")}
        return (
            await server.handle(
                HTTPRequest("GET", base, query=f"watch=1{query}", headers=headers, user=SYSTEM)
            )
        ).stream

    for query in ("", f"&resourceVersion={int(expected[0]['metadata']['resourceVersion']) - 1}"):
        for media in (JSON, PROTOBUF):
            stream = await watch(media, query)
            frames = [{"type": "ADDED", "object": each} for each in expected]
            encoded = b"".join(
                watch_frame(each) if media == PROTOBUF else b"%b\n" % msgspec.json.encode(each)
                for each in frames
            )
            received = b""
            while len(received) < len(encoded):
                received += await anext(stream)
            await stream.aclose()
            if media == PROTOBUF:
                assert received == encoded
            else:
                assert [json.loads(line) for line in received.splitlines()] == frames
