"""IP families of services: defaults, and changes between one and two families.

A cluster has the families of the ranges of the ServiceCIDR `kubernetes`; the first one is the default. A
service keeps its families unless an update changes `ipFamilyPolicy`, `ipFamilies` or `clusterIPs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Errors
from kubewright.controlplane.kinds.validation.formats import parse_ip
from kubewright.schema import field_errors as fe

from .validation import address_errors, is_headless

_POLICY = "spec.ipFamilyPolicy"
_SINGLE, _PREFER, _REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"


def family_of(address: str) -> str:
    """Return the family of an address: `IPv4` or `IPv6`."""
    return f"IPv{getattr(parse_ip(address), 'version', 4)}"


def set_families(spec: Object, before: Object, configured: Sequence[str]) -> Errors:
    """Set the policy and families of a service; return errors, such as for families that are not configured.

    `before` is the spec of the stored service, or empty. `configured` are the families of the cluster.
    """
    if spec.get("type") == "ExternalName" or keeps_families(spec, before):
        return []
    without_selector = is_headless(spec) and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        fallback = _REQUIRE if without_selector else _SINGLE
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or fallback
    errors = address_errors(spec)
    if errors:
        return errors
    if before:
        errors += _reduce(spec, before)
    errors += _policy_errors(spec)
    families = list(spec.get("ipFamilies") or ())
    addresses = [] if is_headless(spec) else spec.get("clusterIPs") or []
    for position, address in enumerate(addresses[len(families) :], len(families)):
        family = family_of(address)
        if family in configured:
            families.append(family)
        else:
            text = f"{family} is not configured on this cluster"
            errors.append(fe.invalid(f"spec.clusterIPs[{position}]", addresses, text))
    if errors:
        return errors
    policy = spec["ipFamilyPolicy"]
    if not without_selector:
        errors = _configuration_errors(policy, families, configured)
        if errors:
            return errors
    families = families or [configured[0]]
    if len(families) == 1 and policy != _SINGLE and (without_selector or len(configured) == 2):
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families
    return []


def _reduce(spec: Object, before: Object) -> Errors:
    """Drop the second address and family if the policy is SingleStack; else they must not be removed."""
    errors: Errors = []
    for field, noun in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, old = spec.get(field) or [], before.get(field) or []
        if spec["ipFamilyPolicy"] == _SINGLE:
            if now == old and len(now) > 1:
                spec[field] = now[:1]
        elif now and len(now) < len(old):
            text = f"must be 'SingleStack' to release the secondary {noun}"
            errors.append(fe.invalid(_POLICY, spec["ipFamilyPolicy"], text))
    return errors


def _policy_errors(spec: Object) -> Errors:
    policy = spec["ipFamilyPolicy"]
    return [
        fe.invalid(
            _POLICY,
            policy,
            f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified",
        )
        for field, noun in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if policy == _SINGLE and len(spec.get(field) or ()) == 2
    ]


def _configuration_errors(policy: str, families: Sequence[str], configured: Sequence[str]) -> Errors:
    errors: Errors = []
    if policy == _REQUIRE and len(configured) < 2:
        errors.append(fe.invalid(_POLICY, policy, "this cluster is not configured for dual-stack services"))
    errors += [
        fe.invalid(f"spec.ipFamilies[{position}]", family, "not configured on this cluster")
        for position, family in enumerate(families)
        if family not in configured
    ]
    return errors


def keeps_families(spec: Object, before: Object) -> bool:
    """Return whether a dual-stack service with unchanged addresses keeps its families."""
    policies = (spec.get("ipFamilyPolicy"), before.get("ipFamilyPolicy") or _PREFER)
    return (
        bool(before)
        and policies == (_PREFER, _PREFER)
        and all(
            (spec.get(field) or []) == (before.get(field) or [])
            for field in ("type", "clusterIPs", "ipFamilies")
        )
    )
