"""The cluster that workload components run against.

`ClusterConnection` is what `Workloads` needs of it: clients for the identities of its components, requests
without the imports of a client, and a callback for the first object of a resource. The embedded control plane
implements it without a network; `ClientConnection` implements it for any cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kubewright.client import Client

JSON = "application/json"


class RequestSender(Protocol):
    """Sends single requests as one user, with dicts as objects."""

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: dict[str, str] | None = None,
    ) -> Any:
        """Send a request and return the decoded response; raises `APIError`."""


class ClusterConnection(Protocol):
    """A cluster, and the users that components act as.

    A user without a colon is a service account in `kube-system`.
    """

    def client(self, user: str) -> Client:
        """Return a client of a user."""

    def sender(self, user: str) -> RequestSender:
        """Return a sender of a user: less to import than a client."""

    def on_first_object(self, resource: str, callback: Callable[[], object], *, containing: str = "") -> None:
        """Call `callback` once, as soon as an object of a resource such as `jobs.batch` exists.

        With `containing`, the JSON of the object has to contain this text. It may be called too early.
        """

    def signing_key_pair(self) -> tuple[bytes, bytes] | None:
        """Return certificate and key (PEM) of the authority that signs certificate requests, if available."""

    def close(self) -> None:
        """Drop the callbacks."""


class ClientConnection:
    """Any cluster, through one client: all components act as its user, and all start immediately."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def client(self, user: str) -> Client:
        """Return the client."""
        return self._client

    def sender(self, user: str) -> RequestSender:
        """Return a sender that uses the client."""
        return _ClientSender(self._client)

    def on_first_object(self, resource: str, callback: Callable[[], object], *, containing: str = "") -> None:
        """Call `callback` immediately."""
        callback()

    def signing_key_pair(self) -> tuple[bytes, bytes] | None:
        """Return `None`: clients do not have the key of the authority."""
        return None

    def close(self) -> None:
        """Do nothing: the client belongs to the caller."""


class _ClientSender:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: dict[str, str] | None = None,
    ) -> Any:
        from urllib.parse import urlencode

        from multidict import CIMultiDict

        from kubewright.api.encoding import codec
        from kubewright.client.rest.request import APIRequest

        response = await self._client.rest.send(
            APIRequest(
                method.lower(),
                method,
                path,
                urlencode(query or {}),
                CIMultiDict({"Content-Type": content_type, "Accept": JSON}),
                body=codec.encode(body) if body is not None else b"",
            )
        )
        return codec.loads(response.body) if response.body else None


def service_account_user(user: str) -> str:
    """Return the full name of a user: service accounts of `kube-system` have no colon."""
    return user if ":" in user else f"system:serviceaccount:kube-system:{user}"
