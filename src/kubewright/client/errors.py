"""Errors raised by the client itself; responses of the server are `kubewright.api.errors`.

Exception
 +- ConfigError            the kubeconfig or in-cluster configuration is not usable
 +- CredentialsError       no credentials: a plug-in failed, a token file is missing, a refresh was rejected
 +- ConnectionFailed       the server is unreachable or the connection broke before a response
 |   +- ResponseTooLarge   the response is longer than `max_response_bytes`
 +- NoKindMatch            the server does not serve the kind (a LookupError)
 +- ManifestError          a manifest file is not readable or not valid (a ValueError)
 +- ObjectDecodeError      an object on the server does not match its class (a DecodeError)
 +- UnexpectedObjectError  the response contains another object than the one of the request
"""

from __future__ import annotations

from kubewright.api.encoding.codec import DecodeError
from kubewright.api.gvk import GroupVersionKind


class ConfigError(Exception):
    """A kubeconfig or in-cluster configuration is not usable; the message has the file and the entry."""


class CredentialsError(Exception):
    """Credentials are not available: a plug-in failed, a token file is missing, a refresh was rejected."""


class ConnectionFailed(Exception):
    """The server is unreachable, or the connection broke before the response was complete.

    `sent` is whether the server may have received the request; if not, it is safe to repeat.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class ResponseTooLarge(ConnectionFailed):
    """The response is longer than the client accepts; it is not retried."""


class NoKindMatch(LookupError):
    """The server does not serve this kind or resource."""


class ManifestError(ValueError):
    """A manifest cannot be read or is not valid; the message has the file and the document."""


class ObjectDecodeError(DecodeError):
    """An object on the server does not match the class it is read as.

    `gvk`, `namespace`, `name` identify the object, `path` is the field, such as `.spec.size`.
    """

    def __init__(
        self, gvk: GroupVersionKind, namespace: str, name: str, path: str, reason: str, class_name: str
    ) -> None:
        self.gvk = gvk
        self.namespace = namespace
        self.name = name
        self.path = path
        key = f"{namespace}/{name}" if namespace else name
        field = f"{path}: " if path else ""
        super().__init__(
            f"{gvk.kind} {key or '(unnamed)'} in {gvk.api_version} does not match class {class_name}: "
            f"{field}{reason}; fix the object, or read it as Unstructured (pass a GroupVersionKind "
            "instead of the class)"
        )


class UnexpectedObjectError(Exception):
    """A response of 2xx contains another object than the request was for.

    A proxy or another server has responded: whether the request was executed is not known.
    """
