"""APIService."""

from __future__ import annotations

import base64
import binascii

from kubewright.api.values.go_format import quote
from kubewright.api.values.names import check_dns_1035_label, check_path_segment
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, field
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    Check,
    Enum,
    Errors,
    Format,
    Range,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.schema import field_errors as fe


def _name_errors(obj: Object, path: str) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    expected = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if not name or name == expected or check_path_segment(name):
        return []
    text = f'must be `spec.version+"."+spec.group`: {quote(expected)}'
    return [fe.invalid("metadata.name", name, text)]


def _group_errors(spec: Object, path: str) -> Errors:
    if spec.get("group") or spec.get("version") == "v1":
        return []
    return [fe.required(f"{path}.group", "only v1 may have an empty group and it better be legacy kube")]


def _local_errors(spec: Object, path: str) -> Errors:
    bundle = spec.get("caBundle")
    errors: Errors = []
    if spec.get("service") is not None:
        return errors
    if bundle:
        text = "local APIServices may not have a caBundle"
        errors.append(fe.invalid(f"{path}.caBundle", f"{_decoded_size(bundle)} bytes", text))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(fe.invalid(f"{path}.insecureSkipTLSVerify", True, text))
    return errors


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except binascii.Error:
        return len(text)


def _bundle_errors(spec: Object, path: str) -> Errors:
    if spec.get("service") is None or not (spec.get("insecureSkipTLSVerify") and spec.get("caBundle")):
        return []
    return [fe.invalid(f"{path}.insecureSkipTLSVerify", True, "may not be true if caBundle is present")]


def _priority(limit: int) -> Range:
    return Range(1, limit, f"must be positive and less than {limit}", absent=0)


RULES = Rules(
    {
        "": _name_errors,
        "spec": [
            Check(_group_errors, absent={}),
            {
                "group": DNS_SUBDOMAIN,
                "version": Format(check_dns_1035_label, absent=""),
                "groupPriorityMinimum": _priority(20_000),
                "versionPriority": _priority(1000),
            },
            _local_errors,
            {
                "service?.namespace": Required(),
                "service?.name": Required(),
                "service?.port": Range(
                    1, 65535, "port is not valid: must be between 1 and 65535, inclusive", absent=0
                ),
            },
            _bundle_errors,
        ],
    }
)
STATUS_RULES = Rules({"status.conditions[*].status": Enum("True", "False", "Unknown", absent="")})


class APIServiceStrategy(KindStrategy):
    """Marks APIServices without a service, which this server serves itself, as available."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the status of a local APIService."""
        if field(obj, "spec.service") is None:
            condition = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": current_timestamp(),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            obj["status"] = {"conditions": [condition]}


def _service_text(obj: Object) -> str:
    service = field(obj, "spec.service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available_text(obj: Object) -> str:
    for condition in field(obj, "status.conditions", ()):
        if condition.get("type") == "Available":
            status, reason = str(condition.get("status", "")), condition.get("reason")
            return f"{status} ({reason})" if reason and status != "True" else status
    return "Unknown"


KINDS = {
    "apiservices": Kind(
        strategy=APIServiceStrategy,
        default=Defaults({"spec.service.port": 443}),
        validate=RULES,
        validate_status=UpdateRules(STATUS_RULES),
        validate_name=check_path_segment,
        allow_unconditional_update=False,
        status_keeps_metadata=True,
        columns=(
            column("Service", _service_text, description="Service that serves the group version."),
            column("Available", _available_text, description="Whether the service is available."),
            AGE,
        ),
    ),
}
