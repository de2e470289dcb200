"""Clients of the API server in this process: `kubewright.client.Client` over an in-process transport.

    client = controller_client(server, "token-controller")
    secret = (await client.get(SECRETS, "token", namespace="default")).raw

Requests pass through the whole pipeline (admission, validation, conversion, storage) as the given user. A
resource that is named without a version, by its `GroupResource`, is used in its storage version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupResource
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, SYSTEM, User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client.client import Client
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.client.rest.rest_client import RESTClient
from kubewright.client.rest.retry_policy import RetryPolicy
from kubewright.client.verbs.base import ClientOptions

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer
    from kubewright.client.discovery.api_resource import APIResource
    from kubewright.client.kind_types import AnyKind

_NO_RETRIES = RetryPolicy(retry_after_attempts=0, transient_attempts=0)


class ServerMapper(RESTMapper):
    """The resources of a server in this process: those that it stores are found without discovery."""

    def __init__(self, rest: RESTClient, server: APIServer) -> None:
        super().__init__(rest)
        self._server = server
        self._stored: dict[GroupResource, tuple[Resource, APIResource]] = {}
        """With the declaration, which is replaced when a definition changes."""

    def find_cached(self, kind: AnyKind) -> APIResource | None:
        """Return the resource of a kind if that needs no request."""
        if not isinstance(kind, GroupResource):
            return super().find_cached(kind)
        store = self._server.store(*kind)
        if store is None:
            return None
        known = self._stored.get(kind)
        if known is None or known[0] is not store.resource:
            known = self._stored[kind] = store.resource, store.resource.api_resource()
        return known[1]


def in_process_client(
    server: APIServer,
    user: User,
    *,
    user_agent: str = "",
    namespace: str = "default",
    retries: RetryPolicy | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Client:
    """Return a client of a user; the server limits the time of its requests."""
    transport = InProcessTransport(server, user)
    rest = RESTClient(transport, user_agent=user_agent, retries=retries, on_warning=on_warning)
    return Client(rest, ServerMapper(rest, server), ClientOptions(namespace=namespace, timeout=None))


def controller_user(name: str) -> User:
    """Return the identity of a controller of kube-controller-manager."""
    return User(
        f"system:serviceaccount:kube-system:{name}",
        ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED, MASTERS),
    )


def controller_client(server: APIServer, name: str) -> Client:
    """Return the client of a controller of kube-controller-manager, which retries with its rate limit."""
    return in_process_client(
        server,
        controller_user(name),
        user_agent="kube-controller-manager",
        retries=_NO_RETRIES,
        on_warning=ignore_warning,
    )


def server_client(server: APIServer) -> Client:
    """Return the client with which the API server itself writes."""
    return in_process_client(
        server, SYSTEM, user_agent="kube-apiserver", retries=_NO_RETRIES, on_warning=ignore_warning
    )


def ignore_warning(text: str) -> None:
    """Ignore a warning of the API server, as kube-controller-manager does: warnings are for users."""
