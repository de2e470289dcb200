"""API services: `apiregistration.k8s.io`. Their name says which group and version they serve."""

from __future__ import annotations

import base64
import binascii

from kubewright.api.field_errors import quote
from kubewright.api.names import check_dns_1035_label, check_path_segment
from kubewright.apiserver.resource import Object, Operation
from kubewright.apiserver.writes import now_text
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, field
from kubewright.controlplane.kinds.validation.formats import Errors, dns_subdomain, named
from kubewright.schema import field_errors as fe

_STATUSES = ("True", "False", "Unknown")


def _default(service: Object) -> None:
    reference = field(service, "spec.service")
    if reference is not None and reference.get("port") is None:
        reference["port"] = 443


def _errors(service: Object) -> Errors:
    spec, name = service.get("spec") or {}, service["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    errors: Errors = []
    if name and name != f"{version}.{group}" and not check_path_segment(name):
        text = f'must be `spec.version+"."+spec.group`: {quote(f"{version}.{group}")}'
        errors.append(fe.invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(fe.required("spec.group", text))
    if group:
        errors += dns_subdomain(group, "spec.group")
    errors += named(check_dns_1035_label, version, "spec.version")
    for path, most in (("groupPriorityMinimum", 20_000), ("versionPriority", 1000)):
        value = spec.get(path) or 0
        if not 0 < value <= most:
            text = f"must be positive and less than {most}"
            errors.append(fe.invalid(f"spec.{path}", value, text))
    return errors + _target_errors(spec)


def _target_errors(spec: Object) -> Errors:
    reference, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure = bool(spec.get("insecureSkipTLSVerify"))
    where = "spec.insecureSkipTLSVerify"
    errors: Errors = []
    if reference is None:
        if bundle:
            size = f"{_decoded_size(bundle)} bytes"
            text = "local APIServices may not have a caBundle"
            errors.append(fe.invalid("spec.caBundle", size, text))
        if insecure:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(fe.invalid(where, True, text))
        return errors
    for name in ("namespace", "name"):
        if not reference.get(name):
            errors.append(fe.required(f"spec.service.{name}", ""))
    port = reference.get("port") or 0
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(fe.invalid("spec.service.port", port, text))
    if insecure and bundle:
        errors.append(fe.invalid(where, True, "may not be true if caBundle is present"))
    return errors


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except binascii.Error:
        return len(text)


def _status_errors(new: Object, old: Object) -> Errors:
    return [
        fe.not_supported(f"status.conditions[{position}].status", condition.get("status"), _STATUSES)
        for position, condition in enumerate(field(new, "status.conditions", ()))
        if condition.get("status") not in _STATUSES
    ]


class _ServiceStrategy(KindStrategy):
    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """What is served here is available from the start."""
        if field(obj, "spec.service") is None:
            condition = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": now_text(),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            obj["status"] = {"conditions": [condition]}


def _service_text(service: Object) -> str:
    reference = field(service, "spec.service")
    if reference is None:
        return "Local"
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}"


def _available_text(service: Object) -> str:
    for condition in field(service, "status.conditions", ()):
        if condition.get("type") == "Available":
            status, reason = str(condition.get("status", "")), condition.get("reason")
            return f"{status} ({reason})" if reason and status != "True" else status
    return "Unknown"


KINDS = {
    "apiservices": Kind(
        strategy=_ServiceStrategy,
        default=_default,
        validate=_errors,
        validate_status=_status_errors,
        validate_name=check_path_segment,
        allow_unconditional_update=False,
        status_keeps_metadata=True,
        columns=(
            column("Service", _service_text, description="What answers requests."),
            column("Available", _available_text, description="Whether it answers."),
            AGE,
        ),
    ),
}
