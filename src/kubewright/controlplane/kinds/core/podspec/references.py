"""References from environment variables and files to fields of the pod, resources and keys."""

from __future__ import annotations

from kubewright.api.values import names
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import CONFIG_KEY, Errors, Format, Required, Rules
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_POD_FIELDS = frozenset(
    (
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    )
)
_BYTE_DIVISORS = frozenset(
    ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
)


def check_field_reference(reference: Object, allowed: tuple[str, ...], path: str) -> Errors:
    """Check a reference to a field of the pod, from a variable or a file."""
    field = reference.get("fieldPath") or ""
    if not reference.get("apiVersion"):
        return [fe.required(f"{path}.apiVersion", "")]
    if not field:
        return [fe.required(f"{path}.fieldPath", "")]
    if reference["apiVersion"] != "v1":
        text = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        return [fe.invalid(f"{path}.fieldPath", field, text)]
    bare, bracket, rest = field.partition("[")
    subscripted = bool(bracket) and rest.endswith("']") and rest.startswith("'")
    if (bare if subscripted else field) not in _POD_FIELDS and (
        not subscripted or bare not in ("metadata.annotations", "metadata.labels")
    ):
        text = f"error converting fieldPath: field label not supported: {field}"
        return [fe.invalid(f"{path}.fieldPath", field, text)]
    if subscripted:
        key = rest[1:-2]
        if bare == "metadata.annotations":
            return qualified_name(key.lower(), path)
        if bare == "metadata.labels":
            return qualified_name(key, path)
        return [fe.invalid(path, bare, "does not support subscript")]
    return [] if field in allowed else [fe.not_supported(f"{path}.fieldPath", field, sorted(allowed))]


def check_resource_reference(reference: Object, path: str, *, in_volume: bool) -> Errors:
    """Check a reference to a request or limit of a container, from a variable or a file."""
    errors: Errors = []
    name = reference.get("resource") or ""
    huge = name.startswith(("limits.hugepages-", "requests.hugepages-"))
    if in_volume and not reference.get("containerName"):
        errors.append(fe.required(f"{path}.containerName", ""))
    elif not name:
        errors.append(fe.required(f"{path}.resource", ""))
    elif name not in RESOURCE_FIELDS and not huge:
        errors.append(fe.not_supported(f"{path}.resource", name, RESOURCE_FIELDS))
    divisor = reference.get("divisor") or "0"
    if Quantity(divisor).nanos:
        units = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
        kind = name.partition(".")[2]
        noun = "hugepages" if huge else {"ephemeral-storage": "local ephemeral storage"}.get(kind, kind)
        if kind == "cpu" and divisor not in ("1", "1m"):
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.append(fe.invalid(f"{path}.divisor", name, text))
        elif (huge or kind in ("memory", "ephemeral-storage")) and divisor not in _BYTE_DIVISORS:
            text = f"only divisor's values {units} are supported with the {noun} resource"
            errors.append(fe.invalid(f"{path}.divisor", name, text))
    return errors


KEY_REFERENCE = Rules({"name": Format(names.check_dns_subdomain, absent=""), "key": [Required(), CONFIG_KEY]})
"""A reference to a key of a ConfigMap or Secret."""
