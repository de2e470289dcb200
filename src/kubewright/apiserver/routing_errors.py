"""Errors of requests that no handler accepts: their method, resource or media types do not exist here.

kube-apiserver finds them before the handler, so that their responses have no deprecation warning.
"""

from __future__ import annotations

from kubewright.api.errors import MethodNotAllowed, NotAcceptable, NotFound, UnsupportedMediaType


class Unrouted(Exception):
    """Base of these errors."""


class NoSuchMethod(MethodNotAllowed, Unrouted):
    """The path does not have the method."""

    def __init__(self) -> None:
        super().__init__("the server does not allow this method on the requested resource", details={})


class NoSuchResource(NotFound, Unrouted):
    """The path does not exist."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class NoRepresentation(NotAcceptable, Unrouted):
    """The response has none of the accepted media types."""

    def __init__(self, available: str) -> None:
        super().__init__(f"406: Not Acceptable\n\nAvailable representations: {available}", details={})


class UnknownMediaType(UnsupportedMediaType, Unrouted):
    """The body has a media type that the resource does not accept."""

    def __init__(self) -> None:
        super().__init__("415: Unsupported Media Type", details={})
