"""Ingress."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    PATH_SEGMENT,
    PORT_NAME,
    Check,
    Entry,
    Enum,
    Errors,
    Required,
    Rules,
    Switch,
    Table,
    When,
)
from kubewright.controlplane.kinds.validation.addresses import legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import dns_subdomain, parse_ip, port_number
from kubewright.schema import field_errors as fe

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_A_NAME = "must be a DNS name, not an IP address"

REFERENCE: Table = {
    "apiGroup": dns_subdomain,
    "kind": [Required(), PATH_SEGMENT],
    "name": [Required(), PATH_SEGMENT],
}


def _host_errors(host: str, path: str) -> Errors:
    check = names.check_wildcard_subdomain if "*" in host else names.check_dns_subdomain
    return [fe.invalid(path, host, text) for text in check(host)]


def _rule_host_errors(host: str, path: str) -> Errors:
    if not host:
        return []
    is_address = [fe.invalid(path, host, _NOT_A_NAME)] if parse_ip(host) is not None else []
    return is_address + _host_errors(host, path)


def _exact_path_errors(text: str, path: str) -> Errors:
    errors: Errors = []
    if not text.startswith("/"):
        errors.append(fe.invalid(path, text, "must be an absolute path"))
    for part in ("//", "/./", "/../", "%2f", "%2F"):
        if part in text:
            errors.append(fe.invalid(path, text, f"must not contain '{part}'"))
    for end in ("/..", "/."):
        if text.endswith(end):
            errors.append(fe.invalid(path, text, f"cannot end with '{end}'"))
    return errors


def _any_path_errors(text: str, path: str) -> Errors:
    is_relative = text and not text.startswith("/")
    return [fe.invalid(path, text, "must be an absolute path")] if is_relative else []


def _backend_type_errors(backend: Object, path: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [fe.invalid(path, "", "cannot set both resource and service backends")]
    if resource is None and service is None:
        return [fe.invalid(path, "", "resource or service backend is required")]
    return []


def _service_port_errors(backend: Object, path: str) -> Errors:
    port = (backend["service"]).get("port") or {}
    if port.get("name") and port.get("number"):
        return [fe.invalid(path, "", "cannot set both port name & port number")]
    if not port.get("name") and not port.get("number"):
        return [fe.required(path, "port name or number is required")]
    if port.get("name"):
        return PORT_NAME.errors(port["name"], f"{path}.service.port.name")
    return port_number(port["number"], f"{path}.service.port.number")


def _is_resource_backend(backend: Object) -> bool:
    return backend.get("resource") is not None and backend.get("service") is None


def _is_service_backend(backend: Object) -> bool:
    return backend.get("service") is not None and backend.get("resource") is None


_BACKEND: Entry = [
    Check(_backend_type_errors, absent={}),
    When(_is_resource_backend, {"resource": REFERENCE}),
    When(_is_service_backend, [{"service.name": [Required(), DNS_LABEL]}, _service_port_errors]),
]
_EXACT_PATH = {"path": Check(_exact_path_errors, absent="")}
_HTTP_PATH: Entry = [
    {"pathType": Required("pathType must be specified", pointer=True)},
    When(
        lambda path: path.get("pathType") is not None,
        {
            "": Switch(
                "pathType",
                {
                    "Exact": _EXACT_PATH,
                    "Prefix": _EXACT_PATH,
                    "ImplementationSpecific": {"path": _any_path_errors},
                },
            ),
            "pathType": Enum("Exact", "ImplementationSpecific", "Prefix"),
            "backend": _BACKEND,
        },
    ),
]


def _backend_or_rules(spec: Object, path: str) -> Errors:
    if spec.get("rules") or spec.get("defaultBackend") is not None:
        return []
    return [fe.invalid(path, spec.get("rules"), "either `defaultBackend` or `rules` must be specified")]


RULES = Rules(
    {
        "spec": [
            Check(_backend_or_rules, absent={}),
            {
                "defaultBackend?": _BACKEND,
                "rules[*].host": _rule_host_errors,
                "rules[*].http?.paths": Required(),
                "rules[*].http?.paths[*]": _HTTP_PATH,
                "tls[*].hosts[*]": _host_errors,
                "tls[*].secretName": DNS_SUBDOMAIN,
                "ingressClassName": dns_subdomain,
            },
        ]
    }
)


def _class_errors(obj: Object, path: str) -> Errors:
    annotation = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    class_name = field(obj, "spec.ingressClassName")
    if annotation is None or class_name is None or annotation == class_name:
        return []
    text = "must match `ingressClassName` when both are specified"
    return [fe.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, text)]


def _status_errors(new: Object, old: Object) -> Errors:
    errors: Errors = []
    known = {each.get("ip") for each in field(old, "status.loadBalancer.ingress", ())}
    for index, each in enumerate(field(new, "status.loadBalancer.ingress", ())):
        path, host = f"status.loadBalancer.ingress[{index}]", each.get("hostname")
        if each.get("ip"):
            errors += legacy_ip_errors(each["ip"], f"{path}.ip", known)
        if host:
            errors += dns_subdomain(host, f"{path}.hostname")
            if parse_ip(host) is not None:
                errors.append(fe.invalid(f"{path}.hostname", host, _NOT_A_NAME))
    return errors


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    annotations = obj["metadata"].get("annotations") or {}
    if old is None and CLASS_ANNOTATION in annotations and field(obj, "spec.ingressClassName") is None:
        yield f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"


def _hosts_text(obj: Object) -> str:
    hosts: list[str] = []
    rules = field(obj, "spec.rules", ())
    has_more = False
    for rule in rules:
        has_more = has_more or len(hosts) == 3
        if not has_more and rule.get("host"):
            hosts.append(rule["host"])
    if not hosts:
        return "*"
    first = ",".join(hosts)
    return f"{first} + {len(rules) - 3} more..." if has_more else first


def _address_text(obj: Object) -> str:
    points = field(obj, "status.loadBalancer.ingress", ())
    return ",".join(sorted({text for one in points if (text := one.get("ip") or one.get("hostname"))}))


def _ports_text(obj: Object) -> str:
    return "80, 443" if field(obj, "spec.tls") else "80"


KINDS = {
    "ingresses": Kind(
        validate=Rules({"": [RULES, _class_errors]}),
        validate_update=lambda new, old: RULES(new),
        validate_status=_status_errors,
        warnings=_warnings,
        generation_fields=("spec",),
        display_prefix="ingress",
        checks_whole_on_update=True,
        columns=(
            column("Class", shown("spec.ingressClassName", NONE), description="Name of the ingress class."),
            column("Hosts", _hosts_text, description="Hosts of the rules."),
            column("Address", _address_text, description="Addresses of the load balancer."),
            column("Ports", _ports_text, description="Ports of the load balancer."),
            AGE,
        ),
    ),
}
