"""Signing of approved requests with the certificate authority of the cluster."""

from __future__ import annotations

import logging

from kubewright.api.certificates.v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubewright.api.conditions import is_condition_true
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

from .authority import sign_request
from .requests import SIGNERS, InvalidRequest, check_request, is_approved, parse_request

logger = logging.getLogger(__name__)


def add_certificate_signing_controller(manager: ComponentManager) -> None:
    """Add the controller that signs requests, if the key of the authority is available."""
    pair = manager.workloads.connection.signing_key_pair()
    if pair is None:
        logger.info("certificate requests are not signed, the key of the authority is not available")
        return
    certificate, key = pair

    async def reconcile(obj: CertificateSigningRequest) -> None:
        spec, status = obj.spec, obj.status
        if (
            spec is None
            or spec.signer_name not in SIGNERS
            or not is_approved(obj)
            or is_condition_true(status, "Failed")
            or (status is not None and status.certificate)
        ):
            return
        obj.status = status = status or CertificateSigningRequestStatus()
        now = manager.now()
        try:
            request = parse_request(obj)
            check_request(spec.signer_name, request, spec.usages or [])
            status.certificate = sign_request(
                request,
                spec.usages or [],
                certificate=certificate,
                key=key,
                expiration_seconds=spec.expiration_seconds,
                now=now.replace(microsecond=0),
            )
        except InvalidRequest as error:
            moment = now.replace(microsecond=0)
            condition = CertificateSigningRequestCondition(
                type="Failed",
                status="True",
                reason="SignerValidationFailure",
                message=str(error),
                last_update_time=moment,
                last_transition_time=moment,
            )
            status.conditions = [*(status.conditions or ()), condition]
        await manager.client.update_status(obj)

    builder = ControllerBuilder[Request](manager, "certificatesigningrequest-signing-controller")
    builder.for_(CertificateSigningRequest).complete(reconcile)
