"""Granular authorization of the status of ResourceClaims.

Besides permission for `resourceclaims/status`, a change of `status.allocation` or `status.reservedFor`
requires `resourceclaims/binding`, and a change of `status.devices` requires `resourceclaims/driver` with the
name of the driver and a verb with the prefix `arbitrary-node:`, or `associated-node:` for a service account
whose pod runs on the node of the allocation.
"""

from __future__ import annotations

from kubewright.api.errors import invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.authorization import AuthorizationAttributes, Authorizer, Decision, forbidden
from kubewright.apiserver.resources.objects import Object

GROUP = "resource.k8s.io"
_NODE_NAME = "authentication.kubernetes.io/node-name"


class ClaimStatusCheck(AdmissionPlugin):
    """Rejects changes of the claim status that the user has no permission for."""

    name = "ResourceClaimStatus"
    mutating = True
    rules = (AdmissionRule(("UPDATE",), GROUP, ("resourceclaims/status",)),)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle writes of all users except system:masters."""
        return MASTERS not in request.user.groups

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Authorize the changed parts; runs after the other mutating plug-ins."""
        new, old = (((obj or {}).get("status") or {}) for obj in (request.object, request.old_object))
        verb = request.request.info.verb if request.request is not None else "update"
        errors: list[FieldError] = []
        if any(
            (new.get(field) or None) != (old.get(field) or None) for field in ("allocation", "reservedFor")
        ):
            problem = await self._problem(request, verb, "binding", "", "")
            if problem:
                rule = "changing status.allocation or status.reservedFor requires"
                permission = f'resource="resourceclaims/binding", verb="{verb}" permission'
                errors.append(FieldError.forbidden("status.allocation", f"{rule} {permission}: {problem}"))
        allocation: Object = new.get("allocation") or {}
        drivers = _changed_drivers(new, old) if allocation else set()
        verbs = [f"arbitrary-node:{verb}"]
        if drivers and _is_on_node(request.user, _allocated_node(allocation)):
            verbs.insert(0, f"associated-node:{verb}")
        for driver in sorted(drivers):
            problems = [
                await self._problem(request, each, "driver", request.namespace, driver) for each in verbs
            ]
            if all(problems):
                listed = " ".join(verbs)
                rule = 'changing status.devices requires resource="resourceclaims/driver"'
                text = f'{rule}, verb="[{listed}]" permission: {problems[0]}'
                errors.append(FieldError.forbidden("status.devices", text))
        if errors:
            raise invalid(GroupKind(GROUP, "ResourceClaim"), request.name, errors)
        return False

    async def _problem(
        self, request: AdmissionAttributes, verb: str, subresource: str, namespace: str, name: str
    ) -> str:
        """Return why the user has no permission, or an empty string."""
        attributes = AuthorizationAttributes(
            request.user,
            verb,
            GROUP,
            request.resource.version,
            "resourceclaims",
            subresource,
            namespace,
            name,
        )
        decision, reason = await self._authorizer.authorize(attributes)
        return "" if decision is Decision.ALLOW else forbidden(attributes, reason).message


def _changed_drivers(new: Object, old: Object) -> set[str]:
    """Return the drivers of devices whose status was added, changed or removed."""
    after, before = (
        {
            tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID")): device
            for device in status.get("devices") or ()
        }
        for status in (new, old)
    )
    return {key[0] for key in {*after, *before} if after.get(key) != before.get(key)}


def _allocated_node(allocation: Object) -> str:
    """Return the only node that an allocation can be used on, or an empty string."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match terms[0].get("matchFields"):
        case [{"key": "metadata.name", "operator": "In", "values": [str(name)]}]:
            return name
    return ""


def _is_on_node(user: User, node: str) -> bool:
    nodes = user.extra.get(_NODE_NAME) or ()
    return bool(node) and user.name.startswith("system:serviceaccount:") and tuple(nodes) == (node,)
