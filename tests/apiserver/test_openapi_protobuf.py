"""OpenAPI in protobuf, decoded by field numbers."""

from __future__ import annotations

import json
import struct
from typing import Any

from kubewright.apiserver.encoding.protobuf_wire import BYTES, FIXED64, VARINT, span, varint
from kubewright.apiserver.openapi.protobuf import V2, V3
from kubewright.apiserver.openapi.v2 import simplify

V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_TYPE = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


def read(data: bytes) -> dict[int, list[Any]]:
    """The fields of one message: numbers and bytes by field number."""
    found: dict[int, list[Any]] = {}
    at = 0
    value: Any
    while at < len(data):
        key, at = varint(data, at, len(data))
        if key & 7 == VARINT:
            value, at = varint(data, at, len(data))
        elif key & 7 == FIXED64:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            assert key & 7 == BYTES
            start, at = span(data, at, len(data))
            value = data[start:at]
        found.setdefault(key >> 3, []).append(value)
    return found


def named(entries: list[bytes]) -> dict[str, dict[int, list[Any]]]:
    """Named values by name."""
    parts = [read(entry) for entry in entries]
    return {part[1][0].decode(): read(part[2][0]) for part in parts}


def schema_v2(schema: dict[str, Any]) -> dict[int, list[Any]]:
    document = read(V2.encode({"definitions": {"it": schema}}))
    return named(read(document[9][0])[1])["it"]


def schema_v3(schema: dict[str, Any]) -> dict[int, list[Any]]:
    document = read(V3.encode({"components": {"schemas": {"it": schema}}}))
    return named(read(read(document[5][0])[1][0])[1])["it"]


async def test_version_2_is_served_in_protobuf(talk: Any) -> None:
    document = await talk.ok("GET", "/openapi/v2")
    json_form = await talk.send("GET", "/openapi/v2")
    for spelling in (V2_TYPE, V2_TYPE.replace("v2.v1", "v2@v1")):
        response = await talk.send("GET", "/openapi/v2", Accept=spelling)
        assert (response.status, response.content_type) == (200, V2_TYPE)
        assert response.headers["ETag"] == json_form.headers["ETag"]
    fields = read(response.body)
    assert fields[1] == [b"2.0"]
    definitions = named(read(fields[9][0])[1])
    assert definitions.keys() == document["definitions"].keys()
    assert named(read(fields[8][0])[2]).keys() == document["paths"].keys()
    widget = definitions["com.example.v1.Widget"]
    assert read(widget[22][0]) == {1: [b"object"]}
    kinds = named(widget[31])["x-kubernetes-group-version-kind"]
    assert json.loads(kinds[2][0]) == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    spec = named(read(widget[25][0])[1])["spec"]
    assert named(read(spec[25][0])[1])["size"][7] == [10.0]
    unchanged = await talk.send("GET", "/openapi/v2", Accept=V2_TYPE, If_None_Match=response.headers["ETag"])
    assert unchanged.status == 304


async def test_accept_quality_values(talk: Any) -> None:
    accept = f"application/json;q=0.5, {V2_TYPE}"
    assert (await talk.send("GET", "/openapi/v2", Accept=accept)).content_type == V2_TYPE
    accept = f"text/html, application/json, {V2_TYPE};q=0.9"
    assert (await talk.send("GET", "/openapi/v2", Accept=accept)).content_type == "application/json"
    rejected = await talk.send("GET", "/openapi/v2", Accept=V3_TYPE)
    assert (rejected.status, rejected.body) == (406, b"")


async def test_version_3_is_served_in_protobuf(talk: Any) -> None:
    path = "/openapi/v3/apis/example.com/v1"
    document = await talk.ok("GET", path)
    response = await talk.send("GET", path, Accept=V3_TYPE)
    assert (response.status, response.content_type) == (200, V3_TYPE)
    fields = read(response.body)
    assert fields[1] == [b"3.0.0"]
    schemas = named(read(read(fields[5][0])[1][0])[1])
    assert schemas.keys() == document["components"]["schemas"].keys()
    assert named(read(fields[4][0])[1]).keys() == document["paths"].keys()
    assert (await talk.send("GET", path, Accept=V2_TYPE)).status == 406


