"""The cluster that workload components run against.

`ClusterConnection` is what `Workloads` needs of it: clients for the identities of its components, and a
callback for the first object of a resource. The embedded control plane
implements it without a network; `ClientConnection` implements it for any cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kubewright.client import Client


class ClusterConnection(Protocol):
    """A cluster, and the users that components act as.

    A user without a colon is a service account in `kube-system`.
    """

    def client(self, user: str) -> Client:
        """Return a client of a user."""

    def on_first_object(self, resource: str, callback: Callable[[], object], *, containing: str = "") -> None:
        """Call `callback` once, as soon as an object of a resource such as `jobs.batch` exists.

        With `containing`, the JSON of the object has to contain this text. It may be called too early.
        """

    def signing_key_pair(self) -> tuple[bytes, bytes] | None:
        """Return certificate and key (PEM) of the authority that signs certificate requests, if available."""

    def serving_authority(self) -> bytes | None:
        """Return the certificate (PEM) of the authority of the API server's certificate, if known."""

    def close(self) -> None:
        """Drop the callbacks."""


class ClientConnection:
    """Any cluster, through one client: all components act as its user, and all start immediately."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def client(self, user: str) -> Client:
        """Return the client."""
        return self._client

    def on_first_object(self, resource: str, callback: Callable[[], object], *, containing: str = "") -> None:
        """Call `callback` immediately."""
        callback()

    def signing_key_pair(self) -> tuple[bytes, bytes] | None:
        """Return `None`: clients do not have the key of the authority."""
        return None

    def serving_authority(self) -> bytes | None:
        """Return `None`: a client can verify the server with other authorities."""
        return None

    def close(self) -> None:
        """Do nothing: the client belongs to the caller."""


def service_account_user(user: str) -> str:
    """Return the full name of a user: service accounts of `kube-system` have no colon."""
    return user if ":" in user else f"system:serviceaccount:kube-system:{user}"
