"""`ExpectedObject`: the object that the response to a write must contain.

A proxy with a wrong route, a stale DNS name or another server at a reused address responds with 200 and an
object of its own. The rule for writes of an object and of its status: `kind`, `apiVersion`, `namespace` and
`name` of the response are those of the request, and `uid` is that of the object that was updated. It is
checked before anything uses the response, such as the cache with the own writes of a controller.

Two responses are not objects: `Status` for a deletion, and for a `Binding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import PartialObjectMetadata
from kubewright.client.errors import UnexpectedObjectError

if TYPE_CHECKING:
    from .request import APIRequest

_CHECKED = ("", "status")
"""Other subresources have kinds of their own, such as Scale."""


class ExpectedObject(msgspec.Struct, frozen=True):
    """The object of a write: its kind, and its uid if the server compares it (update)."""

    gvk: GroupVersionKind
    uid: str = ""
    partial: bool = False
    """Whether only metadata was requested."""

    def check(self, request: APIRequest, body: bytes) -> None:
        """Raise `UnexpectedObjectError` if a response contains another object than the request was for."""
        if request.subresource not in _CHECKED:
            return
        try:
            header = codec.decoder(codec.ObjectHeader).decode(body)
        except msgspec.DecodeError as error:
            raise self._error(request, f"a body that is not an object ({error})") from error
        if header.kind == "Status" and (request.method == "DELETE" or self.gvk.kind == "Binding"):
            return
        expected = PartialObjectMetadata.gvk if self.partial else self.gvk
        if (header.api_version, header.kind) != (expected.api_version, expected.kind):
            found = f"{header.kind} in {header.api_version}" if header.kind else "an object without a kind"
            raise self._error(request, found)
        metadata = header.metadata
        if request.name and (metadata.name, metadata.namespace or "") != (request.name, request.namespace):
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            raise self._error(request, f"{header.kind} {key or '(unnamed)'}")
        if self.uid and metadata.uid != self.uid:
            raise self._error(request, f"uid {metadata.uid} instead of {self.uid}")

    def _error(self, request: APIRequest, found: str) -> UnexpectedObjectError:
        key = f"{request.namespace}/{request.name}" if request.namespace else request.name
        return UnexpectedObjectError(
            f"the response to {request.verb} {self.gvk.kind} {key or '(unnamed)'} contains {found}; "
            "check which server responds at this address"
        )
