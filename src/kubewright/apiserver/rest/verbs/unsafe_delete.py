"""DELETE of an object that cannot be decoded, with `ignoreStoreReadErrorWithClusterBreakingPotential`.

As in kube-apiserver with the feature gate AllowUnsafeMalformedObjectDeletion: it requires the verb
`unsafe-delete-ignore-read-errors`, and skips finalizers, preconditions, admission and everything that follows
a regular deletion. The gate is off by default there, and the option without effect; so it is here for objects
that can be decoded.
"""

from __future__ import annotations

import logging

from kubewright.api.errors import MODIFIED, conflict, forbidden
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.rest.options import IGNORE_READ_ERROR
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.writer import UPDATE_ATTEMPTS
from kubewright.storage.contract import RevisionMismatch

logger = logging.getLogger("kubewright.apiserver")

VERB = "unsafe-delete-ignore-read-errors"
_ANNOTATION = "apiserver.k8s.io/unsafe-delete-ignore-read-error"


class UnsafeDeleteHandler:
    """Deletes an object from storage that cannot be decoded."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(
        self, request: HTTPRequest, info: RequestInfo, response_format: ResponseFormat
    ) -> HTTPResponse | None:
        """Delete the object if it cannot be decoded; `None` for other objects. Raises `Forbidden`."""
        scope = self._scope
        resource, store = scope.resource, scope.store
        name, namespace = info.parts[1], scope.namespace(info)
        key = store.key(namespace, name)
        for _ in range(UPDATE_ATTEMPTS):
            item, error = await store.storage.get_stored(key)
            if item is None or error is None:
                return None
            request.annotate(_ANNOTATION, "")
            await self._authorize(request, info)
            try:
                store.written = await store.storage.delete(key, expected=item.mod_revision)
                break
            except RevisionMismatch:
                continue
        else:
            raise conflict(resource.group_resource, name, MODIFIED)
        logger.warning("deleted an object that cannot be decoded", extra={"key": key})
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": name, "kind": resource.kind},
            "code": 200,
        }
        return respond(request, response_format, encode(status))

    async def _authorize(self, request: HTTPRequest, info: RequestInfo) -> None:
        resource, name = self._scope.resource.group_resource, info.name
        if info.subresource:
            why = f"{IGNORE_READ_ERROR} delete option is not allowed on a subresource or non-resource request"
            raise forbidden(resource, name, why)
        attributes = AuthorizationAttributes.of(request.user, info)._replace(verb=VERB, path="")
        decision, reason = await self._scope.server.authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            raise forbidden(resource, name, f'not permitted to do "{VERB}", reason: {reason}')
