"""Delegated authentication and authorization of an extension API server.

The cluster's API server authenticates the user and forwards the request as a front proxy: with a client
certificate and headers that name the user. Certificate authority and headers are in the config map
`kube-system/extension-apiserver-authentication`. Clients that connect directly are authenticated by a
certificate of the cluster's authority or by a token (TokenReview). Authorization is always delegated
(SubjectAccessReview).

    async with Client.connect() as cluster:
        access = await Delegation.read(cluster)
        server = APIServer(storage, authenticator=access.authenticator, authorizer=access.authorizer)
        server.add(resource_of(Toy))
        async with serve(
            server, port=8443, hosts=("toys.default.svc",), client_authorities=access.authorities
        ) as https, access.follow(https):
            for each in api_services(https, service="toys", namespace="default"):
                await cluster.apply(each, field_manager="toys", force=True)

`follow` applies changes of the config map, such as the rotation of a certificate authority.

Required permissions: the cluster role `system:auth-delegator`, the role
`extension-apiserver-authentication-reader` in `kube-system`, and `patch` and `create` of APIServices to apply
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import NotFound
from kubewright.api.gvk import version_priority
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured
from kubewright.background import run_forever

from .authentication import AuthenticatorChain
from .authentication.delegated import TokenReviewAuthenticator
from .authentication.requestheader import RequestHeaderAuthenticator
from .authentication.x509 import X509Authenticator
from .authorization import AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from .authorization.delegated import DelegatedAuthorizer

if TYPE_CHECKING:
    from kubewright.api.apiregistration.v1 import APIService
    from kubewright.client import Client

    from .authentication import Authenticator
    from .http.server import HTTPServer

logger = logging.getLogger("kubewright.apiserver")

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True)
class Delegation:
    """Authenticator, authorizer and certificate authorities of a cluster."""

    authenticator: AuthenticatorChain
    authorizer: AuthorizerUnion
    authorities: tuple[bytes, ...]
    """`client_authorities` of the `HTTPServer`."""
    cluster: Client
    """The client that the configuration was read with."""

    @classmethod
    async def read(cls, cluster: Client) -> Delegation:
        """Read the configuration of the client's cluster."""
        try:
            found = await cluster.get("configmaps", NAME, namespace=NAMESPACE)
        except NotFound:
            raise NotFound(
                f"config map {NAMESPACE}/{NAME} not found: the cluster does not aggregate API servers"
            ) from None

        async def review(question: dict[str, Any]) -> dict[str, Any]:
            return (await cluster.create(Unstructured(question))).raw

        authenticators, authorities = _configured(found.get("data") or {})
        authenticators.append(TokenReviewAuthenticator(review))
        authorizer = AuthorizerUnion([PrivilegedGroups(), AlwaysAllowPaths(), DelegatedAuthorizer(review)])
        return cls(AuthenticatorChain(authenticators), authorizer, tuple(authorities), cluster)

    @contextlib.asynccontextmanager
    async def follow(self, https: HTTPServer | None = None) -> AsyncIterator[None]:
        """Apply changes of the config map while the body runs.

        The authenticators use the new certificate authorities and headers; certificates of authorities that
        were removed are no longer accepted. `https` requests certificates of new authorities.
        """
        task = run_forever(partial(self._watch, https), name="authentication configuration")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, https: HTTPServer | None) -> None:
        watch = self.cluster.watch("configmaps", namespace=NAMESPACE, fields={"metadata.name": NAME})
        async for event in watch:
            if event.type in ("ADDED", "MODIFIED"):
                self._apply(event.object.get("data") or {}, https)

    def _apply(self, data: dict[str, str], https: HTTPServer | None) -> None:
        try:
            authenticators, authorities = _configured(data)
        except ValueError as error:
            logger.error(
                "invalid authentication configuration; keeping the previous one", extra={"error": str(error)}
            )
            return
        if https is not None:
            https.trust(*authorities)
        # The last authenticator reviews tokens.
        self.authenticator.authenticators[:-1] = authenticators


def _configured(data: dict[str, str]) -> tuple[list[Authenticator], list[bytes]]:
    """Return the authenticators and certificate authorities that the config map names."""
    authenticators: list[Authenticator] = []
    authorities: list[bytes] = []
    if proxies := data.get("requestheader-client-ca-file", "").encode():
        authorities.append(proxies)
        authenticators.append(_request_headers(proxies, data))
    if clients := data.get("client-ca-file", "").encode():
        authorities.append(clients)
        authenticators.append(X509Authenticator(clients))
    return authenticators, authorities


def _request_headers(authorities: bytes, data: dict[str, str]) -> RequestHeaderAuthenticator:
    def names(key: str) -> list[str]:
        return list(json.loads(data.get(f"requestheader-{key}") or "[]"))

    given = {
        "username_headers": names("username-headers"),
        "uid_headers": names("uid-headers"),
        "group_headers": names("group-headers"),
        "extra_prefixes": names("extra-headers-prefix"),
    }
    known: dict[str, Any] = {setting: value for setting, value in given.items() if value}
    return RequestHeaderAuthenticator(authorities, allowed_names=names("allowed-names"), **known)


SIMULATED_ANNOTATION = "kubewright.dev/simulated"
"""Annotation of local APIServices whose group an add-on serves in other clusters: it may replace them."""


def api_services(
    https: HTTPServer, *, service: str, namespace: str, port: int = 443, group_priority: int = 1000
) -> list[APIService]:
    """Return the APIServices of all group versions of a server, which make the cluster forward requests to
    it.

    `service` is the Service of the server; its certificate must be valid for `<service>.<namespace>.svc`
    (`serve(..., hosts=...)`).
    """
    from kubewright.api.apiregistration.v1 import APIService, APIServiceSpec, ServiceReference

    group_versions = {
        (store.resource.group, version.name)
        for store in https.server.stores
        for version in store.resource.versions
        if version.served and store.resource.group
    }
    best_last = sorted(group_versions, key=lambda each: (each[0], version_priority(each[1])), reverse=True)
    return [
        APIService(
            metadata=ObjectMeta(name=f"{version}.{group}"),
            spec=APIServiceSpec(
                group=group,
                version=version,
                group_priority_minimum=group_priority,
                version_priority=rank,
                ca_bundle=https.authority_pem,
                service=ServiceReference(name=service, namespace=namespace, port=port),
            ),
        )
        for rank, (group, version) in enumerate(best_last, 10)
    ]
