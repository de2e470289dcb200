"""ResourceSlice: validation of the devices and shared counters that a driver publishes.

A slice has either devices or counters, and is for one node, for nodes that a selector matches, for all nodes,
or each device declares its nodes. The numbers of devices, attributes and taints are limited as in
Kubernetes.
"""

from __future__ import annotations

from kubewright.api.values.names import (
    check_c_identifier,
    check_dns_label,
    check_qualified_name,
)
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.cel.library.semver import is_semver
from kubewright.controlplane.kinds.core.podspec.scheduling import node_selector_errors
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.storage.csi_driver import driver_name_errors
from kubewright.controlplane.kinds.validation import (
    LABEL_VALUE,
    POSITIVE,
    Check,
    Entry,
    Enum,
    Errors,
    Format,
    Immutable,
    MaxItems,
    MaxLength,
    Minimum,
    Required,
    Rules,
    Table,
    Unique,
    UpdateRules,
    When,
)
from kubewright.controlplane.kinds.validation.formats import dns_subdomain, named
from kubewright.schema import field_errors as fe

TAINT_EFFECT = Enum("NoExecute", "NoSchedule", "None")
_VALUES = ("int", "bool", "string", "version")


def _default_taint(taint: Object) -> None:
    if taint.get("timeAdded") is None:
        taint["timeAdded"] = current_timestamp()


# Names


def qualified_errors(name: str, path: str) -> Errors:
    """Validate the name of an attribute: a C identifier, optionally with a domain."""
    domain, slash, identifier = name.rpartition("/")
    errors: Errors = []
    if slash and not domain:
        errors.append(fe.invalid(path, "", "the domain must not be empty"))
    elif slash:
        errors += driver_name_errors(domain, path)
    if slash and not identifier:
        return [*errors, fe.invalid(path, "", "the name must not be empty")]
    if len(identifier) > 32:
        errors.append(fe.too_long(path, 32))
    return errors + named(check_c_identifier, identifier, path)


