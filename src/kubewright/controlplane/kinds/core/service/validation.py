"""Validation of services: a table of rules for the spec, and the fields that are immutable.

It runs before allocation, because only a valid service gets addresses and ports: these may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubewright.api.kubernetes_version import serving_version
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.containers import PROTOCOLS
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Check,
    Enum,
    Errors,
    Forbidden,
    Range,
    Required,
    Rules,
    Switch,
    Unique,
    When,
)
from kubewright.controlplane.kinds.validation.addresses import (
    ip_warnings,
    legacy_ip_errors,
    legacy_range_errors,
    range_warnings,
)
from kubewright.controlplane.kinds.validation.formats import (
    dns_subdomain,
    endpoint_ip,
    parse_ip,
    port,
    port_number,
    qualified_name,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

_MAX_AFFINITY_SECONDS = 86400
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"


class _Context(NamedTuple):
    """The context of the rules of a spec."""

    service: Object
    old: Object | None

    @property
    def spec(self) -> Object:
        spec: Object = self.service["spec"]
        return spec


def is_headless(spec: Object) -> bool:
    """Return whether a service is headless."""
    return bool(spec.get("clusterIPs") == ["None"])


def needs_node_ports(spec: Object) -> bool:
    """Return whether a service needs node ports."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(spec.get("type") == "NodePort")


def _is_external(spec: Object) -> bool:
    return bool(
        spec.get("type") in ("NodePort", "LoadBalancer")
        or (spec.get("type") == "ClusterIP" and spec.get("externalIPs"))
    )


def service_errors(service: Object, old: Object | None) -> Errors:
    """Check a service."""
    return _SPEC(service["spec"], "spec", _Context(service, old))


def _check_type(spec: Object, path: str) -> Errors:
    kind = spec.get("type") or ""
    errors: Errors = []
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.append(fe.required(f"{path}.ports", ""))
    if is_headless(spec) and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(fe.invalid(f"{path}.clusterIPs[0]", "None", text))
    return errors


def _check_external_name(name: str, path: str) -> Errors:
    name = name.removesuffix(".")
    return dns_subdomain(name, path) if name else [fe.required(path, "")]


def _check_port_name(name: str, path: str, context: _Context) -> Errors:
    if name or len(context.spec["ports"]) == 1:
        return []
    return [fe.required(path, "")]


def _check_node_port(number: int, path: str, context: _Context) -> Errors:
    if not number or context.spec.get("type") != "ClusterIP":
        return []
    return [fe.forbidden(path, "may not be used when `type` is 'ClusterIP'")]


def _check_port_pairs(entry: Object, path: str, context: _Context) -> Errors:
    pair = (entry.get("protocol"), entry.get("port"))
    for other in context.spec["ports"]:
        if other is entry:
            return []
        if (other.get("protocol"), other.get("port")) == pair:
            break
    shown = {
        "Name": "",
        "Protocol": pair[0],
        "AppProtocol": None,
        "Port": pair[1],
        "TargetPort": 0,
        "NodePort": 0,
    }
    return [fe.duplicate(path, fe.GoStruct(shown))]


def _check_external_ip(address: str, path: str) -> Errors:
    return legacy_ip_errors(address, path) or endpoint_ip(address, path)


def _traffic_distribution_errors(value: str, path: str) -> Errors:
    known: tuple[str, ...] = ("PreferClose", "PreferSameZone", "PreferSameNode")
    if not serving_version().enables("PreferSameTrafficDistribution"):
        known = known[:1]
    return [] if value in known else [fe.not_supported(path, value, known)]


def _check_source_ranges(spec: Object, path: str, context: _Context) -> Errors:
    errors: Errors = []
    ranges, balanced = spec.get("loadBalancerSourceRanges") or [], spec.get("type") == "LoadBalancer"
    if ranges and not balanced:
        errors.append(fe.forbidden(f"{path}.LoadBalancerSourceRanges", _BALANCER_ONLY))
    for index, value in enumerate(ranges):
        errors += legacy_range_errors(value.strip(), f"{path}.LoadBalancerSourceRanges[{index}]")
    annotation = (context.service["metadata"].get("annotations") or {}).get(_RANGES)
    if annotation is not None and not ranges:
        path = f"metadata.annotations[{_RANGES}]"
        if not balanced:
            errors.append(fe.forbidden(path, _BALANCER_ONLY))
        stored = ((context.old or {}).get("metadata") or {}).get("annotations") or {}
        if annotation.strip() and stored.get(_RANGES) != annotation:
            for value in annotation.strip().split(","):
                errors += legacy_range_errors(value.strip(), path)
    return errors


