"""What the answer to a write says about the state, told to the informers that keep it.

Most answers are the object as it is now: it is taken in. Some only say that the object has changed or is
gone, or come in another version than the one that is kept: then the informer is told what to expect, and
readers wait for the watch. A refusal can say something too: an object that exists already, or has changed,
is not as the cache believes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.api.codec import ObjectHeader, RawList, decoder
from kubewright.api.errors import AlreadyExists, APIError, Conflict, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.client.rest.rest_client import APIRequest
from kubewright.client.transport.interface import APIResponse

from .cache import Cache
from .informer import Informer
from .store import ObjectKey

_read_header = decoder(ObjectHeader).decode
_read_list = decoder(RawList).decode
_CHANGES_ITS_OBJECT: Final = ("eviction", "binding")
"""Subresources whose answer says nothing about the object that they change."""
_DEFINITIONS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")


class _Details(msgspec.Struct, gc=False):
    uid: str = ""


class _Status(msgspec.Struct, gc=False):
    details: _Details | None = None


class _NamespaceSpec(msgspec.Struct, gc=False):
    finalizers: list[str] | None = None


class _Namespace(msgspec.Struct, gc=False):
    spec: _NamespaceSpec | None = None


def is_write(call: APIRequest) -> bool:
    """Whether a call changes something, if it succeeds."""
    return (
        call.method not in ("GET", "HEAD", "OPTIONS")
        and "dryRun=" not in call.query
        and not (call.method == "DELETE" and b'"dryRun"' in call.body)
    )


def record_response(cache: Cache, call: APIRequest, answer: APIResponse) -> None:
    """Tell the informers of a resource what a successful write has made of it."""
    if call.resource is None:
        return
    if call.resource == _DEFINITIONS:
        cache.retry_now()
    for informer in cache.informers_for(call.resource):
        try:
            _take_in(informer, call, answer.body)
        except msgspec.DecodeError:
            # Not an object: nothing is known but that something was written.
            _expect_change(informer, call)


def record_error(cache: Cache, call: APIRequest, error: APIError) -> None:
    """Tell them what a refusal shows: the server's object is not the one that is kept."""
    if call.resource is None or not isinstance(error, Conflict | NotFound):
        return
    for informer in cache.informers_for(call.resource):
        key = ObjectKey(call.namespace, call.name or _sent(call).name or "")
        entry = informer.store.get(key)
        if isinstance(error, AlreadyExists):
            informer.expect_change(key)
        elif entry is not None and (
            isinstance(error, NotFound) or _sent(call).resource_version == str(entry.revision)
        ):
            informer.expect_change(key, entry.revision)


def _take_in(informer: Informer, call: APIRequest, body: bytes) -> None:
    if call.verb == "deletecollection":
        _take_in_deletions(informer, call, body)
        return
    header = _read_header(body)
    meta = header.metadata
    if header.kind == "Status":
        if call.method == "DELETE" and not call.subresource:
            details = msgspec.json.decode(body, type=_Status).details
            informer.record_deletion(ObjectKey(call.namespace, call.name), details.uid if details else "")
        elif call.subresource in _CHANGES_ITS_OBJECT:
            _expect_change(informer, call)
        return
    key = ObjectKey(meta.namespace or call.namespace, meta.name or call.name)
    if call.subresource in _CHANGES_ITS_OBJECT:
        _expect_change(informer, call)
    elif not call.subresource and _is_gone(call, header, body):
        informer.record_deletion(key, meta.uid or "")
    elif not informer.record_write(body):
        informer.expect_version(key, meta.resource_version or "")


def _is_gone(call: APIRequest, header: ObjectHeader, body: bytes) -> bool:
    """Whether the object in an answer is the last that there was of it."""
    meta = header.metadata
    if meta.finalizers or (meta.deletion_grace_period_seconds or 0) > 0:
        return False
    if meta.deletion_timestamp is None and call.method != "DELETE":
        return False
    if header.kind == "Namespace":
        spec = msgspec.json.decode(body, type=_Namespace).spec
        return not (spec and spec.finalizers)
    return True


def _take_in_deletions(informer: Informer, call: APIRequest, body: bytes) -> None:
    """The answer shows the objects as they were before; those that nothing holds are gone."""
    held = (
        informer.gvk.kind in ("Pod", "Namespace") or b'"Foreground"' in call.body or b'"Orphan"' in call.body
    )
    for item in _read_list(body).items or ():
        meta = _read_header(item).metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        if held or meta.finalizers:
            version = meta.resource_version or ""
            informer.expect_change(key, int(version) if version.isdecimal() else 0)
        else:
            informer.record_deletion(key, meta.uid or "")


def _expect_change(informer: Informer, call: APIRequest) -> None:
    key = ObjectKey(call.namespace, call.name)
    entry = informer.store.get(key)
    if entry is not None:
        informer.expect_change(key, entry.revision)


def _sent(call: APIRequest) -> Any:
    """The metadata that a write sent."""
    try:
        return _read_header(call.body).metadata
    except msgspec.DecodeError:
        return ObjectHeader().metadata


__all__ = ["is_write", "record_error", "record_response"]
