"""Content negotiation: the format of responses.

Responses are JSON, YAML or, for built-in kinds, protobuf: the first media type of the Accept header that is
available, ordered by quality. A media type can request a transformation
(`as=Table;v=v1;g=meta.k8s.io`). Parsed headers are cached: there are few different ones.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import msgspec
import yaml

from kubewright.api.errors import APIError, NotAcceptable
from kubewright.apiserver.http.messages import GeneratedPieces, HTTPRequest, HTTPResponse, Pieces
from kubewright.apiserver.routing_errors import NoRepresentation
from kubewright.text_cache import cache_short

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

_TRANSFORMS = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}
_LONG_YAML = 4 * 1024
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


class ResponseFormat(NamedTuple):
    """The format of a response."""

    media: str = JSON
    transform: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or empty."""
    version: str = "v1"
    """The version of the transformed kind."""


PLAIN = ResponseFormat()


class AcceptClause(NamedTuple):
    """One media range of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float


@cache_short(maxsize=512)
def parse_accept(header: str) -> tuple[AcceptClause, ...]:
    """Parse an Accept header; media ranges with the highest quality first."""
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


@cache_short(maxsize=512)
def _negotiate(header: str, protobuf: bool, tables: bool, transforms: bool) -> ResponseFormat | str | None:
    """Return the format; `None` if no requested transformation is available, "unknown" if no media type
    is."""
    known = False
    for clause in parse_accept(header):
        transform = clause.parameters.get("as", "")
        # PartialObjectMetadata has a protobuf form for every kind.
        media = _media(clause.media, protobuf or transform.startswith("PartialObjectMetadata"))
        if not media:
            continue
        known = True
        if not clause.parameters.keys() & {"as", "g", "v"}:
            return ResponseFormat(media)
        version = clause.parameters.get("v", "")
        if (
            transforms
            and clause.parameters.get("g") == "meta.k8s.io"
            and version in _TRANSFORMS.get(transform, ())
            and not (transform == "Table" and (clause.media == PROTOBUF or not tables))
        ):
            return ResponseFormat(media, transform, version)
    return None if known else "unknown"


def negotiate(
    request: HTTPRequest, *, protobuf: bool = True, tables: bool = True, transforms: bool = True
) -> ResponseFormat:
    """Return the format that a request accepts; raises `NotAcceptable`. `transforms` is false for
    documents, which are not objects."""
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
    raise NoRepresentation(available)


def require(request: HTTPRequest, media: str) -> None:
    """Raise `NotAcceptable` unless a request accepts a media type."""
    header = request.headers.get("Accept")
    if header and all(clause.media not in (media, "*/*", "application/*") for clause in parse_accept(header)):
        raise NoRepresentation(media)


def wants_pretty(request: HTTPRequest) -> bool:
    """Whether JSON is indented: on request, and for curl, wget and browsers."""
    if request.query and "pretty" in request.query:
        return request.query.get("pretty").lower() in ("1", "true", "t")
    agent = request.headers.get("User-Agent", "")
    return agent.startswith(_PRETTY_AGENTS)


_encode_into = msgspec.json.Encoder().encode_into
_SCRATCH_LIMIT = 1 << 20


class _Scratch(threading.local):
    """The buffer of `encode`, one per thread."""

    def __init__(self) -> None:
        self.buffer = bytearray()


_scratch = _Scratch()


def encode(obj: Any) -> bytes:
    """Encode as JSON, in exactly the memory that it needs.

    The buffer of a new encoder would be shrunk afterwards, which fragments the heap of a server that stores
    the results.
    """
    buffer = _scratch.buffer
    _encode_into(obj, buffer)
    body = bytes(buffer)
    if len(body) > _SCRATCH_LIMIT:
        buffer.clear()
    return body


class YAMLDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML dumper without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat equal objects instead of naming them."""
        return True


def to_yaml(obj: Any) -> bytes:
    """Encode plain data as YAML."""
    text: str = yaml.dump(
        obj, Dumper=YAMLDumper, default_flow_style=False, allow_unicode=True, width=1_000_000
    )
    return text.encode()


def respond(
    request: HTTPRequest,
    response_format: ResponseFormat,
    body: bytes | Pieces | GeneratedPieces,
    status: int = 200,
) -> HTTPResponse:
    """Return a response with encoded JSON, complete or in pieces."""
    if not isinstance(body, bytes):
        if response_format.media == JSON and not wants_pretty(request):
            return HTTPResponse(status, pieces=body)
        body = b"".join(body)
    if response_format.media == YAML:
        return HTTPResponse(status, to_yaml(msgspec.json.decode(body)), content_type=YAML)
    if response_format.media == PROTOBUF:
        from .protobuf import builtin_codec

        return HTTPResponse(status, builtin_codec().encode(msgspec.json.decode(body)), content_type=PROTOBUF)
    if wants_pretty(request):
        return HTTPResponse(status, msgspec.json.format(body, indent=2))
    return HTTPResponse(status, body if body.endswith(b"\n") else body + b"\n")


async def respond_long(
    request: HTTPRequest, response_format: ResponseFormat, body: bytes, status: int = 200
) -> HTTPResponse:
    """Return a response with encoded JSON as `respond` does; long YAML is encoded in slices."""
    if response_format.media != YAML or len(body) < _LONG_YAML:
        return respond(request, response_format, body, status)
    from kubewright.apiserver.slices import run_in_slices

    from .yaml_output import yaml_in_slices

    encoded = await run_in_slices(yaml_in_slices(msgspec.json.decode(body)))
    return HTTPResponse(status, encoded, content_type=YAML)


def json_response(obj: Any, status: int = 200) -> HTTPResponse:
    """Return a response with plain data as JSON, without negotiation."""
    return HTTPResponse(status, encode(obj) + b"\n")


def status_response(request: HTTPRequest, error: APIError) -> HTTPResponse:
    """Return the `Status` response of a failed request."""
    body = encode(error.to_status())
    try:
        response_format = negotiate(request, transforms=False)
    except NotAcceptable:
        response_format = PLAIN
    response = respond(request, response_format, body, error.status_code)
    response.headers.update(error.headers)
    retry = error.details.get("retryAfterSeconds")
    if retry and error.status_code in (429, 500, 503, 504):
        response.headers.setdefault("Retry-After", str(retry))
    return response
