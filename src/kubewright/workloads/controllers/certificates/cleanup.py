"""Deletion of requests: one hour after they were decided, one day without a decision, or expired.

Requests for the certificates of pods are deleted after 15 minutes, in any state.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509

from kubewright.api.certificates.v1 import CertificateSigningRequest, PodCertificateRequest
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager

DECIDED = timedelta(hours=1)
PENDING = timedelta(hours=24)
POD_REQUEST = timedelta(minutes=15)


def add_certificate_cleaner_controller(manager: ComponentManager) -> None:
    """Add the controller that deletes old requests."""

    async def reconcile(obj: CertificateSigningRequest) -> Result | None:
        return await _delete_expired(manager, obj, _expires(obj))

    builder = ControllerBuilder[Request](manager, "certificatesigningrequest-cleaner-controller")
    builder.for_(CertificateSigningRequest).complete(reconcile)


def add_pod_certificate_cleaner_controller(manager: ComponentManager) -> None:
    """Add the controller that deletes old requests for the certificates of pods."""

    async def reconcile(obj: PodCertificateRequest) -> Result | None:
        created = obj.metadata.creation_timestamp
        return await _delete_expired(manager, obj, created + POD_REQUEST if created is not None else None)

    builder = ControllerBuilder[Request](manager, "podcertificaterequest-cleaner-controller")
    builder.for_(PodCertificateRequest).complete(reconcile)


async def _delete_expired(
    manager: ComponentManager,
    obj: CertificateSigningRequest | PodCertificateRequest,
    expires: datetime | None,
) -> Result | None:
    if expires is None:
        return None
    left = (expires - manager.now()).total_seconds()
    if left > 0:
        return Result(requeue_after=left)
    await manager.client.delete(obj, missing_ok=True)
    return None


def _expires(obj: CertificateSigningRequest) -> datetime | None:
    """Return when a request is deleted; `None` if there is no time yet."""
    status = obj.status
    conditions = (status.conditions if status is not None else None) or []
    times: list[datetime] = []
    if not conditions and obj.metadata.creation_timestamp is not None:
        times.append(obj.metadata.creation_timestamp + PENDING)
    for condition in conditions:
        updated = condition.last_update_time
        issued = status is not None and bool(status.certificate)
        if updated is not None and (condition.type in ("Denied", "Failed") or issued):
            times.append(updated + DECIDED)
    if status is not None and status.certificate:
        try:
            times.append(x509.load_pem_x509_certificate(status.certificate).not_valid_after_utc)
        except ValueError:
            pass
    return min(times, default=None)
