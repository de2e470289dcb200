"""Content negotiation: which representation a client gets, and how bodies are read.

Answers are JSON or YAML; clients that prefer protobuf also take JSON, which they recognise by its
Content-Type, and those that take nothing else get protobuf of the kinds that have it. A media type may ask
for a transformation (`as=Table;v=v1;g=meta.k8s.io`). Header texts are few and repeat, so what they mean is
remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import yaml

from kubewright.api.errors import APIError, NotAcceptable
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, Pieces

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

_TRANSFORMS = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


class ResponseFormat(NamedTuple):
    """What to answer with."""

    media: str = JSON
    transform: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or empty."""
    version: str = "v1"
    """The version of the transform's own kind."""


PLAIN = ResponseFormat()


class AcceptClause(NamedTuple):
    """One alternative of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float


@lru_cache(maxsize=512)
def parse_accept(header: str) -> tuple[AcceptClause, ...]:
    """The alternatives of an Accept header, most wanted first."""
    clauses = []
    for part in header.split(","):
        media, *parameters = part.strip().split(";")
        values = {}
        for parameter in parameters:
            key, _, value = parameter.strip().partition("=")
            values[key.strip()] = value.strip().strip('"')
        try:
            quality = float(values.get("q", "1"))
        except ValueError:
            quality = 0.0
        if media.strip():
            clauses.append(AcceptClause(media.strip(), values, quality))
    clauses.sort(key=lambda clause: -clause.quality)
    return tuple(clauses)


def _media(wanted: str, protobuf: bool) -> str:
    if wanted in ("*/*", JSON):
        return JSON
    if wanted == YAML:
        return YAML
    return PROTOBUF if wanted == PROTOBUF and protobuf else ""


@lru_cache(maxsize=512)
def _negotiate(header: str, protobuf: bool, tables: bool, transforms: bool) -> ResponseFormat | str | None:
    """The choice, or the text of the refusal."""
    known = False
    binary: ResponseFormat | None = None
    for clause in parse_accept(header):
        transform = clause.parameters.get("as", "")
        # Metadata travels in protobuf whatever the object is.
        media = _media(clause.media, protobuf or transform.startswith("PartialObjectMetadata"))
        if not media:
            continue
        known = True
        if not clause.parameters.keys() & {"as", "g", "v"}:
            if media == PROTOBUF:
                binary = binary or ResponseFormat(media)
                continue
            return ResponseFormat(media)
        version = clause.parameters.get("v", "")
        if (
            transforms
            and clause.parameters.get("g") == "meta.k8s.io"
            and version in _TRANSFORMS.get(transform, ())
            and not (transform == "Table" and (clause.media == PROTOBUF or not tables))
        ):
            if media == PROTOBUF:
                binary = binary or ResponseFormat(media, transform, version)
                continue
            return ResponseFormat(media, transform, version)
    if binary is not None:
        return binary
    return None if known else "unknown"


def negotiate(
    request: HTTPRequest, *, protobuf: bool = True, tables: bool = True, transforms: bool = True
) -> ResponseFormat:
    """What `request` wants of what there is; raises `NotAcceptable`. `transforms` is false where there are no
    objects, but documents, which have one form only."""
    header = request.headers.get("Accept")
    if not header or header == "application/json" or header == "*/*":
        return PLAIN
    choice = _negotiate(header, protobuf, tables, transforms)
    if isinstance(choice, ResponseFormat):
        return choice
    if choice is None or not protobuf:
        raise NotAcceptable(f"only the following media types are accepted: {MEDIA_TYPES}")
    available = MEDIA_TYPES
    if request.query and "watch" in request.query:
        available += f", {JSON};stream=watch, {PROTOBUF};stream=watch"
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {available}", details={})


def require(request: HTTPRequest, media: str) -> None:
    """Refuse a request that does not take the only form that there is."""
    header = request.headers.get("Accept")
    if header and all(clause.media not in (media, "*/*", "application/*") for clause in parse_accept(header)):
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {media}", details={})


def wants_pretty(request: HTTPRequest) -> bool:
    """Whether JSON should be indented: on request, and for people at a terminal or browser."""
    if request.query and "pretty" in request.query:
        return request.query.get("pretty").lower() in ("1", "true", "t")
    agent = request.headers.get("User-Agent", "")
    return agent.startswith(_PRETTY_AGENTS)


_encode_into = msgspec.json.Encoder().encode_into
_scratch = bytearray()
_SCRATCH_KEPT = 1 << 20


def encode(obj: Any) -> bytes:
    """JSON, in exactly the memory that it needs.

    A fresh encoder's buffer is cut to size and leaves holes in the heap beside whatever is stored meanwhile.
    """
    _encode_into(obj, _scratch)
    body = bytes(_scratch)
    if len(body) > _SCRATCH_KEPT:
        _scratch.clear()
    return body


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Never writes aliases: they are legal YAML but nothing that people expect."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(obj: Any) -> bytes:
    """Plain data as YAML."""
    text: str = yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1_000_000)
    return text.encode()


def respond(
    request: HTTPRequest, accepted: ResponseFormat, body: bytes | Pieces, status: int = 200
) -> HTTPResponse:
    """Answer with an object that is already JSON, whole or in pieces."""
    if not isinstance(body, bytes):
        if accepted.media == JSON and not wants_pretty(request):
            return HTTPResponse(status, pieces=body)
        body = b"".join(body)
    if accepted.media == YAML:
        return HTTPResponse(status, to_yaml(msgspec.json.decode(body)), content_type=YAML)
    if accepted.media == PROTOBUF:
        from .protobuf import builtin_codec

        return HTTPResponse(status, builtin_codec().encode(msgspec.json.decode(body)), content_type=PROTOBUF)
    if wants_pretty(request):
        body = msgspec.json.format(body, indent=2) + b"\n"
    return HTTPResponse(status, body)


def json_response(obj: Any, status: int = 200) -> HTTPResponse:
    """Answer with plain data, as JSON, whatever was asked for."""
    return HTTPResponse(status, encode(obj))


def status_response(request: HTTPRequest, error: APIError) -> HTTPResponse:
    """The `Status` of a failed request, in JSON or YAML."""
    body = encode(error.to_status())
    try:
        accepted = negotiate(request)
    except NotAcceptable:
        accepted = PLAIN
    response = respond(request, accepted, body, error.status_code)
    response.headers.update(error.headers)
    retry = error.details.get("retryAfterSeconds")
    if retry and error.status_code in (429, 500, 503, 504):
        response.headers.setdefault("Retry-After", str(retry))
    return response