def test_schemas_of_version_2() -> None:
    fields = schema_v2(
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"$ref": "#/definitions/other"}},
            "additionalProperties": False,
            "maxProperties": 300,
            "minProperties": 0,
            "enum": [{"a": 1}, None],
            "items": {"type": "string"},
            "x-list": [1],
            "nonsense": 1,
        }
    )
    assert fields[19] == [b"a", b"b"]
    assert read(fields[21][0]) == {2: [0]}
    assert fields[17] == [300]
    assert 18 not in fields
    assert [json.loads(read(each)[2][0]) for each in fields[20]] == [{"a": 1}, None]
    assert read(read(read(fields[23][0])[1][0])[22][0]) == {1: [b"string"]}
    assert named(read(fields[25][0])[1])["a"] == {1: [b"#/definitions/other"]}
    assert named(fields[31])["x-list"][2] == [b"[1]\n"]
    assert len(fields) == 8


def test_schemas_of_version_3() -> None:
    fields = schema_v3(
        {
            "nullable": True,
            "default": {"not": "sayable"},
            "additionalProperties": {"$ref": "#/components/schemas/o"},
            "oneOf": [{"type": "string", "default": 1.5}, {"default": False}],
        }
    )
    plain = read(fields[1][0])
    assert plain[1] == [1]
    assert plain[33] == [b""]
    assert read(read(plain[32][0])[1][0])[2] == [b"\n\x16#/components/schemas/o"]
    first, second = (read(read(each)[1][0]) for each in plain[27])
    assert read(first[33][0]) == {1: [1.5]}
    assert read(second[33][0]) == {2: [0]}


def test_locations_of_version_2_parameters() -> None:
    parameters = [
        {"in": "body", "name": "b", "schema": {"type": "object"}},
        {"in": "query", "name": "q", "type": "string"},
        {"in": "path", "name": "p", "type": "string"},
        {"$ref": "#/parameters/r"},
    ]
    document = read(V2.encode({"paths": {"/x": {"parameters": parameters, "x-here": True}}}))
    item = named(read(document[8][0])[2])["/x"]
    body, query, path, reference = (read(each) for each in item[9])
    assert read(read(body[1][0])[1][0])[2] == [b"b"]
    assert read(read(read(query[1][0])[2][0])[3][0])[6] == [b"string"]
    assert read(read(read(path[1][0])[2][0])[4][0])[5] == [b"string"]
    assert read(reference[2][0]) == {1: [b"#/parameters/r"]}
    assert named(item[10])["x-here"][2] == [b"true\n"]


def test_unknown_members_are_omitted() -> None:
    assert read(V2.encode({"paths": 3, "definitions": 4, "info": None, "swagger": 2})) == {
        8: [b""],
        9: [b""],
        2: [b""],
    }
    fields = schema_v2(
        {"maximum": "x", "maxLength": None, "items": 1, "required": [1, "a"], "description": 3}
    )
    assert fields.keys() == {19, 23}
    assert fields[19] == [b"a"]


def test_version_2_schema_subset() -> None:
    schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"type": "string", "nullable": True, "default": "x"},
            "b": {"allOf": [{"$ref": "#/definitions/m"}], "description": "d"},
            "c": {"type": "array", "items": {"type": "object"}, "x-kubernetes-preserve-unknown-fields": True},
            "d": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
            "e": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        },
    }
    simplify(schema)
    assert schema == {
        "type": "object",
        "required": ["b"],
        "properties": {
            "a": {},
            "b": {"$ref": "#/definitions/m", "description": "d"},
            "c": {"x-kubernetes-preserve-unknown-fields": True},
            "d": {"x-kubernetes-int-or-string": True},
            "e": {"type": "string"},
        },
    }


async def test_security_definitions_in_protobuf(talk: Any) -> None:
    second = read((await talk.send("GET", "/openapi/v2", Accept=V2_TYPE)).body)
    assert named(read(second[12][0])[1]) == {"BearerToken": {}}
    scheme = read(named(read(second[13][0])[1])["BearerToken"][2][0])
    assert (scheme[1], scheme[2], scheme[3]) == ([b"apiKey"], [b"authorization"], [b"header"])
    parameters = named(read(second[10][0])[1])
    assert any(name.startswith("labelSelector-") for name in parameters)
    third = read((await talk.send("GET", "/openapi/v3/version", Accept=V3_TYPE)).body)
    schemes = named(read(read(third[5][0])[7][0])[1])
    scheme = read(schemes["BearerToken"][1][0])
    assert (scheme[1], scheme[3], scheme[4]) == ([b"apiKey"], [b"authorization"], [b"header"])