def fully_qualified_errors(name: str, path: str) -> Errors:
    """Validate the name of an attribute that must have a domain."""
    errors = qualified_errors(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(fe.invalid(path, name, text))
    return errors


def pool_name_errors(name: str, path: str) -> Errors:
    """Validate the required name of a pool: DNS subdomains separated by slashes."""
    if not name:
        return [fe.required(path, "")]
    errors: Errors = [fe.too_long(path, 253)] if len(name) > 253 else []
    return errors + [error for part in name.split("/") for error in dns_subdomain(part, path)]


# Nodes


def _node_errors(spec: Object, path: str) -> Errors:
    errors: Errors = []
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if node:
        errors += dns_subdomain(node, f"{path}.nodeName")
    elif node is not None:
        text = "must be either unset or set to a non-empty string"
        errors.append(fe.invalid(f"{path}.nodeName", node, text))
    if selector is not None:
        errors += node_selector_errors(selector, f"{path}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            errors.append(fe.invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms, text))
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            errors.append(fe.invalid(f"{path}.{name}", False, "must be either unset or set to true"))
    names = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    present = [f"`{name}`" for name in names if spec.get(name) or (name == "nodeSelector" and selector == {})]
    text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not present:
        errors.append(fe.required(path, text))
    elif len(present) > 1:
        value = f"{{{', '.join(present)}}}"
        errors.append(fe.invalid(path, value, f"{text}, but multiple fields are set"))
    return errors


# Devices


def _counters_or_devices(spec: Object, path: str) -> Errors:
    if spec.get("sharedCounters") is None or spec.get("devices") is None:
        return []
    return [fe.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")]


def _max_devices(devices: list[Object]) -> int:
    return 64 if any(one.get("taints") or one.get("consumesCounters") for one in devices) else 128


def _device_count_errors(devices: list[Object], path: str) -> Errors:
    limit = _max_devices(devices)
    return [fe.too_many(path, len(devices), limit)] if len(devices) > limit else []


def _node_selection_errors(spec: Object, path: str) -> Errors:
    if spec.get("perDeviceNodeSelection"):
        return []
    text = (
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    return [
        fe.invalid(f"{path}.devices[{index}]", None, text)
        for index, device in enumerate(spec.get("devices") or ())
        if any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes"))
    ]


def _attribute_count_errors(device: Object, path: str) -> Errors:
    count = len(device.get("attributes") or ()) + len(device.get("capacity") or ())
    if count <= 32:
        return []
    text = "the total number of attributes and capacities must not exceed 32"
    return [fe.invalid(path, count, text)]


def _attributes_errors(attributes: dict[str, Object], path: str) -> Errors:
    errors: Errors = []
    for name, attribute in attributes.items():
        errors += qualified_errors(name, path) + ATTRIBUTE_RULES(attribute, f"{path}[{name}]")
    return errors


def _attribute_value_errors(attribute: Object, path: str) -> Errors:
    count = sum(attribute.get(name) is not None for name in _VALUES)
    if count == 1:
        return []
    value = fe.GoStruct((f"{name.title()}Value", attribute.get(name)) for name in _VALUES)
    value |= {f"{name.title()}Values": attribute.get(f"{name}s") for name in _VALUES}
    return [fe.invalid(path, value if count else "", "exactly one value must be specified")]


def _version_errors(version: str, path: str) -> Errors:
    if is_semver(version):
        return []
    return [fe.invalid(path, version, "must be a string compatible with semver.org spec 2.0.0")]


def _capacity_errors(capacity: dict[str, Object], path: str) -> Errors:
    return [error for name in capacity for error in qualified_errors(name, path)]


ATTRIBUTE_RULES = Rules(
    {
        "": [
            {"string": MaxLength(64), "version": MaxLength(64)},
            _attribute_value_errors,
            {"version": _version_errors},
        ]
    }
)
_TAINT: Table = {
    "key": Format(check_qualified_name, absent=""),
    "value": LABEL_VALUE,
    "effect": [Required(), TAINT_EFFECT],
}
_DEVICE: Entry = [
    {"name": Format(check_dns_label, absent="")},
    _attribute_count_errors,
    {
        "attributes": _attributes_errors,
        "capacity": _capacity_errors,
        "taints": MaxItems(16, stop=True),
        "taints[*]": _TAINT,
    },
]
POOL_RULES = Rules(
    {
        "spec.driver": Check(driver_name_errors, absent=""),
        "spec.pool.name": Check(pool_name_errors, absent=""),
        "spec.pool.resourceSliceCount": POSITIVE,
        "spec.pool.generation": Minimum(0, "must be greater than or equal to zero"),
    }
)
DEVICE_RULES = Rules(
    {
        "spec": [
            Check(_node_errors, absent={}),
            _counters_or_devices,
            _node_selection_errors,
            {
                "devices": [
                    _device_count_errors,
                    When(
                        lambda devices: len(devices) <= _max_devices(devices),
                        {"[*]": [_DEVICE, Unique("name", at="", last=True)]},
                    ),
                ]
            },
        ]
    }
)

STORED_FORMER = {"1.34": {"hashed_group_version": "resource.k8s.io/v1beta2"}}
"""The version in which the kinds of the group were stored when v1 was new."""

KINDS = {
    "resourceslices": Kind(
        former=STORED_FORMER,
        default=Defaults({"spec.devices[*].taints[*]": _default_taint}),
        validate=Rules({"": [POOL_RULES, DEVICE_RULES]}),
        validate_update=UpdateRules(
            POOL_RULES,
            {"spec.pool.name": Immutable(), "spec.driver": Immutable(), "spec.nodeName": Immutable()},
            DEVICE_RULES,
        ),
        generation_fields=("spec",),
        returns_deleted_object=True,
        field_selectors={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
        unsupported_field_message="field label not supported for {gvk}: {label}",
        columns=(
            column("Node", shown("spec.nodeName"), description="Node of the devices."),
            column("Driver", shown("spec.driver"), description="Driver of the devices."),
            column("Pool", shown("spec.pool.name"), description="Pool of the devices."),
            AGE,
        ),
    ),
}
