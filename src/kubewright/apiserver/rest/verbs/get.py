"""GET of one object."""

from __future__ import annotations

from kubewright.api.errors import APIError, BadRequest, NotAcceptable
from kubewright.apiserver.encoding.negotiation import respond_long
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo, is_watch_value
from kubewright.apiserver.rest.options import parse_version
from kubewright.apiserver.rest.scope import EndpointScope


class GetHandler:
    """Serves GET of one object."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Read the object; with `resourceVersion`, wait until storage has reached that version."""
        scope = self._scope
        response_format = scope.negotiate(request)
        if request.query:
            if "export" in request.query and is_watch_value(request.query.get("export")):
                raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
            wanted = parse_version(request.query.get("resourceVersion"))
            if wanted:
                await scope.server.dispatcher.wait_for_storage_revision(
                    wanted, scope.server.freshness_timeout
                )
        item = await scope.store.read(scope.namespace(info), info.parts[1])
        if response_format.transform == "PartialObjectMetadataList":
            if scope.resource.custom:
                raise APIError("content is not a list", code=500)
            raise NotAcceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({scope.go_type(scope.resource.kind)})"
            )
        representation = scope.representation(request, response_format)
        body = await representation.one(item.value, item.mod_revision)
        return await respond_long(request, response_format, body)
