"""LIST: selectors, pages, and which version of the world is shown."""

from __future__ import annotations

import base64
import binascii
import string
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import APIError, BadRequest, Expired, NotAcceptable
from kubewright.apiserver.encoding.negotiation import encode, respond
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.storage.contract import Compacted, FutureRevision, Page

from .options import ListOptions, parse_list_options, parse_version
from .selection import Selection, selection_of

if TYPE_CHECKING:
    from .endpoint import ResourceEndpoint

_URL_SAFE = frozenset(string.ascii_letters + string.digits + "-_")
_GONE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def make_continue(revision: int, after: str) -> str:
    """The token that goes on after a key (relative to the range)."""
    token = encode({"v": "meta.k8s.io/v1", "rv": revision, "start": after + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def read_continue(token: str) -> tuple[int, str]:
    """The revision (-1: any) and the first key of the next page; raises `BadRequest`."""
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


async def collect(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo
) -> tuple[Page, ListOptions]:
    """The stored objects that a collection request selects."""
    options = parse_list_options(request)
    selection = selection_of(endpoint.resource, endpoint.version, options.labels, options.fields)
    namespace = info.namespace if endpoint.resource.namespaced else ""
    if options.continue_:
        return await _next_page(endpoint, namespace, options, selection), options
    wanted = parse_version(options.resource_version, "invalid resource version")
    if options.fields is not None and options.fields.exact("metadata.name") is not None:
        # One object at most: there is no next page.
        options = options._replace(limit=0) if namespace or not endpoint.resource.namespaced else options
    exact = wanted if options.match == "Exact" or (wanted and options.limit and not options.match) else 0
    if wanted and wanted > endpoint.server.dispatcher.revision:
        await endpoint.server.dispatcher.wait_for_storage_revision(wanted, endpoint.server.freshness_timeout)
    try:
        page = await endpoint.store.list_page(
            namespace, start=None, limit=_limit(options), revision=exact, selection=selection
        )
    except Compacted:
        raise Expired("The resourceVersion for the provided list is too old.") from None
    except FutureRevision as error:
        raise _too_large(error) from None
    return page, options


def _limit(options: ListOptions) -> int:
    """A client that takes any state gets all of it at once."""
    return 0 if options.resource_version == "0" else options.limit


async def _next_page(
    endpoint: ResourceEndpoint, namespace: str, options: ListOptions, selection: Selection | None
) -> Page:
    if options.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    revision, start = read_continue(options.continue_)
    prefix = endpoint.store.range(namespace)
    try:
        return await endpoint.store.list_page(
            namespace,
            start=prefix + start,
            limit=_limit(options),
            revision=max(revision, 0),
            selection=selection,
        )
    except Compacted:
        error = Expired(_GONE)
        status = error.to_status()
        status["metadata"] = {"continue": make_continue(-1, start.removesuffix("\0"))}
        error.to_status = lambda: status  # type: ignore[method-assign]
        raise error from None
    except FutureRevision as error:
        raise _too_large(error) from None


def _too_large(error: FutureRevision) -> APIError:
    from kubewright.api.errors import too_large_resource_version

    return too_large_resource_version(error.revision, error.current)


def list_metadata(endpoint: ResourceEndpoint, info: RequestInfo, page: Page) -> dict[str, Any]:
    """The version of a page, and the token for the next one."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.more:
        namespace = info.namespace if endpoint.resource.namespaced else ""
        last = page.items[-1].key.removeprefix(endpoint.store.range(namespace))
        metadata["continue"] = make_continue(page.revision, last)
    return metadata


async def list_collection(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo
) -> HTTPResponse:
    """Answer a LIST."""
    accepted = endpoint.accepted(request)
    if accepted.transform == "PartialObjectMetadata":
        raise NotAcceptable(
            f"you requested PartialObjectMetadata, but the requested object is a list "
            f"({endpoint.go_type(endpoint.resource.list_kind)})"
        )
    include = endpoint.include(request, accepted)
    page, options = await collect(endpoint, request, info)
    metadata = list_metadata(endpoint, info, page)
    if page.more:
        if options.labels is None and options.fields is None:
            metadata["remainingItemCount"] = page.remaining
    elif endpoint.resource.custom and not accepted.transform:
        metadata["continue"] = ""
    representation = endpoint.store.representation(endpoint.version, accepted, include)
    return respond(request, accepted, await representation.many(page.items, metadata))
