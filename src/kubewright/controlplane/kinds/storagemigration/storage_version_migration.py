"""StorageVersionMigration."""

from __future__ import annotations

from kubewright.api.values.names import check_dns_1035_label
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import column, field
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    Errors,
    Format,
    Immutable,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import CONDITIONS
from kubewright.schema import field_errors as fe

_CONDITIONS = "status.conditions"

RULES = Rules(
    {
        "spec.resource.resource": [Required("resource is required to be set"), Format(check_dns_1035_label)],
        "spec.resource.group": DNS_SUBDOMAIN,
    }
)


def _version_errors(version: str, path: str) -> Errors:
    if not version or (version.isdecimal() and version.isascii() and version[0] != "0"):
        return []
    return [fe.invalid(path, version, f"resource version is not well formed: {version}")]


def _is_true(obj: Object, condition: str) -> bool:
    found = field(obj, _CONDITIONS) or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in found)


def _outcome_errors(new: Object, old: Object) -> Errors:
    """A migration has one outcome, which stays."""
    errors: Errors = []
    shown = field(new, _CONDITIONS)
    if _is_true(new, "Succeeded") and _is_true(new, "Failed"):
        text = "Both success and failed conditions cannot be true at the same time"
        errors.append(fe.invalid(_CONDITIONS, shown, text))
    for condition, name in (("Succeeded", "Success"), ("Failed", "Failed")):
        if _is_true(old, condition) and not _is_true(new, condition):
            text = f"{name} condition cannot be set to false once it is true"
            errors.append(fe.invalid(_CONDITIONS, shown, text))
    return errors


STATUS_RULES = Rules({"status.resourceVersion": _version_errors, _CONDITIONS: CONDITIONS})


def _resource_text(obj: Object) -> str:
    resource = field(obj, "spec.resource") or {}
    group = resource.get("group")
    return f"{resource.get('resource', '')}.{group}" if group else resource.get("resource", "")


def _status_text(obj: Object) -> str:
    true = [each for each in ("Running", "Failed", "Succeeded") if _is_true(obj, each)]
    return true[-1] if true else "Unknown"


KINDS = {
    "storageversionmigrations": Kind(
        validate=RULES,
        validate_update=UpdateRules(RULES, {"spec": Immutable()}),
        validate_status=UpdateRules(
            STATUS_RULES,
            {"status.resourceVersion": Immutable("field is immutable", once_set=True)},
            _outcome_errors,
        ),
        status_keeps_metadata=True,
        allow_unconditional_update=False,
        columns=(
            column("Resource", _resource_text, description="Resource whose objects are stored again."),
            column("Status", _status_text, description="Running, Succeeded, Failed or Unknown."),
        ),
    ),
}
