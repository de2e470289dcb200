"""Resource slices: the devices that a driver has on a node, or for several of them."""

from __future__ import annotations

from kubewright.api.names import check_c_identifier, check_label_value
from kubewright.apiserver.objects import Object, current_timestamp
from kubewright.cel.library.semver import is_semver
from kubewright.controlplane.kinds.core.podspec.scheduling import node_selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, field, shown
from kubewright.controlplane.kinds.storage.csi_driver import driver_name_errors
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    dns_label,
    dns_subdomain,
    immutable,
    label_name,
    named,
)
from kubewright.schema import field_errors as fe

TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_VALUES = ("int", "bool", "string", "version")


def _default(slice_: Object) -> None:
    for device in field(slice_, "spec.devices", ()):
        for taint in device.get("taints") or ():
            if taint.get("timeAdded") is None:
                taint["timeAdded"] = current_timestamp()


def qualified_errors(name: str, path: str) -> Errors:
    """The name of an attribute: an identifier, with or without the domain it belongs to."""
    domain, slash, identifier = name.rpartition("/")
    errors: Errors = []
    if slash:
        if not domain:
            errors.append(fe.invalid(path, "", "the domain must not be empty"))
        else:
            errors += driver_name_errors(domain, path)
    if slash and not identifier:
        return [*errors, fe.invalid(path, "", "the name must not be empty")]
    if len(identifier) > 32:
        errors.append(fe.too_long(path, 32))
    return errors + named(check_c_identifier, identifier, path)


def fully_qualified_errors(name: str, path: str) -> Errors:
    """The same, with a domain."""
    errors = qualified_errors(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(fe.invalid(path, name, text))
    return errors


def _errors(slice_: Object, old: Object | None = None) -> Errors:
    spec = slice_.get("spec") or {}
    errors = driver_name_errors(spec.get("driver") or "", "spec.driver") + _pool_errors(
        spec.get("pool") or {}
    )
    if old is not None:
        for path in ("spec.pool.name", "spec.driver", "spec.nodeName"):
            errors += immutable(field(slice_, path), field(old, path), path)
    errors += _place_errors(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(fe.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = spec.get("devices") or []
    tainted = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = 64 if tainted else 128
    if len(devices) > most:
        return [*errors, fe.too_many("spec.devices", len(devices), most)]
    seen: set[str] = set()
    for position, device in enumerate(devices):
        errors += _device_errors(device, f"spec.devices[{position}]")
    for position, device in enumerate(devices):
        name = device.get("name") or ""
        if name in seen:
            errors.append(fe.duplicate(f"spec.devices[{position}]", name))
        seen.add(name)
    return errors


def pool_name_errors(name: str, path: str) -> Errors:
    """The name of a pool: subdomains with slashes between them."""
    if not name:
        return [fe.required(path, "")]
    errors: Errors = [fe.too_long(path, 253)] if len(name) > 253 else []
    return errors + [error for part in name.split("/") for error in dns_subdomain(part, path)]


def _pool_errors(pool: Object) -> Errors:
    errors = pool_name_errors(pool.get("name") or "", "spec.pool.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(fe.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(fe.invalid("spec.pool.generation", generation, text))
    return errors


def _place_errors(spec: Object) -> Errors:
    errors: Errors = []
    given: list[str] = []
    node = spec.get("nodeName")
    if node:
        given.append("`nodeName`")
        errors += dns_subdomain(node, "spec.nodeName")
    elif node is not None:
        text = "must be either unset or set to a non-empty string"
        errors.append(fe.invalid("spec.nodeName", node, text))
    selector = spec.get("nodeSelector")
    if selector is not None:
        given.append("`nodeSelector`")
        errors += node_selector_errors(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            errors.append(fe.invalid("spec.nodeSelector.nodeSelectorTerms", terms, text))
    for name in ("allNodes", "perDeviceNodeSelection"):
        value = spec.get(name)
        if value:
            given.append(f"`{name}`")
        elif value is not None:
            errors.append(fe.invalid(f"spec.{name}", value, "must be either unset or set to true"))
    if not given:
        errors.append(fe.required("spec", _ONE_PLACE))
    elif len(given) > 1:
        text = f"{_ONE_PLACE}, but multiple fields are set"
        errors.append(fe.invalid("spec", f"{{{', '.join(given)}}}", text))
    return errors


def _device_errors(device: Object, path: str) -> Errors:
    errors = dns_label(device.get("name") or "", f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > 32:
        text = "the total number of attributes and capacities must not exceed 32"
        errors.append(fe.invalid(path, len(attributes) + len(capacity), text))
    for name, attribute in attributes.items():
        where = f"{path}.attributes[{name}]"
        errors += qualified_errors(name, f"{path}.attributes") + _attribute_errors(attribute, where)
    for name in capacity:
        errors += qualified_errors(name, f"{path}.capacity")
    taints = device.get("taints") or []
    if len(taints) > 16:
        return [*errors, fe.too_many(f"{path}.taints", len(taints), 16)]
    for position, taint in enumerate(taints):
        errors += _taint_errors(taint, f"{path}.taints[{position}]")
    return errors


def _attribute_errors(attribute: Object, path: str) -> Errors:
    given = [name for name in _VALUES if attribute.get(name) is not None]
    errors: Errors = []
    for name in ("string", "version"):
        if len((attribute.get(name) or "").encode()) > 64:
            errors.append(fe.too_long(f"{path}.{name}", 64))
    if len(given) != 1:
        shape = fe.GoStruct((f"{name.title()}Value", attribute.get(name)) for name in _VALUES)
        shape |= {f"{name.title()}Values": attribute.get(f"{name}s") for name in _VALUES}
        errors.append(fe.invalid(path, shape if given else "", "exactly one value must be specified"))
    version = attribute.get("version")
    if version is not None and not is_semver(version):
        text = "must be a string compatible with semver.org spec 2.0.0"
        errors.append(fe.invalid(f"{path}.version", version, text))
    return errors


def _taint_errors(taint: Object, path: str) -> Errors:
    errors = label_name(taint.get("key") or "", f"{path}.key")
    if taint.get("value"):
        errors += named(check_label_value, taint["value"], f"{path}.value")
    effect = taint.get("effect") or ""
    if not effect:
        errors.append(fe.required(f"{path}.effect", ""))
    elif effect not in TAINT_EFFECTS:
        errors.append(fe.not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
    return errors


RESOURCE_SLICE = Kind(
    default=_default,
    validate=_errors,
    validate_update=_errors,
    generation_fields=("spec",),
    returns_deleted_object=True,
    field_selectors={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
    columns=(
        column("Node", shown("spec.nodeName"), description="Where the devices are."),
        column("Driver", shown("spec.driver"), description="The driver that has them."),
        column("Pool", shown("spec.pool.name"), description="The pool they belong to."),
        AGE,
    ),
)
