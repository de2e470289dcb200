"""Plug-ins that are independent of the object: AlwaysAdmit, AlwaysDeny, DenyServiceExternalIPs."""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authentication.user import SYSTEM

from .rejection import reject


class AlwaysAdmit(AdmissionPlugin):
    """Accepts everything."""

    name = "AlwaysAdmit"


class AlwaysDeny(AdmissionPlugin):
    """Rejects all writes except those of the server itself, which it needs to start."""

    name = "AlwaysDeny"
    mutating = True
    validating = True

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle the writes of clients and controllers."""
        return request.user.name != SYSTEM.name

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Reject the write."""
        raise reject(request, "admission control is denying all modifications")

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject the write."""
        raise reject(request, "admission control is denying all modifications")


class DenyServiceExternalIPs(AdmissionPlugin):
    """Rejects new `spec.externalIPs` of services; existing ones can be kept and removed."""

    name = "DenyServiceExternalIPs"
    validating = True
    rules = (AdmissionRule(("CREATE", "UPDATE"), "", ("services",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject addresses that the old object does not have."""
        new, old = (
            {*(((obj or {}).get("spec") or {}).get("externalIPs") or ())}
            for obj in (request.object, request.old_object)
        )
        if not new <= old:
            raise reject(request, "Use of external IPs is denied by admission control")