def _check_class(spec: Object, path: str, context: _Context) -> Errors:
    balanced, name = spec.get("type") == "LoadBalancer", spec.get("loadBalancerClass")
    before = (context.old or {}).get("spec") or {}
    path = f"{path}.loadBalancerClass"
    errors: Errors = []
    if balanced and before.get("type") == "LoadBalancer" and before.get("loadBalancerClass") != name:
        errors.append(fe.invalid(path, name, "may not change once set"))
    if name is not None:
        errors += qualified_name(name, path) if balanced else [fe.forbidden(path, _BALANCER_ONLY)]
    return errors


def _check_external_policy(spec: Object, path: str) -> Errors:
    policy = spec.get("externalTrafficPolicy") or ""
    if not policy or _is_external(spec):
        return []
    text = "may only be set for externally-accessible services"
    return [fe.invalid(f"{path}.externalTrafficPolicy", policy, text)]


def _check_health_port(spec: Object, path: str) -> Errors:
    number, path = spec.get("healthCheckNodePort") or 0, f"{path}.healthCheckNodePort"
    if (spec.get("type"), spec.get("externalTrafficPolicy")) != ("LoadBalancer", "Local"):
        if not number:
            return []
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        return [fe.invalid(path, number, text)]
    return port_number(number, path) if number else []


def address_errors(spec: Object, path: str = "spec") -> Errors:
    """Check the cluster IPs of a service and their families."""
    single, many = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    families, where = spec.get("ipFamilies") or [], f"{path}.clusterIPs"
    errors: Errors = []
    if single and not many:
        errors.append(fe.required(where, ""))
    elif single and many[0] != single:
        errors.append(fe.invalid(where, many, "first value must match `clusterIP`"))
    elif not single and many:
        errors.append(fe.invalid(where, many, "must be empty when `clusterIP` is not specified"))
    errors += _FAMILIES(spec, path)
    invalid: Errors = []
    for index, address in enumerate(many):
        if index == 0 and address == "None":
            if len(many) > 1:
                invalid.append(fe.invalid(where, many, "'None' must be the first and only value"))
            continue
        invalid += legacy_ip_errors(address, f"{where}[{index}]")
    errors += invalid
    if len(many) > 2:
        errors.append(fe.invalid(where, many, "may only hold up to 2 values"))
    if invalid or is_headless(spec):
        return errors
    versions = [getattr(parse_ip(address), "version", 0) for address in many]
    if len(many) > 1 and len(set(versions)) < 2:
        errors.append(fe.invalid(where, many, "may specify no more than one IP for each IP family"))
    for index, (address, family) in enumerate(zip(many, families, strict=False)):
        if f"IPv{versions[index]}" != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(fe.invalid(f"{where}[{index}]", address, text))
    return errors


_NOT_FOR_EXTERNAL_NAME = Forbidden("may not be set for ExternalName services")
_AFFINITY_SECONDS = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
_FAMILIES = Rules(
    {
        "ipFamilies[*]": [Enum("IPv4", "IPv6"), Unique()],
        "ipFamilyPolicy": Enum("PreferDualStack", "RequireDualStack", "SingleStack"),
    }
)
_SPEC = Rules(
    [
        _check_type,
        Switch(
            "type",
            {
                "ExternalName": {
                    "clusterIPs": _NOT_FOR_EXTERNAL_NAME,
                    "ipFamilies": _NOT_FOR_EXTERNAL_NAME,
                    "ipFamilyPolicy": _NOT_FOR_EXTERNAL_NAME,
                    "externalName": Check(_check_external_name, absent=""),
                }
            },
        ),
        {
            "ports[*]": [
                {"name": [Check(_check_port_name, absent="", context=True), DNS_LABEL]},
                Unique("name", ignore_empty=True),
                {
                    "port": Range(1, 65535, absent=0),
                    "protocol": [Required(), Enum(*PROTOCOLS)],
                    "targetPort": Check(port, absent=0),
                    "appProtocol": qualified_name,
                    "nodePort": Check(_check_node_port, context=True),
                },
                Check(_check_port_pairs, context=True),
            ],
            "selector": label_errors,
            "sessionAffinity": [Required(), Enum("ClientIP", "None")],
        },
        Switch(
            "sessionAffinity",
            {
                "ClientIP": {
                    "sessionAffinityConfig.clientIP.timeoutSeconds": Range(
                        1, _MAX_AFFINITY_SECONDS, detail=_AFFINITY_SECONDS, absent=0
                    )
                },
                "None": {
                    "sessionAffinityConfig": Forbidden(
                        "must not be set when session affinity is None", pointer=True
                    )
                },
            },
        ),
        When(lambda spec: spec.get("type") != "ExternalName", address_errors),
        {
            "externalIPs[*]": _check_external_ip,
            "type": [Required(), Enum("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")],
        },
        Check(_check_source_ranges, context=True),
        When(
            lambda spec: spec.get("type") != "LoadBalancer",
            {"allocateLoadBalancerNodePorts": Forbidden(_BALANCER_ONLY, pointer=True)},
        ),
        Check(_check_class, context=True),
        _check_external_policy,
        When(_is_external, {"externalTrafficPolicy": [Required(), Enum("Cluster", "Local")]}),
        Check(_check_health_port),
        {
            "internalTrafficPolicy": Enum("Cluster", "Local"),
            "trafficDistribution": _traffic_distribution_errors,
        },
    ]
)


