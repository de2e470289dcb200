"""Verbs and subresources that a function answers instead of storage.

The function gets a `SubresourceRequest` with the decoded body and returns an object or a whole response.
What it is asked for has passed admission by then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import BadRequest
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.encoding.request_body import (
    check_namespace,
    media_type,
    read_object,
    read_plain,
    read_typed,
)
from kubewright.apiserver.encoding.tables import TablePrinter
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.objects import Object
from kubewright.apiserver.subresource import Subresource, SubresourceRequest

from . import writes
from .options import parse_write_options

if TYPE_CHECKING:
    from .endpoint import ResourceEndpoint


async def answer_verb(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo, verb: str
) -> HTTPResponse:
    """A verb that a function answers."""
    accepted = endpoint.accepted(request, tables=verb in ("get", "list") or endpoint.resource.custom)
    body: Object | None = None
    if verb in ("get", "list"):
        pass
    elif endpoint.resource.custom:
        body = await _read_any(endpoint, request, endpoint.resource.kind, endpoint.version.wire)
        if body is not None:
            body.setdefault("metadata", {})
    else:
        body = read_object(
            await endpoint.body(request),
            media_type(request),
            endpoint.resource,
            endpoint.version,
            validation=parse_write_options(request, "CreateOptions").field_validation,
            warn=request.warn,
            wire=endpoint.version.wire,
        )
    asked = _asked(endpoint, request, info, body, verb)
    if verb == "create" and body is not None and not endpoint.resource.custom:
        await _prepare_creation(endpoint, asked, body)
    result = await endpoint.resource.handlers[verb](asked)
    if isinstance(result, HTTPResponse):
        return result
    if accepted.transform == "Table":
        maker = TablePrinter(endpoint.resource, endpoint.version, endpoint.include(request, accepted))
        rows = result["items"] if verb == "list" else [result]
        return respond(request, accepted, encode(maker.table(rows, result.get("metadata") or {})))
    status = 201 if verb == "create" else 200
    return respond(request, accepted, encode(_transformed(accepted, result)), status)


def _transformed(accepted: ResponseFormat, result: Object) -> Object:
    if accepted.transform == "PartialObjectMetadata":
        api_version = f"meta.k8s.io/{accepted.version}"
        metadata = result.get("metadata") or {}
        return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
    return result


async def _prepare_creation(endpoint: ResourceEndpoint, asked: SubresourceRequest, body: Object) -> None:
    """What happens to every object that is created, stored or not: its namespace, its owners, admission."""
    check_namespace(body, asked.namespace)
    if asked.namespace:
        body["metadata"]["namespace"] = asked.namespace
    else:
        body["metadata"].pop("namespace", None)
    op, now = asked.operation, datetime.now(UTC)
    asked.body = await endpoint.store.own(
        endpoint.version, "", lambda owner: owner.update(None, body, op.field_manager, now)
    )
    await _admit_creation(endpoint, asked, None)


async def _read_any(endpoint: ResourceEndpoint, request: HTTPRequest, kind: str, wire: Any) -> Object | None:
    data = await endpoint.body(request)
    if not data:
        return None
    body, _ = read_plain(data, media_type(request), kind, wire)
    if body is not None and not isinstance(body, dict):
        raise BadRequest(f"the object provided is unrecognized (must be of type {kind})")
    return body


def _asked(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo, body: Object | None, verb: str
) -> SubresourceRequest:
    write: Any = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
        request.method, verb
    )
    options = parse_write_options(request, "CreateOptions") if request.method in ("POST", "PUT") else None
    op = endpoint.operation(
        request,
        info,
        write,
        dry_run=options.dry_run if options is not None else False,
        options=options.to_object("CreateOptions") if options is not None else {},
        manager=options.field_manager if options is not None else "",
    )
    return SubresourceRequest(
        request=request,
        resource=endpoint.resource,
        version=endpoint.version,
        store=endpoint.store,
        namespace=op.namespace,
        name=op.name,
        subresource=info.subresource,
        path="/".join(info.parts[3:]),
        body=body,
        operation=op,
    )


async def answer_subresource(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo, declared: Subresource
) -> HTTPResponse:
    """A subresource that a function answers."""
    accepted = endpoint.accepted(request, tables=False) if not declared.connects else ResponseFormat()
    body = None
    if declared.decodes and request.method in ("POST", "PUT"):
        if declared.checks is not None and declared.kind is not None:
            body = read_typed(
                await endpoint.body(request),
                media_type(request),
                declared.kind,
                declared.checks,
                validation=parse_write_options(request, "CreateOptions").field_validation,
                warn=request.warn,
                wire=declared.wire,
            )
        else:
            kind = declared.kind.kind if declared.kind is not None else endpoint.resource.kind
            body = await _read_any(endpoint, request, kind, declared.wire)
    asked = _asked(endpoint, request, info, body, info.verb)
    if declared.connects:
        await _admit_connect(endpoint, asked)
    elif request.method == "POST" and declared.kind is not None and asked.body is not None:
        metadata = asked.body.get("metadata")
        if isinstance(metadata, dict):
            check_namespace(asked.body, asked.namespace)
            if asked.namespace:
                metadata["namespace"] = asked.namespace
        if declared.prepare is not None:
            await declared.prepare(asked)
        await _admit_creation(endpoint, asked, declared.kind)
    assert declared.handler is not None
    result = await declared.handler(asked)
    if isinstance(result, HTTPResponse):
        return result
    status = declared.status_code if request.method == "POST" else 200
    return respond(request, accepted, encode(_transformed(accepted, result)), status)


async def _admit_connect(endpoint: ResourceEndpoint, asked: SubresourceRequest) -> None:
    admission = endpoint.server.admission
    if admission.has_mutating or admission.has_validating:
        options = {key: values[0] for key, values in asked.request.query.values.items()}
        question = writes.admission_request(endpoint.store, asked.operation, "CONNECT", options, None)
        await admission.mutate(question)
        await admission.validate(question)


async def _admit_creation(
    endpoint: ResourceEndpoint, asked: SubresourceRequest, kind: GroupVersionKind | None
) -> None:
    """A POST to a subresource creates an object of its kind: a Binding, an Eviction, a TokenRequest."""
    admission = endpoint.server.admission
    if admission.has_mutating or admission.has_validating:
        question = writes.admission_request(endpoint.store, asked.operation, "CREATE", asked.body, None)
        if kind is not None:
            question.kind = kind
            question.definition = question.version = question.convert = question.renew = None
        await admission.mutate(question)
        asked.body = question.object
        await admission.validate(question)
