"""Pass the responses of writes to the informers, so that reads see the writes of this client.

Most responses are the current object, which is stored. Some only show that the object has changed or is
deleted, or have another version than the cached one; then the informer expects a change, and readers wait
for the watch. Errors are evidence as well: after `AlreadyExists` or `Conflict` the cached state is outdated.
A response with another object than the one of the request is ignored: the watch delivers what has changed.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from kubewright.api.encoding.codec import ObjectHeader, RawList, decoder
from kubewright.api.errors import AlreadyExists, APIError, Conflict, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.client.rest.request import APIRequest
from kubewright.client.transport.interface import APIResponse

from .cache import Cache
from .informers.informer import Informer
from .stores.store import ObjectKey

logger = logging.getLogger(__name__)

_decode_header = decoder(ObjectHeader).decode
_decode_list = decoder(RawList).decode
_CHANGES_PARENT: Final = ("eviction", "binding")
"""Subresources whose response does not contain the object that they change."""
_CRDS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")


class _Details(msgspec.Struct, gc=False):
    uid: str = ""


class _Status(msgspec.Struct, gc=False):
    details: _Details | None = None


class _NamespaceSpec(msgspec.Struct, gc=False):
    finalizers: list[str] | None = None


class _Namespace(msgspec.Struct, gc=False):
    spec: _NamespaceSpec | None = None


def is_write(request: APIRequest) -> bool:
    """Whether a request changes an object if it succeeds."""
    return (
        request.method not in ("GET", "HEAD", "OPTIONS")
        and "dryRun=" not in request.query
        and not (request.method == "DELETE" and b'"dryRun"' in request.body)
    )


def record_response(cache: Cache, request: APIRequest, response: APIResponse) -> None:
    """Pass the response of a successful write to the informers of its resource."""
    if request.resource is None:
        return
    if request.resource == _CRDS:
        cache.retry_now()
    for informer in cache.informers_for(request.resource):
        try:
            _record(informer, request, response.body)
        except msgspec.DecodeError:
            # Not an object: only the fact of the write is known.
            _expect_change(informer, request)


def record_error(cache: Cache, request: APIRequest, error: APIError) -> None:
    """Pass an error of a write to the informers: the cached object is outdated."""
    if request.resource is None or not isinstance(error, Conflict | NotFound):
        return
    for informer in cache.informers_for(request.resource):
        key = ObjectKey(request.namespace, request.name or _sent_metadata(request).name or "")
        entry = informer.store.get(key)
        if isinstance(error, AlreadyExists):
            informer.expect_change(key)
        elif entry is not None and (
            isinstance(error, NotFound) or _sent_metadata(request).resource_version == str(entry.revision)
        ):
            informer.expect_change(key, entry.revision)


def _record(informer: Informer, request: APIRequest, body: bytes) -> None:
    if request.verb == "deletecollection":
        _record_deletions(informer, request, body)
        return
    header = _decode_header(body)
    meta = header.metadata
    if header.kind == "Status":
        if request.method == "DELETE" and not request.subresource:
            details = msgspec.json.decode(body, type=_Status).details
            informer.record_deletion(
                ObjectKey(request.namespace, request.name), details.uid if details else ""
            )
        elif request.subresource in _CHANGES_PARENT:
            _expect_change(informer, request)
        return
    if not _is_requested(request, header, informer):
        logger.warning(
            "ignored a response with another object",
            extra={"request": str(request), "kind": header.kind, "object": meta.name},
        )
        return
    key = ObjectKey(meta.namespace or request.namespace, meta.name or request.name)
    if request.subresource in _CHANGES_PARENT:
        _expect_change(informer, request)
    elif not request.subresource and _is_deleted(request, header, body):
        informer.record_deletion(key, meta.uid or "")
    elif not informer.record_write(body):
        informer.expect_version(key, meta.resource_version or "")


def _is_requested(request: APIRequest, header: ObjectHeader, informer: Informer) -> bool:
    """Whether a response can be the object of a write: its kind, namespace and name."""
    meta = header.metadata
    if not request.subresource and header.kind not in (informer.gvk.kind, "PartialObjectMetadata"):
        return False
    if request.namespace and meta.namespace and meta.namespace != request.namespace:
        return False
    sent = None if request.name else _sent_metadata(request)
    name = request.name or (sent.name if sent is not None else "") or ""
    if name or sent is None:
        return not meta.name or meta.name == name
    return (meta.name or "").startswith(sent.generate_name or "")


def _is_deleted(request: APIRequest, header: ObjectHeader, body: bytes) -> bool:
    """Whether the object in a response has been deleted."""
    meta = header.metadata
    if meta.finalizers or (meta.deletion_grace_period_seconds or 0) > 0:
        return False
    if meta.deletion_timestamp is None and request.method != "DELETE":
        return False
    if header.kind == "Namespace":
        spec = msgspec.json.decode(body, type=_Namespace).spec
        return not (spec and spec.finalizers)
    return True


def _record_deletions(informer: Informer, request: APIRequest, body: bytes) -> None:
    """Record the objects of a deleted collection; those with finalizers or a grace period still exist."""
    still_exist = (
        informer.gvk.kind in ("Pod", "Namespace")
        or b'"Foreground"' in request.body
        or b'"Orphan"' in request.body
    )
    for item in _decode_list(body).items or ():
        meta = _decode_header(item).metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        if still_exist or meta.finalizers:
            version = meta.resource_version or ""
            informer.expect_change(key, int(version) if version.isdecimal() else 0)
        else:
            informer.record_deletion(key, meta.uid or "")


def _expect_change(informer: Informer, request: APIRequest) -> None:
    key = ObjectKey(request.namespace, request.name)
    entry = informer.store.get(key)
    if entry is not None:
        informer.expect_change(key, entry.revision)


def _sent_metadata(request: APIRequest) -> Any:
    """Return the metadata in the body of a write."""
    try:
        return _decode_header(request.body).metadata
    except msgspec.DecodeError:
        return ObjectHeader().metadata
