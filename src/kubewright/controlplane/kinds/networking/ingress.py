"""Ingresses, their classes, network policies, service ranges and addresses: `networking.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api import names
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown, since
from kubewright.controlplane.kinds.validation.addresses import (
    legacy_ip_errors,
    parse_range,
    strict_ip_errors,
    strict_range_errors,
)
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    dns_label,
    dns_subdomain,
    immutable,
    named,
    parse_ip,
    port_number,
)
from kubewright.schema import field_errors as fe

from .network_policy import NETWORK_POLICY

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_A_NAME = "must be a DNS name, not an IP address"


# Ingresses


def _ingress_errors(ingress: Object) -> Errors:
    spec = ingress.get("spec") or {}
    errors: Errors = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.append(fe.invalid("spec", spec.get("rules"), text))
    if spec.get("defaultBackend") is not None:
        errors += _backend_errors(spec["defaultBackend"], "spec.defaultBackend")
    for position, rule in enumerate(spec.get("rules") or ()):
        errors += _ingress_rule_errors(rule, f"spec.rules[{position}]")
    for position, tls in enumerate(spec.get("tls") or ()):
        path = f"spec.tls[{position}]"
        for index, host in enumerate(tls.get("hosts") or ()):
            errors += _host_errors(host, f"{path}.hosts[{index}]")
        if tls.get("secretName"):
            errors += dns_subdomain(tls["secretName"], f"{path}.secretName")
    if spec.get("ingressClassName") is not None:
        errors += dns_subdomain(spec["ingressClassName"], "spec.ingressClassName")
    return errors


def _new_ingress_errors(ingress: Object) -> Errors:
    errors = _ingress_errors(ingress)
    annotated = (ingress["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    named_class = field(ingress, "spec.ingressClassName")
    if annotated is not None and named_class is not None and annotated != named_class:
        text = "must match `ingressClassName` when both are specified"
        errors.append(fe.invalid(f"annotations.{CLASS_ANNOTATION}", annotated, text))
    return errors


def _host_errors(host: str, path: str) -> Errors:
    if "*" in host:
        return named(names.check_wildcard_subdomain, host, path)
    return dns_subdomain(host, path)


def _ingress_rule_errors(rule: Object, path: str) -> Errors:
    errors: Errors = []
    host = rule.get("host") or ""
    if host:
        if parse_ip(host) is not None:
            errors.append(fe.invalid(f"{path}.host", host, _NOT_A_NAME))
        errors += _host_errors(host, f"{path}.host")
    http = rule.get("http")
    if http is not None:
        if not http.get("paths"):
            errors.append(fe.required(f"{path}.http.paths", ""))
        for position, one in enumerate(http.get("paths") or ()):
            errors += _path_errors(one, f"{path}.http.paths[{position}]")
    return errors


def _path_errors(one: Object, path: str) -> Errors:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        return [fe.required(f"{path}.pathType", "pathType must be specified")]
    errors: Errors = []
    where = f"{path}.path"
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            errors.append(fe.invalid(where, text, "must be an absolute path"))
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in text:
                errors.append(fe.invalid(where, text, f"must not contain '{part}'"))
        for end in ("/..", "/."):
            if text.endswith(end):
                errors.append(fe.invalid(where, text, f"cannot end with '{end}'"))
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(fe.invalid(where, text, "must be an absolute path"))
    else:
        errors.append(fe.not_supported(f"{path}.pathType", kind, PATH_TYPES))
    return errors + _backend_errors(one.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: Object, path: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [fe.invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference_errors(resource, f"{path}.resource")
    if service is None:
        return [fe.invalid(path, "", "resource or service backend is required")]
    name = service.get("name") or ""
    errors = (
        named(names.check_dns_label, name, f"{path}.service.name")
        if name
        else [fe.required(f"{path}.service.name", "")]
    )
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        errors.append(fe.invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += named(names.check_port_name, port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        errors += port_number(port["number"], f"{path}.service.port.number")
    else:
        errors.append(fe.required(path, "port name or number is required"))
    return errors


def _reference_errors(reference: Object, path: str) -> Errors:
    errors: Errors = []
    if reference.get("apiGroup") is not None:
        errors += dns_subdomain(reference["apiGroup"], f"{path}.apiGroup")
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if value:
            errors += named(names.check_path_segment, value, f"{path}.{name}")
        else:
            errors.append(fe.required(f"{path}.{name}", ""))
    return errors


def _ingress_status_errors(new: Object, old: Object) -> Errors:
    errors: Errors = []
    known = {each.get("ip") for each in field(old, "status.loadBalancer.ingress", ())}
    for position, each in enumerate(field(new, "status.loadBalancer.ingress", ())):
        path = f"status.loadBalancer.ingress[{position}]"
        if each.get("ip"):
            errors += legacy_ip_errors(each["ip"], f"{path}.ip", {ip for ip in known if ip})
        if each.get("hostname"):
            errors += dns_subdomain(each["hostname"], f"{path}.hostname")
            if parse_ip(each["hostname"]) is not None:
                errors.append(fe.invalid(f"{path}.hostname", each["hostname"], _NOT_A_NAME))
    return errors


def _ingress_warnings(ingress: Object, old: Object | None) -> Iterable[str]:
    annotations = ingress["metadata"].get("annotations") or {}
    if old is None and CLASS_ANNOTATION in annotations and field(ingress, "spec.ingressClassName") is None:
        yield f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"


def _hosts_text(ingress: Object) -> str:
    hosts: list[str] = []
    rules = field(ingress, "spec.rules", ())
    more = False
    for rule in rules:
        more = more or len(hosts) == 3
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    if not hosts:
        return "*"
    first = ",".join(hosts)
    return f"{first} + {len(rules) - 3} more..." if more else first


def _balancer_text(ingress: Object) -> str:
    every = field(ingress, "status.loadBalancer.ingress", ())
    return ",".join(sorted({text for one in every if (text := one.get("ip") or one.get("hostname"))}))


# Ingress classes


def _default_class(ingress_class: Object) -> None:
    parameters = field(ingress_class, "spec.parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _class_errors(ingress_class: Object) -> Errors:
    spec = ingress_class.get("spec") or {}
    controller = spec.get("controller") or ""
    errors: Errors = []
    if len(controller) > 250:
        errors.append(fe.too_long("spec.controller", 250))
    errors += _prefixed_path_errors(controller, "spec.controller")
    parameters, path = spec.get("parameters"), "spec.parameters"
    if parameters is None:
        return errors
    errors += _reference_errors(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        errors.append(fe.not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        if namespace is None:
            errors.append(fe.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            errors += dns_label(namespace, f"{path}.namespace")
    elif namespace is not None:
        errors.append(fe.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return errors


def _prefixed_path_errors(value: str, path: str) -> Errors:
    if not value:
        return [fe.required(path, "")]
    return [fe.invalid(path, part, text) for part, text in names.check_domain_prefixed_path(value)]


def _parameters_text(ingress_class: Object) -> str:
    parameters = field(ingress_class, "spec.parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


def _class_cells(ingress_class: Object) -> list[Any]:
    metadata = ingress_class["metadata"]
    is_default = (metadata.get("annotations") or {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    name = f"{metadata['name']} (default)" if is_default else metadata["name"]
    return [name, *(made.value(ingress_class) for made in _CLASS_COLUMNS[1:] if made.value)]


# Addresses and ranges of services


def _address_name(name: str, *, prefix: bool = False) -> list[str]:
    return [error.message.split(": ", 2)[2] for error in strict_ip_errors(name, "metadata.name")]


def _address_errors(address: Object) -> Errors:
    parent, path = field(address, "spec.parentRef"), "spec.parentRef"
    if parent is None:
        return [fe.required(path, "")]
    errors: Errors = []
    if parent.get("group"):
        errors += dns_subdomain(parent["group"], f"{path}.group")
    for name in ("resource", "name"):
        if parent.get(name):
            errors += named(names.check_path_segment, parent[name], f"{path}.{name}")
        else:
            errors.append(fe.required(f"{path}.{name}", ""))
    if parent.get("namespace"):
        errors += named(names.check_path_segment, parent["namespace"], f"{path}.namespace")
    return errors


def _address_update_errors(new: Object, old: Object) -> Errors:
    parent = field(new, "spec.parentRef")
    if parent == field(old, "spec.parentRef"):
        return []
    order = ("group", "resource", "namespace", "name")
    shape = parent and fe.GoStruct((name.title(), parent.get(name) or "") for name in order)
    return [fe.invalid("spec.parentRef", shape, "field is immutable")]


def _parent_text(address: Object) -> str:
    parent = field(address, "spec.parentRef")
    if parent is None:
        return NONE
    resource = parent.get("resource", "")
    group = f"{resource}.{parent['group']}" if parent.get("group") else resource
    namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return f"{group.lower()}{namespace}/{parent.get('name', '')}"


def _address_cells(address: Object) -> list[Any]:
    # The age has no column, and Kubernetes sends it all the same.
    age = since(field(address, "metadata.creationTimestamp"))
    return [address["metadata"].get("name") or "", _parent_text(address), age]


def _service_range_errors(ranges: Object) -> Errors:
    values, path = field(ranges, "spec.cidrs", []), "spec.cidrs"
    if not values:
        return [fe.required(path, "at least one CIDR required")]
    if len(values) > 2:
        return [fe.invalid(path, {"CIDRs": values}, "may only hold up to 2 values")]
    errors: Errors = []
    for position, value in enumerate(values):
        errors += strict_range_errors(value, f"{path}[{position}]")
    parsed = [parse_range(value) for value in values]
    if len(parsed) == 2 and parsed[0] and parsed[1] and parsed[0][1].version == parsed[1][1].version:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(fe.invalid(path, values, text))
    return errors


def _service_range_update_errors(new: Object, old: Object) -> Errors:
    now, before = field(new, "spec.cidrs", []), field(old, "spec.cidrs", [])
    if len(now) == len(before):
        pairs = enumerate(zip(now, before, strict=True))
        return [
            error for index, (one, other) in pairs for error in immutable(one, other, f"spec.cidrs[{index}]")
        ]
    if len(before) == 1 and len(now) == 2:
        return immutable(now[0], before[0], "spec.cidrs[0]") + _service_range_errors(new)
    return immutable(now, before, "spec.cidrs")


def _joined(path: str) -> Callable[[Object], str]:
    return lambda obj: ",".join(field(obj, path, ()))


_CLASS_COLUMNS = (
    column("Name", shown("metadata.name"), description="The name of the class.", format="name"),
    column("Controller", shown("spec.controller"), description="What serves ingresses of this class."),
    column("Parameters", _parameters_text, description="More about the class."),
    AGE,
)

KINDS = {
    "ingresses": Kind(
        validate=_new_ingress_errors,
        validate_update=lambda new, old: _ingress_errors(new),
        validate_status=_ingress_status_errors,
        warnings=_ingress_warnings,
        generation_fields=("spec",),
        columns=(
            column("Class", shown("spec.ingressClassName", NONE), description="The class it belongs to."),
            column("Hosts", _hosts_text, description="The names that requests ask for."),
            column("Address", _balancer_text, description="Where requests arrive."),
            column(
                "Ports",
                lambda obj: "80, 443" if field(obj, "spec.tls") else "80",
                description="The ports that are open.",
            ),
            AGE,
        ),
        checks_whole_on_update=True,
        display_prefix="ingress",
    ),
    "ingressclasses": Kind(
        default=_default_class,
        validate=_class_errors,
        validate_update=lambda new, old: [
            *immutable(field(new, "spec.controller"), field(old, "spec.controller"), "spec.controller"),
            *_class_errors(new),
        ],
        generation_fields=("spec",),
        columns=_CLASS_COLUMNS,
        cells=_class_cells,
        checks_whole_on_update=True,
    ),
    "networkpolicies": NETWORK_POLICY,
    "ipaddresses": Kind(
        validate=_address_errors,
        validate_update=_address_update_errors,
        validate_name=_address_name,
        columns=(
            column("Name", shown("metadata.name"), description="The address.", format="name"),
            column("ParentRef", _parent_text, description="What has the address."),
        ),
        cells=_address_cells,
    ),
    "servicecidrs": Kind(
        validate=_service_range_errors,
        validate_update=_service_range_update_errors,
        status_keeps_metadata=True,
        columns=(
            column("CIDRs", _joined("spec.cidrs"), description="Where services get addresses from."),
            AGE,
        ),
    ),
}
