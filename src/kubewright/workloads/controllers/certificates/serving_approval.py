"""Approval of the serving certificates that kubelets request (`kubelet-serving-approving-controller`).

kube-controller-manager leaves these requests to an administrator. Here a request is approved if the node
itself has sent it, for names and addresses that its Node object has: a kubelet can change those, but not get
a certificate for anything else, nor for another node. Other requests stay pending.
"""

from __future__ import annotations

import logging

from cryptography import x509

from kubewright.api.certificates.v1 import CertificateSigningRequest
from kubewright.api.core.v1 import Node
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager

from .approval import approve, is_undecided
from .requests import (
    KUBELET_SERVING,
    InvalidRequest,
    alternative_names,
    check_request,
    common_name,
    parse_request,
)

logger = logging.getLogger(__name__)

MESSAGE = "Auto approving kubelet serving certificate for the addresses of its node."
PREFIX = "system:node:"
NODES = "system:nodes"
RETRY_SECONDS = 5.0
"""Until a Node object has the addresses that its kubelet has sent the request for."""
MAX_AGE = 600.0


def add_kubelet_serving_approving_controller(manager: ComponentManager) -> None:
    """Add the controller that approves serving certificates of kubelets."""

    async def reconcile(obj: CertificateSigningRequest) -> Result | None:
        spec = obj.spec
        if spec is None or spec.signer_name != KUBELET_SERVING or not is_undecided(obj):
            return None
        user = spec.username or ""
        try:
            request = parse_request(obj)
            check_request(KUBELET_SERVING, request, spec.usages or [])
        except InvalidRequest:
            return None
        if user != common_name(request) or NODES not in (spec.groups or ()):
            return None
        node = await manager.client.get_or_none(Node, user.removeprefix(PREFIX))
        if node is not None and not (unknown := sorted(requested_names(request) - node_names(node))):
            await approve(manager, obj, MESSAGE)
            return None
        created = obj.metadata.creation_timestamp
        if created is not None and (manager.now() - created).total_seconds() < MAX_AGE:
            return Result(requeue_after=RETRY_SECONDS)
        logger.warning(
            "kubelet serving certificate is not approved",
            extra={
                "request": obj.name,
                "user": user,
                "unknown_names": ",".join(unknown) if node is not None else "",
            },
        )
        return None

    builder = ControllerBuilder[Request](manager, "kubelet-serving-approving-controller")
    builder.for_(CertificateSigningRequest).complete(reconcile)


def requested_names(request: x509.CertificateSigningRequest) -> set[str]:
    """Return the DNS names and IP addresses of a request."""
    return {str(each.value) for each in alternative_names(request)}


def node_names(node: Node) -> set[str]:
    """Return the names and addresses of a node."""
    addresses = (node.status.addresses if node.status is not None else None) or ()
    return {each.address for each in addresses if each.address}
