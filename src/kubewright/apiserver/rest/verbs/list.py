"""GET of a collection: selectors, pages, resource versions."""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Sequence
from typing import Any

import msgspec

from kubewright.api.errors import APIError, BadRequest, Expired, NotAcceptable, too_large_resource_version
from kubewright.api.kubernetes_version import serving_version
from kubewright.apiserver.encoding.list_writers import list_writer
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.encoding.representation import Representation, in_slices
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.rest.options import ListOptions, parse_list_options, parse_version
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.selection import Selection, make_selection
from kubewright.apiserver.slices import run_in_slices
from kubewright.storage.contract import Compacted, FutureRevision, KeyValue, Page

_URL_SAFE = frozenset(string.ascii_letters + string.digits + "-_")
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class _ContinueExpired(Expired):
    """The revision of a continue token was compacted; the response has a token for the current one."""

    def __init__(self, token: str) -> None:
        super().__init__(_CONTINUE_EXPIRED)
        self._token = token

    def to_status(self) -> dict[str, Any]:
        """Return the `Status` object with the other token."""
        return {**super().to_status(), "metadata": {"continue": self._token}}


class ListHandler:
    """Serves GET of a collection."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """List the selected objects, or one page of them."""
        scope = self._scope
        response_format = scope.negotiate(request)
        if response_format.transform == "PartialObjectMetadata":
            raise NotAcceptable(
                f"you requested PartialObjectMetadata, but the requested object is a list "
                f"({scope.go_type(scope.resource.list_kind)})"
            )
        representation = scope.representation(request, response_format)
        page, options = await self.read_page(request, info)
        metadata = self.list_metadata(info, page)
        if page.more:
            if options.labels is None and options.fields is None:
                metadata["remainingItemCount"] = page.remaining
        elif scope.resource.custom and not response_format.transform:
            metadata["continue"] = ""
        return await self.respond(request, response_format, representation, page.items, metadata)

    async def respond(
        self,
        request: HTTPRequest,
        response_format: ResponseFormat,
        representation: Representation,
        items: Sequence[KeyValue],
        metadata: dict[str, Any],
    ) -> HTTPResponse:
        """Return the response with a list of stored objects; other tasks run while many are encoded."""
        writer = list_writer(request, representation) if len(items) > 1 else None
        if writer is None:
            return respond(request, response_format, await representation.many(items, metadata))
        for part in in_slices(items, writer.items_per_slice):
            body = await representation.many(part, metadata)
            await run_in_slices(writer.add(body if isinstance(body, bytes) else b"".join(body)))
        return HTTPResponse(200, pieces=writer.finish(), content_type=writer.media)

    async def read_page(self, request: HTTPRequest, info: RequestInfo) -> tuple[Page, ListOptions]:
        """Read the stored objects that a collection request selects."""
        scope = self._scope
        options = parse_list_options(request)
        selection = make_selection(scope.resource, scope.version, options.labels, options.fields)
        namespace = scope.namespace(info)
        if options.continue_:
            return await self._next_page(namespace, options, selection), options
        wanted = parse_version(options.resource_version, "invalid resource version")
        if options.fields is not None and options.fields.exact("metadata.name") is not None:
            # At most one object matches, so a limit has no effect.
            options = options._replace(limit=0) if namespace or not scope.resource.namespaced else options
        exact = wanted if options.match == "Exact" or (wanted and options.limit and not options.match) else 0
        dispatcher = scope.server.dispatcher
        if wanted and wanted > dispatcher.revision:
            if exact and serving_version().includes("-1.33"):
                raise APIError("etcdserver: mvcc: required revision is a future revision")
            await dispatcher.wait_for_storage_revision(wanted, scope.server.freshness_timeout)
        try:
            page = await scope.store.list_page(
                namespace, start=None, limit=_limit(options), revision=exact, selection=selection
            )
        except Compacted:
            raise Expired("The resourceVersion for the provided list is too old.") from None
        except FutureRevision as error:
            raise too_large_resource_version(error.revision, error.current) from None
        return page, options

    async def _next_page(self, namespace: str, options: ListOptions, selection: Selection | None) -> Page:
        revision, start = decode_continue(options.continue_)
        if options.resource_version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        store = self._scope.store
        try:
            return await store.list_page(
                namespace,
                start=store.range(namespace) + start,
                limit=_limit(options),
                revision=max(revision, 0),
                selection=selection,
            )
        except Compacted:
            raise _ContinueExpired(encode_continue(-1, start.removesuffix("\0"))) from None
        except FutureRevision as error:
            raise too_large_resource_version(error.revision, error.current) from None

    def list_metadata(self, info: RequestInfo, page: Page) -> dict[str, Any]:
        """Return the ListMeta of a page: its resource version and the token of the next page."""
        metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
        if page.more:
            prefix = self._scope.store.range(self._scope.namespace(info))
            metadata["continue"] = encode_continue(page.revision, page.items[-1].key.removeprefix(prefix))
        return metadata


def _limit(options: ListOptions) -> int:
    """Return the page size; kube-apiserver ignores `limit` for resourceVersion 0."""
    return 0 if options.resource_version == "0" else options.limit


def encode_continue(revision: int, after: str) -> str:
    """Encode the token of the page after a key, which is relative to the range."""
    token = encode({"v": "meta.k8s.io/v1", "rv": revision, "start": after + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode_continue(token: str) -> tuple[int, str]:
    """Decode a token: the revision (-1: the current one) and the first key; raises `BadRequest`."""
    wrong = next((place for place, char in enumerate(token) if char not in _URL_SAFE), -1)
    if wrong < 0 and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong >= 0:
        raise BadRequest(
            f"invalid continue token: continue key is not valid: illegal base64 data at input byte {wrong}"
        )
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        value = msgspec.json.decode(raw)
        version, revision, start = value.get("v", ""), int(value.get("rv", 0)), str(value.get("start", ""))
        if version != "meta.k8s.io/v1":
            raise ValueError(f"server does not recognize this encoded version {version}")
        if not revision:
            raise ValueError(f"incorrect encoded start resourceVersion (version {version})")
        if not start:
            raise ValueError(f"encoded start key empty (version {version})")
        if any(part in ("", ".", "..") for part in start.removeprefix("/").split("/")):
            raise ValueError(start)
    except msgspec.DecodeError:
        first = raw.decode("utf-8", "backslashreplace").lstrip()[:4]
        shown = first if first.startswith("\\x") else first[:1]
        raise BadRequest(
            "invalid continue token: continue key is not valid: "
            f"invalid character '{shown}' looking for beginning of value"
        ) from None
    except (ValueError, AttributeError, TypeError, binascii.Error) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    return revision, start
