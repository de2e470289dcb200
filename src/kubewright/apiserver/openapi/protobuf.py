"""OpenAPI documents in protobuf, as client-go's discovery asks for them.

The messages are those of the gnostic project, one layout for each version of OpenAPI. A layout is a table of
messages; each is one line of text, fields joined by `;`, and each of those is `number name type`. The name is
that in JSON, the type a letter or another message:

    s string   b boolean   I integer   d number   a any value, as YAML text (JSON is YAML)

`*` before the type repeats it (a single value counts as a list of one), `%` makes a message of named values
out of an object. The name `x-` stands for all extensions, `...` for all names that the line has no field for,
each a named value of its own. What a message has no field for, or not one of its type, is left out.

A few messages stand for one of several others. Functions pick the field that a value belongs to, if any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubewright.apiserver.encoding.protobuf_wire import BYTES, FIXED64, VARINT, put_varint

Field = Callable[[Any], bytes]
Payload = Callable[[Any], bytes | None]
"""Encodes a value without its key; `None` leaves it out."""
Pick = Callable[[Any], str]

_to_json = msgspec.json.Encoder().encode


class MessageSchema:
    """The messages of one version of OpenAPI."""

    def __init__(self, lines: Mapping[str, str], unions: Mapping[str, Pick]) -> None:
        self._lines = lines
        self._unions = unions
        self._fields: dict[str, dict[str, Field]] = {}
        self._picked: dict[str, Field] = {}

    def encode(self, document: Mapping[str, Any]) -> bytes:
        """A whole document."""
        return self._message("Document", document)

    def _message(self, name: str, value: Any) -> bytes:
        pick = self._unions.get(name)
        if pick is not None:
            text = pick(value)
            if not text:
                return b""
            field = self._picked.get(text)
            if field is None:
                field = self._picked[text] = self._field(text, alone=True)[1]
            return field(value)
        if not isinstance(value, Mapping):
            return b""
        fields = self._fields.get(name)
        if fields is None:
            parts = [self._field(part) for part in self._lines[name].split(";")]
            fields = self._fields[name] = dict(parts)
        extension, other = fields.get("x-"), fields.get("...")
        made = []
        for key, item in value.items():
            field = fields.get(key)
            if field is not None:
                made.append(field(item))
            elif key.startswith("x-") and extension is not None:
                made.append(extension((key, item)))
            elif other is not None:
                made.append(other((key, item)))
        return b"".join(made)

    def _field(self, text: str, *, alone: bool = False) -> tuple[str, Field]:
        """The name of a field, and what turns its value into bytes; `alone` keeps zeros: they were picked."""
        number, name, type_ = text.split(" ")
        repeated = type_.startswith("*")
        key, payload = self._payload(int(number), type_.removeprefix("*"), keep_zero=alone or repeated)
        if name in ("x-", "..."):
            return name, lambda pair: key + _sized(_named(pair[0], pair[1], payload))

        def single(value: Any) -> bytes:
            made = payload(value)
            return b"" if made is None else key + made

        if not repeated:
            return name, single
        return name, lambda values: b"".join(map(single, values if isinstance(values, list) else [values]))

    def _payload(self, number: int, type_: str, *, keep_zero: bool) -> tuple[bytes, Payload]:
        """The key of a field and the encoder of its values."""
        wire, scalar = _SCALARS.get(type_, (BYTES, None))
        key = put_varint(number << 3 | wire)
        if scalar is not None:
            encode = scalar
            return key, encode if keep_zero else lambda value: encode(value) if value else None
        if type_ == "a":
            return key, _any
        if type_.startswith("%"):
            entry, inner = self._payload(1, type_[1:], keep_zero=True)

            def entries(value: Any) -> bytes:
                pairs = value.items() if isinstance(value, Mapping) else ()
                return _sized(b"".join(entry + _sized(_named(name, item, inner)) for name, item in pairs))

            return key, entries
        return key, lambda value: _sized(self._message(type_, value))


def _sized(value: bytes) -> bytes:
    return put_varint(len(value)) + value


def _any(value: Any) -> bytes:
    return _sized(b"\x12" + _sized(_to_json(value) + b"\n"))


def _named(name: str, value: Any, payload: Payload) -> bytes:
    """A name and its value, as a message."""
    made = payload(value)
    return b"\x0a" + _sized(name.encode()) + (b"" if made is None else b"\x12" + made)


def _string(value: Any) -> bytes | None:
    return _sized(value.encode()) if isinstance(value, str) else None


def _boolean(value: Any) -> bytes | None:
    return put_varint(value) if isinstance(value, bool) else None


def _integer(value: Any) -> bytes | None:
    return put_varint(int(value)) if isinstance(value, int | float) else None


def _number(value: Any) -> bytes | None:
    return struct.pack("<d", value) if isinstance(value, int | float) else None


_SCALARS: dict[str, tuple[int, Payload]] = {
    "s": (BYTES, _string),
    "b": (VARINT, _boolean),
    "I": (VARINT, _integer),
    "d": (FIXED64, _number),
}


def _refers(value: Any) -> bool:
    return isinstance(value, Mapping) and "$ref" in value


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _numbered(first: int, names: str) -> str:
    """Fields in the order of their numbers; `-` skips one."""
    return ";".join(f"{first + place} {name}" for place, name in enumerate(names.split(";")) if name != "-")


_VALUES = (
    "maximum d;exclusiveMaximum b;minimum d;exclusiveMinimum b;maxLength I;minLength I;pattern s;maxItems I;"
    "minItems I;uniqueItems b"
)
_ITEM = f"type s;format s;items Items;collectionFormat s;default a;{_VALUES};enum *a;multipleOf d"
_PLACED = "required b;in s;description s;name s"
_METHODS = "get Operation;put Operation;post Operation;delete Operation;options Operation;head Operation"

V2 = MessageSchema(
    {
        "Document": _numbered(
            1,
            "swagger s;info Info;host s;basePath s;schemes *s;consumes *s;produces *s;paths Paths;"
            "definitions %Schema;parameters %Parameter;responses %Response;security *%Scopes;"
            "securityDefinitions %Security;-;externalDocs Docs;x- a",
        ),
        "Info": _numbered(1, "title s;version s;description s;termsOfService s;-;-;x- a"),
        "Docs": _numbered(1, "description s;url s;x- a"),
        "Paths": _numbered(1, "x- a;... PathItem"),
        "PathItem": _numbered(1, f"$ref s;{_METHODS};patch Operation;parameters *ParametersItem;x- a"),
        "Operation": _numbered(
            1,
            "tags *s;summary s;description s;externalDocs Docs;operationId s;produces *s;consumes *s;"
            "parameters *ParametersItem;responses Responses;schemes *s;deprecated b;-;x- a",
        ),
        "Reference": _numbered(1, "$ref s;description s"),
        "ApiKey": _numbered(1, "type s;name s;in s;description s;x- a"),
        "BasicSecurity": _numbered(1, "type s;description s;x- a"),
        "BodyParameter": _numbered(1, "description s;name s;in s;required b;schema Schema;x- a"),
        "PlainParameter": _numbered(1, f"{_PLACED};{_ITEM};x- a"),
        "EmptyableParameter": _numbered(1, f"{_PLACED};allowEmptyValue b;{_ITEM};x- a"),
        "Items": _numbered(1, f"{_ITEM};x- a"),
        "Header": _numbered(1, f"{_ITEM};description s;x- a"),
        "Responses": _numbered(1, "... ResponseValue;x- a"),
        "Response": _numbered(1, "description s;schema SchemaItem;headers %Header;examples %a;x- a"),
        "FileSchema": _numbered(
            1,
            "format s;title s;description s;default a;required *s;type s;readOnly b;externalDocs Docs;"
            "example a;x- a",
        ),
        "Schema": _numbered(
            1,
            f"$ref s;format s;title s;description s;default a;multipleOf d;{_VALUES};maxProperties I;"
            "minProperties I;required *s;enum *a;additionalProperties SchemaOrBoolean;type Types;"
            "items ItemSchemas;allOf *Schema;properties %Schema;discriminator s;readOnly b;-;"
            "externalDocs Docs;example a;x- a",
        ),
    },
    {
        "ParametersItem": lambda value: "2 $ref Reference" if _refers(value) else "1 in Parameter",
        "Parameter": lambda value: (
            "1 in BodyParameter" if _get(value, "in") == "body" else "2 in OtherParameter"
        ),
        "OtherParameter": lambda value: {
            "header": "1 in PlainParameter",
            "formData": "2 in EmptyableParameter",
            "query": "3 in EmptyableParameter",
        }.get(_get(value, "in"), "4 in PlainParameter"),
        "ResponseValue": lambda value: "2 $ref Reference" if _refers(value) else "1 response Response",
        "SchemaItem": lambda value: (
            "2 schema FileSchema" if _get(value, "type") == "file" else "1 schema Schema"
        ),
        "SchemaOrBoolean": lambda value: "2 value b" if isinstance(value, bool) else "1 schema Schema",
        "Types": lambda value: "1 value *s",
        "ItemSchemas": lambda value: "1 value *Schema",
        "Scopes": lambda value: "1 value *s",
        "Security": lambda value: {"apiKey": "2 type ApiKey", "basic": "1 type BasicSecurity"}.get(
            _get(value, "type"), ""
        ),
    },
)
"""Version 2, whole in one document."""


def _or_reference(name: str) -> Pick:
    return lambda value: "2 $ref Reference" if _refers(value) else f"1 value {name}"


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "2 value b"
    if isinstance(value, int | float):
        return "1 value d"
    return "3 value s" if isinstance(value, str) else ""


V3 = MessageSchema(
    {
        "Document": _numbered(
            1,
            "openapi s;info Info;servers *Server;paths Paths;components Components;-;-;"
            "externalDocs Docs;x- a",
        ),
        "Info": _numbered(1, "title s;description s;termsOfService s;-;-;version s;x- a;summary s"),
        "Server": _numbered(1, "url s;description s;-;x- a"),
        "Docs": _numbered(1, "description s;url s;x- a"),
        "Paths": _numbered(1, "... PathItem;x- a"),
        "PathItem": _numbered(
            1,
            f"$ref s;summary s;description s;{_METHODS};patch Operation;trace Operation;servers *Server;"
            "parameters *ParameterItem;x- a",
        ),
        "Operation": _numbered(
            1,
            "tags *s;summary s;description s;externalDocs Docs;operationId s;parameters *ParameterItem;"
            "requestBody RequestBodyItem;responses Responses;-;deprecated b;-;servers *Server;x- a",
        ),
        "Reference": _numbered(1, "$ref s;summary s;description s"),
        "Parameter": _numbered(
            1,
            "name s;in s;description s;required b;deprecated b;allowEmptyValue b;style s;explode b;"
            "allowReserved b;schema SchemaItem;example a;-;content %MediaType;x- a",
        ),
        "RequestBody": _numbered(1, "description s;content %MediaType;required b;x- a"),
        "Responses": _numbered(1, "default ResponseItem;... ResponseItem;x- a"),
        "Response": _numbered(1, "description s;-;content %MediaType;-;x- a"),
        "MediaType": _numbered(1, "schema SchemaItem;example a;-;-;x- a"),
        "Components": _numbered(
            1,
            "schemas %SchemaItem;responses %ResponseItem;parameters %ParameterItem;-;"
            "requestBodies %RequestBodyItem;-;securitySchemes %SecurityItem;-;-;x- a",
        ),
        "Security": _numbered(1, "type s;description s;name s;in s;scheme s;bearerFormat s;-;-;x- a"),
        "Schema": _numbered(
            1,
            "nullable b;-;readOnly b;writeOnly b;-;externalDocs Docs;example a;deprecated b;title s;"
            f"multipleOf d;{_VALUES};maxProperties I;minProperties I;required *s;enum *a;type s;"
            "allOf *SchemaItem;oneOf *SchemaItem;anyOf *SchemaItem;not Schema;items ItemSchemas;"
            "properties %SchemaItem;additionalProperties SchemaOrBoolean;default Default;description s;"
            "format s;x- a",
        ),
    },
    {
        "ParameterItem": _or_reference("Parameter"),
        "RequestBodyItem": _or_reference("RequestBody"),
        "ResponseItem": _or_reference("Response"),
        "SchemaItem": _or_reference("Schema"),
        "SecurityItem": _or_reference("Security"),
        "ItemSchemas": lambda value: "1 value *SchemaItem",
        "SchemaOrBoolean": lambda value: "2 value b" if isinstance(value, bool) else "1 value SchemaItem",
        "Default": _default,
    },
)
"""Version 3, one document a group version."""
