"""Authentication and authorization of kubelet clients, as a kubelet with webhook authorization does.

A client has a certificate of the cluster's client CA, or a token that a TokenReview accepts. It needs
permission for `nodes/proxy`, which a SubjectAccessReview decides; positive decisions are remembered.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionResource
from kubewright.apiserver.authentication.x509 import PeerCertificate
from kubewright.client.errors import ConnectionFailed
from kubewright.workloads.nodes.objects import Object

if TYPE_CHECKING:
    from cryptography import x509

    from kubewright.client.client import Client

logger = logging.getLogger(__name__)

CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
CONFIG_MAP: Final = "extension-apiserver-authentication"
CACHE_SECONDS: Final = 300.0
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete", "PATCH": "patch"}


class KubeletAuthenticator:
    """Decides who may use the kubelet API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._authorities: list[x509.Certificate] = []
        self._allowed: dict[tuple[str, tuple[str, ...], str], float] = {}

    async def load_client_authority(self) -> None:
        """Read the CA of client certificates from the cluster."""
        from cryptography import x509

        try:
            config_map = await self._client.get(CONFIG_MAPS, CONFIG_MAP, namespace="kube-system")
        except (APIError, ConnectionFailed, OSError) as error:
            logger.warning("cannot read the client CA of the cluster", extra={"error": str(error)})
            return
        text = str((config_map.get("data") or {}).get("client-ca-file") or "")
        self._authorities = x509.load_pem_x509_certificates(text.encode()) if text else []

    async def identify(
        self, certificate: bytes | None, authorization: str
    ) -> tuple[str, tuple[str, ...]] | None:
        """Return user and groups of a client; `None` if it is not authenticated."""
        if certificate:
            peer = PeerCertificate(certificate)
            if peer.for_clients and peer.common_name and peer.issued_by(self._authorities):
                return peer.common_name, (*peer.organizations, "system:authenticated")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        review: Object = await self._client.create(
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token.strip()},
            }
        )
        status = review.get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated"):
            return None
        return str(user.get("username") or ""), tuple(user.get("groups") or ())

    async def is_allowed(self, user: str, groups: tuple[str, ...], method: str, node: str) -> bool:
        """Whether a user may use `nodes/proxy`."""
        verb = _VERBS.get(method, "get")
        now = time.monotonic()
        if self._allowed.get((user, groups, verb), 0.0) > now:
            return True
        review: Object = await self._client.create(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": user,
                    "groups": list(groups),
                    "resourceAttributes": {
                        "verb": verb,
                        "version": "v1",
                        "resource": "nodes",
                        "subresource": "proxy",
                        "name": node,
                    },
                },
            },
        )
        allowed = bool((review.get("status") or {}).get("allowed"))
        if allowed:
            self._allowed[user, groups, verb] = now + CACHE_SECONDS
        return allowed
