"""What can go wrong on this side of the wire; answers of the server are `kubewright.api.errors`."""

from __future__ import annotations


class ConfigError(Exception):
    """A kubeconfig or in-cluster configuration that cannot be used; the message says which and why."""


class CredentialsError(Exception):
    """Credentials could not be had: a plug-in failed, a token file is missing, a refresh was refused."""


class ConnectionFailed(Exception):
    """The server could not be reached, or the connection broke before an answer came.

    `sent` tells whether the server may have seen the request: if not, it is safe to send it again.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class ResponseTooLarge(ConnectionFailed):
    """The server's answer is longer than the client takes; asking again would not help."""


class NoKindMatch(LookupError):
    """The server does not serve this kind or resource."""
