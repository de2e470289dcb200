"""Approval of the client certificates that kubelets request for themselves, if RBAC allows it."""

from __future__ import annotations

from kubewright.api.authorization.v1 import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from kubewright.api.certificates.v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubewright.api.conditions import is_condition_true
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

from .requests import KUBELET_CLIENT, InvalidRequest, check_kubelet_client, common_name, parse_request

_SELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
_OTHER = "Auto approving kubelet client certificate after SubjectAccessReview."


async def approve(manager: ComponentManager, obj: CertificateSigningRequest, message: str) -> None:
    """Approve a request."""
    moment = manager.now().replace(microsecond=0)
    condition = CertificateSigningRequestCondition(
        type="Approved",
        status="True",
        reason="AutoApproved",
        message=message,
        last_update_time=moment,
        last_transition_time=moment,
    )
    obj.status = obj.status or CertificateSigningRequestStatus()
    obj.status.conditions = [*(obj.status.conditions or ()), condition]
    await manager.client.subresource("approval", obj).update(obj)


def is_undecided(obj: CertificateSigningRequest) -> bool:
    """Whether a request is neither approved nor denied, and has no certificate."""
    status = obj.status
    decided = is_condition_true(status, "Approved") or is_condition_true(status, "Denied")
    return not decided and not (status is not None and status.certificate)


def add_certificate_approving_controller(manager: ComponentManager) -> None:
    """Add the controller that approves client certificates of kubelets."""
    client = manager.client

    async def is_allowed(obj: CertificateSigningRequest, subresource: str) -> bool:
        assert obj.spec is not None
        attributes = ResourceAttributes(
            group="certificates.k8s.io",
            resource="certificatesigningrequests",
            verb="create",
            subresource=subresource,
            version="*",
        )
        spec = SubjectAccessReviewSpec(
            user=obj.spec.username,
            uid=obj.spec.uid,
            groups=obj.spec.groups,
            extra=obj.spec.extra,
            resource_attributes=attributes,
        )
        review = await client.create(SubjectAccessReview(spec=spec))
        return review.status is not None and bool(review.status.allowed)

    async def reconcile(obj: CertificateSigningRequest) -> None:
        spec = obj.spec
        if spec is None or spec.signer_name != KUBELET_CLIENT or not is_undecided(obj):
            return
        try:
            request = parse_request(obj)
            check_kubelet_client(request, spec.usages or [])
        except InvalidRequest:
            return
        choices = [("nodeclient", _OTHER)]
        if spec.username == common_name(request):
            choices.insert(0, ("selfnodeclient", _SELF))
        for subresource, message in choices:
            if not await is_allowed(obj, subresource):
                continue
            await approve(manager, obj, message)
            return

    builder = ControllerBuilder[Request](manager, "certificatesigningrequest-approving-controller")
    builder.for_(CertificateSigningRequest).complete(reconcile)