def service_update_errors(service: Object, old: Object) -> Errors:
    """Check the immutable fields of a service."""
    after, before = service["spec"], old["spec"]
    if "ExternalName" in (after.get("type"), before.get("type")):
        return []
    errors: Errors = []
    was_headless, is_now_headless = is_headless(before), is_headless(after)
    if not (was_headless and is_now_headless):
        errors += _cluster_ip_update_errors(after, before)
    if not was_headless and not is_now_headless:
        errors += _family_update_errors(after, before)
    local = ("LoadBalancer", "Local")
    both = all((one.get("type"), one.get("externalTrafficPolicy")) == local for one in (after, before))
    if both and (after.get("healthCheckNodePort") or 0) != (before.get("healthCheckNodePort") or 0):
        errors.append(fe.forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _cluster_ip_update_errors(after: Object, before: Object) -> Errors:
    path, new, old = "spec.clusterIPs", after.get("clusterIPs") or [], before.get("clusterIPs") or []
    if len(new) == len(old):
        return [
            fe.invalid(f"{path}[{position}]", new, "may not change once set")
            for position, (address, stored) in enumerate(zip(new, old, strict=True))
            if address != stored
        ]
    errors: Errors = []
    if not new:
        errors.append(fe.invalid(f"{path}[0]", new, "primary clusterIP can not be unset"))
    elif old and new[0] != old[0]:
        errors.append(fe.invalid(f"{path}[0]", new, "may not change once set"))
    policy = after.get("ipFamilyPolicy")
    if len(new) == 1 and len(old) > 1 and policy != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(fe.invalid("spec.ipFamilyPolicy", policy, text))
    return errors


def _family_update_errors(after: Object, before: Object) -> Errors:
    path, new, old = "spec.ipFamilies[0]", after.get("ipFamilies") or [], before.get("ipFamilies") or []
    unchangeable = "may not change once set"
    if len(new) == len(old):
        return [
            fe.invalid(path, new, unchangeable)
            for family, stored in zip(new, old, strict=True)
            if family != stored
        ]
    errors: Errors = []
    if new and old and new[0] != old[0]:
        # kube-apiserver shows the addresses here.
        errors.append(fe.invalid(path, after.get("clusterIPs") or [], unchangeable))
    policy = after.get("ipFamilyPolicy")
    if len(new) == 1 and len(old) > 1 and policy != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(fe.invalid("spec.ipFamilyPolicy", policy, text))
    return errors


def service_warnings(service: Object) -> Iterator[str]:
    """Return the warnings about a service."""
    version = serving_version()
    spec: Object = service["spec"]
    if _HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    external = spec.get("externalIPs")
    if not is_headless(spec):
        for position, address in enumerate(spec.get("clusterIPs") or ()):
            yield from ip_warnings(address, f"spec.clusterIPs[{position}]")
    elif version.includes("1.34-"):
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for position, address in enumerate(external or ()):
        yield from ip_warnings(address, f"spec.externalIPs[{position}]")
    if spec.get("type") == "ExternalName":
        if external:
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    elif external and not is_headless(spec) and version.includes("1.36-"):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from ip_warnings(spec.get("loadBalancerIP") or "", "spec.loadBalancerIP")
    for position, one in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from range_warnings(one, f"spec.loadBalancerSourceRanges[{position}]")
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose" and version.includes("1.35-"):
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def load_balancer_errors(service: Object) -> Errors:
    """Check the ingress points of a load balancer."""
    path = "status.loadBalancer.ingress"
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if ingress and service["spec"].get("type") != "LoadBalancer":
        return [fe.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    return _INGRESS(ingress, path)


def _check_ip_mode(point: Object, path: str) -> Errors:
    if not point.get("ip") or point.get("ipMode") is not None:
        return []
    return [fe.required(f"{path}.ipMode", "must be specified when `ip` is set")]


def _check_not_address(name: str, path: str) -> Errors:
    if not name or parse_ip(name) is None:
        return []
    return [fe.invalid(path, name, "must be a DNS name, not an IP address")]


_INGRESS = Rules(
    {
        "[*]": [
            When(lambda point: point.get("ip"), {"ip": legacy_ip_errors}),
            _check_ip_mode,
            {"hostname": [DNS_SUBDOMAIN, _check_not_address]},
            When(
                lambda point: not point.get("ip"),
                {"ipMode": Forbidden("may not be specified when `ip` is not set", pointer=True)},
            ),
            {"ipMode": Enum("Proxy", "VIP")},
        ]
    }
)
