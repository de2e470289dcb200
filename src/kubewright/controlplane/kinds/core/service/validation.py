"""Rules of services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.controlplane.kinds.core.podspec.containers import PROTOCOLS
from kubewright.controlplane.kinds.validation.addresses import (
    ip_warnings,
    legacy_ip_errors,
    legacy_range_errors,
    range_warnings,
)
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    dns_label,
    dns_subdomain,
    endpoint_ip,
    parse_ip,
    port,
    port_number,
    qualified_name,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

Object = dict[str, Any]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_MAX_AFFINITY_SECONDS = 86400
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"


def is_headless(spec: Object) -> bool:
    """Whether a service has no address on purpose."""
    return bool(spec.get("clusterIPs") == ["None"])


def needs_node_ports(spec: Object) -> bool:
    """Whether every port of a service is open on nodes."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(spec.get("type") == "NodePort")


def _is_external(spec: Object) -> bool:
    return bool(
        spec.get("type") in ("NodePort", "LoadBalancer")
        or (spec.get("type") == "ClusterIP" and spec.get("externalIPs"))
    )


def service_errors(service: Object, old: Object | None, *, allocated: bool = True) -> Errors:
    """What is wrong with a service; `allocated` says that the server has given its values already."""
    spec: Object = service["spec"]
    kind, ports = spec.get("type") or "", spec.get("ports") or []
    errors: Errors = []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(fe.required("spec.ports", ""))
    if is_headless(spec) and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(fe.invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        errors += _external_name_errors(spec)
    errors += _port_errors(ports, spec)
    errors += label_errors(spec.get("selector") or {}, "spec.selector")
    errors += _affinity_errors(spec)
    if kind != "ExternalName":
        errors += address_errors(spec)
    for position, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{position}]"
        errors += legacy_ip_errors(address, path) or endpoint_ip(address, path)
    errors += choice(kind, _TYPES, "spec.type")
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        errors.append(fe.forbidden("spec.LoadBalancerSourceRanges", text))
    for position, one in enumerate(ranges):
        errors += legacy_range_errors(one.strip(), f"spec.LoadBalancerSourceRanges[{position}]")
    annotation = (service["metadata"].get("annotations") or {}).get(_RANGES)
    if annotation is not None and not ranges:
        path = f"metadata.annotations[{_RANGES}]"
        if kind != "LoadBalancer":
            errors.append(fe.forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
        known = ((old or {}).get("metadata") or {}).get("annotations") or {}
        if annotation.strip() and known.get(_RANGES) != annotation:
            for one in annotation.strip().split(","):
                errors += legacy_range_errors(one.strip(), path)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        errors.append(fe.forbidden("spec.allocateLoadBalancerNodePorts", text))
    errors += _class_errors(service, old)
    return errors + _traffic_errors(spec, allocated)


def _external_name_errors(spec: Object) -> Errors:
    errors = [
        fe.forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return errors + (
        dns_subdomain(name, "spec.externalName") if name else [fe.required("spec.externalName", "")]
    )


def _port_errors(ports: list[Object], spec: Object) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for position, one in enumerate(ports):
        where, name = f"spec.ports[{position}]", one.get("name") or ""
        if not name and len(ports) > 1:
            errors.append(fe.required(f"{where}.name", ""))
        elif name:
            errors += dns_label(name, f"{where}.name")
            if name in names:
                errors.append(fe.duplicate(f"{where}.name", name))
            names.add(name)
        errors += port_number(one.get("port") or 0, f"{where}.port")
        errors += choice(one.get("protocol"), PROTOCOLS, f"{where}.protocol")
        errors += port(one.get("targetPort"), f"{where}.targetPort")
        if one.get("appProtocol") is not None:
            errors += qualified_name(one["appProtocol"], f"{where}.appProtocol")
        if one.get("nodePort") and spec.get("type") == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            errors.append(fe.forbidden(f"{where}.nodePort", text))
        pair = (one.get("protocol"), one.get("port"))
        if pair in seen:
            shown = fe.GoStruct(
                {
                    "Name": "",
                    "Protocol": pair[0],
                    "AppProtocol": None,
                    "Port": pair[1],
                    "TargetPort": 0,
                    "NodePort": 0,
                }
            )
            errors.append(fe.duplicate(where, shown))
        seen.add(pair)
    return errors


def _affinity_errors(spec: Object) -> Errors:
    affinity = spec.get("sessionAffinity")
    errors = choice(affinity, ("ClientIP", "None"), "spec.sessionAffinity")
    if affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        seconds = config.get("timeoutSeconds") or 0
        if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            errors.append(fe.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text))
    elif affinity == "None" and spec.get("sessionAffinityConfig") is not None:
        text = "must not be set when session affinity is None"
        errors.append(fe.forbidden("spec.sessionAffinityConfig", text))
    return errors


def address_errors(spec: Object) -> Errors:
    """The addresses of a service and their families."""
    single, many = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    errors: Errors = []
    if single and not many:
        errors.append(fe.required("spec.clusterIPs", ""))
    elif single and many[0] != single:
        errors.append(fe.invalid("spec.clusterIPs", many, "first value must match `clusterIP`"))
    elif not single and many:
        text = "must be empty when `clusterIP` is not specified"
        errors.append(fe.invalid("spec.clusterIPs", many, text))
    seen: set[str] = set()
    for position, family in enumerate(families):
        errors += choice(family, ("IPv4", "IPv6"), f"spec.ipFamilies[{position}]")
        if family in seen:
            errors.append(fe.duplicate(f"spec.ipFamilies[{position}]", family))
        seen.add(family)
    if policy is not None:
        allowed = ("PreferDualStack", "RequireDualStack", "SingleStack")
        errors += choice(policy, allowed, "spec.ipFamilyPolicy")
    wrong: Errors = []
    for position, address in enumerate(many):
        if position == 0 and address == "None":
            if len(many) > 1:
                text = "'None' must be the first and only value"
                wrong.append(fe.invalid("spec.clusterIPs", many, text))
            continue
        wrong += legacy_ip_errors(address, f"spec.clusterIPs[{position}]")
    errors += wrong
    if len(many) > 2:
        errors.append(fe.invalid("spec.clusterIPs", many, "may only hold up to 2 values"))
    if wrong or is_headless(spec):
        return errors
    versions = [getattr(parse_ip(address), "version", 0) for address in many]
    if len(many) > 1 and len(set(versions)) != len(many):
        text = "may specify no more than one IP for each IP family"
        errors.append(fe.invalid("spec.clusterIPs", many, text))
    for position, (address, family) in enumerate(zip(many, families, strict=False)):
        if f"IPv{versions[position]}" != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{position}]`"
            errors.append(fe.invalid(f"spec.clusterIPs[{position}]", address, text))
    return errors


def _class_errors(service: Object, old: Object | None) -> Errors:
    spec, path = service["spec"], "spec.loadBalancerClass"
    balanced, name = spec.get("type") == "LoadBalancer", spec.get("loadBalancerClass")
    errors: Errors = []
    was_balanced = old is not None and old["spec"].get("type") == "LoadBalancer"
    if old is not None and balanced and was_balanced and old["spec"].get("loadBalancerClass") != name:
        errors.append(fe.invalid(path, name, "may not change once set"))
    if name is not None:
        if balanced:
            errors += qualified_name(name, path)
        else:
            errors.append(fe.forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
    return errors


def _traffic_errors(spec: Object, allocated: bool) -> Errors:
    errors: Errors = []
    external = spec.get("externalTrafficPolicy") or ""
    if not _is_external(spec):
        if external:
            text = "may only be set for externally-accessible services"
            errors.append(fe.invalid("spec.externalTrafficPolicy", external, text))
    else:
        errors += choice(external, ("Cluster", "Local"), "spec.externalTrafficPolicy")
    health = spec.get("healthCheckNodePort") or 0
    if (spec.get("type"), external) != ("LoadBalancer", "Local"):
        if health:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(fe.invalid("spec.healthCheckNodePort", health, text))
    elif health:
        errors += port_number(health, "spec.healthCheckNodePort")
    elif allocated:
        errors.append(fe.required("spec.healthCheckNodePort", ""))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None:
        errors += choice(internal, ("Cluster", "Local"), "spec.internalTrafficPolicy")
    distribution = spec.get("trafficDistribution")
    if distribution is not None:
        allowed = ("PreferClose", "PreferSameZone", "PreferSameNode")
        errors += choice(distribution, allowed, "spec.trafficDistribution")
    return errors


def service_update_errors(service: Object, old: Object) -> Errors:
    """What may not change of a service that keeps an address."""
    after, before = service["spec"], old["spec"]
    if "ExternalName" in (after.get("type"), before.get("type")):
        return []
    errors: Errors = []
    new_ips, old_ips = after.get("clusterIPs") or [], before.get("clusterIPs") or []
    if not (is_headless(after) and is_headless(before)):
        path = "spec.clusterIPs[0]"
        if not new_ips and old_ips:
            errors.append(fe.invalid(path, new_ips, "primary clusterIP can not be unset"))
        elif old_ips and new_ips[0] != old_ips[0]:
            errors.append(fe.invalid(path, new_ips, "may not change once set"))
    if not is_headless(after) and not is_headless(before):
        new_families, old_families = after.get("ipFamilies") or [], before.get("ipFamilies") or []
        if old_families and new_families and new_families[0] != old_families[0]:
            errors.append(fe.invalid("spec.ipFamilies[0]", new_families, "may not change once set"))
    local = ("LoadBalancer", "Local")
    both = all((one.get("type"), one.get("externalTrafficPolicy")) == local for one in (after, before))
    if both and (after.get("healthCheckNodePort") or 0) != (before.get("healthCheckNodePort") or 0):
        errors.append(fe.forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def service_warnings(service: Object) -> Iterator[str]:
    """What of a service has no effect, or will have none."""
    spec: Object = service["spec"]
    if _HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    external = spec.get("externalIPs")
    if not is_headless(spec):
        for position, address in enumerate(spec.get("clusterIPs") or ()):
            yield from ip_warnings(address, f"spec.clusterIPs[{position}]")
    else:
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
    elif external and not is_headless(spec):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from ip_warnings(spec.get("loadBalancerIP") or "", "spec.loadBalancerIP")
    for position, one in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from range_warnings(one, f"spec.loadBalancerSourceRanges[{position}]")
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def load_balancer_errors(service: Object) -> Errors:
    """What is wrong with the points of access that a load balancer reports."""
    errors: Errors = []
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if ingress and service["spec"].get("type") != "LoadBalancer":
        text = "may only be used when `spec.type` is 'LoadBalancer'"
        return [fe.forbidden("status.loadBalancer.ingress", text)]
    for position, one in enumerate(ingress):
        where = f"status.loadBalancer.ingress[{position}]"
        if one.get("ip"):
            errors += legacy_ip_errors(one["ip"], f"{where}.ip")
            if one.get("ipMode") is None:
                errors.append(fe.required(f"{where}.ipMode", "must be specified when `ip` is set"))
        if one.get("hostname"):
            errors += dns_subdomain(one["hostname"], f"{where}.hostname")
            if parse_ip(one["hostname"]) is not None:
                text = "must be a DNS name, not an IP address"
                errors.append(fe.invalid(f"{where}.hostname", one["hostname"], text))
        mode = one.get("ipMode")
        if mode is not None:
            if not one.get("ip"):
                text = "may not be specified when `ip` is not set"
                errors.append(fe.forbidden(f"{where}.ipMode", text))
            errors += choice(mode, ("Proxy", "VIP"), f"{where}.ipMode")
    return errors
