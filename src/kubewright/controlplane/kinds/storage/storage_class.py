"""Storage classes, CSI drivers, nodes and capacities, attachments of volumes: `storage.k8s.io`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.core.persistent_volume import inline_volume_errors
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.node.runtime_class import DEPRECATED_LABELS
from kubewright.controlplane.kinds.printing import AGE, NONE, UNSET, column, counted, field, shown
from kubewright.controlplane.kinds.validation.formats import (
    MAX_INT32,
    NON_NEGATIVE,
    Errors,
    dns_subdomain,
    immutable,
    label_name,
    non_negative,
    qualified_name,
)
from kubewright.schema import field_errors as fe

RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")
DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_LARGEST = 256 * 1024


# Storage classes and volume attributes classes


def _default_class(storage_class: Object) -> None:
    if storage_class.get("reclaimPolicy") is None:
        storage_class["reclaimPolicy"] = "Delete"
    if storage_class.get("volumeBindingMode") is None:
        storage_class["volumeBindingMode"] = "Immediate"


def _class_errors(storage_class: Object) -> Errors:
    errors = _provisioner_errors(storage_class.get("provisioner") or "", "provisioner")
    errors += _parameter_errors(storage_class.get("parameters") or {}, allow_empty=True)
    policy, mode = storage_class.get("reclaimPolicy"), storage_class.get("volumeBindingMode")
    if policy and policy not in RECLAIM_POLICIES:
        errors.append(fe.not_supported("reclaimPolicy", policy, RECLAIM_POLICIES))
    if mode not in BINDING_MODES:
        errors.append(fe.not_supported("volumeBindingMode", mode, BINDING_MODES))
    return errors + _topology_errors(storage_class.get("allowedTopologies") or [])


def _class_update_errors(new: Object, old: Object) -> Errors:
    errors: Errors = []
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(name) or None, old.get(name) or None, name)
    return errors


def _fixed_errors(new: Object, old: Object, names: Iterable[str]) -> Errors:
    return [
        fe.forbidden(name, f"updates to {name} are forbidden.")
        for name in names
        if (new.get(name) or None) != (old.get(name) or None)
    ]


def _provisioner_errors(name: str, path: str) -> Errors:
    return qualified_name(name.lower(), path) if name else [fe.required(path, "")]


def _parameter_errors(parameters: dict[str, str], *, allow_empty: bool) -> Errors:
    if len(parameters) > 512:
        return [fe.too_long("parameters", 512)]
    errors: Errors = []
    if "" in parameters:
        errors.append(fe.invalid("parameters", "", "field can not be empty."))
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _LARGEST:
        errors.append(fe.too_long("parameters", _LARGEST))
    if not allow_empty and not parameters:
        errors.append(fe.required("parameters", "must contain at least one key/value pair"))
    return errors


def _topology_errors(terms: list[Object]) -> Errors:
    errors: Errors = []
    seen: list[dict[str, set[str]]] = []
    for position, term in enumerate(terms):
        path = f"allowedTopologies[{position}].matchLabelExpressions"
        asked: dict[str, set[str]] = {}
        for index, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            where, key = f"{path}[{index}]", requirement.get("key") or ""
            values: set[str] = set()
            if not requirement.get("values"):
                errors.append(fe.required(f"{where}.values", ""))
            for number, value in enumerate(requirement.get("values") or ()):
                if value in values:
                    errors.append(fe.duplicate(f"{where}.values[{number}]", value))
                values.add(value)
            errors += label_name(key, f"{where}.key")
            if key in asked:
                errors.append(fe.duplicate(f"{where}.key", key))
            asked[key] = values
        # A term that asks for nothing is told once for each term, and once more for each like it before.
        repeated = len(terms) if not asked else 0
        errors += [fe.duplicate(path, "")] * (repeated + seen.count(asked))
        seen.append(asked)
    return errors


def _class_warnings(storage_class: Object, old: Object | None) -> Iterable[str]:
    for position, term in enumerate(storage_class.get("allowedTopologies") or ()):
        for index, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            text = DEPRECATED_LABELS.get(requirement.get("key") or "")
            if text:
                yield f"allowedTopologies[{position}].matchLabelExpressions[{index}].key: {text}"


def _class_cells(storage_class: Object) -> list[Any]:
    metadata = storage_class["metadata"]
    annotations = metadata.get("annotations") or {}
    is_default = any(annotations.get(name) == "true" for name in DEFAULT_CLASS_ANNOTATIONS)
    name = f"{metadata['name']} (default)" if is_default else metadata["name"]
    return [name, *(made.value(storage_class) for made in _CLASS_COLUMNS[1:] if made.value)]


def _attributes_errors(attributes: Object) -> Errors:
    errors = _provisioner_errors(attributes.get("driverName") or "", "driverName")
    return errors + _parameter_errors(attributes.get("parameters") or {}, allow_empty=False)


def _attributes_update_errors(new: Object, old: Object) -> Errors:
    return _fixed_errors(new, old, ("driverName", "parameters")) + _attributes_errors(new)


# CSI


def driver_name_errors(name: str, path: str) -> Errors:
    """The name of a CSI driver."""
    if not name:
        return [fe.required(path, "")]
    errors: Errors = [fe.too_long(path, 63)] if len(name) > 63 else []
    lower = dns_subdomain(name.lower(), path)
    return errors + [fe.invalid(path, name, error.message.split(": ", 2)[2]) for error in lower]


_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def _default_driver(driver: Object) -> None:
    spec = driver.get("spec")
    if not isinstance(spec, dict):
        return
    for name, value in _DRIVER_DEFAULTS.items():
        if spec.get(name) is None:
            spec[name] = value
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _driver_errors(driver: Object) -> Errors:
    spec = driver.get("spec") or {}
    errors: Errors = []
    policy = spec.get("fsGroupPolicy")
    if policy not in GROUP_POLICIES:
        errors.append(fe.not_supported("spec.fsGroupPolicy", policy, GROUP_POLICIES))
    audiences: set[str] = set()
    for position, request in enumerate(spec.get("tokenRequests") or ()):
        path, audience = f"spec.tokenRequests[{position}]", request.get("audience") or ""
        if audience in audiences:
            errors.append(fe.duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            errors.append(fe.invalid(f"{path}.expirationSeconds", seconds, text))
        if seconds is not None and seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            errors.append(fe.invalid(f"{path}.expirationSeconds", seconds, text))
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in LIFECYCLE_MODES:
            errors.append(fe.not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        text = "must be greater than or equal to 10 seconds"
        errors.append(fe.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(fe.invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
    return errors


def _driver_update_errors(new: Object, old: Object) -> Errors:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _driver_errors(new)
    errors += immutable(now.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired")
    modes = "volumeLifecycleModes"
    return errors + immutable(now.get(modes), before.get(modes), f"spec.{modes}")


def _driver_warnings(driver: Object, old: Object | None) -> Iterable[str]:
    spec = driver.get("spec") or {}
    asked = spec.get("tokenRequests")
    before = field(old or {}, "spec.tokenRequests")
    if asked and spec.get("serviceAccountTokenInSecrets") is None and asked != before:
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
            "prevent possible logging of tokens in volume attributes"
        )


class _DriverStrategy(KindStrategy):
    """Counts changes from none."""

    def initial_generation(self, obj: Object) -> int | None:
        """None: the first change is the first generation."""
        return None


def _requests_text(driver: Object) -> str:
    requests = field(driver, "spec.tokenRequests")
    return UNSET if requests is None else ",".join(one.get("audience") or "" for one in requests)


def _node_errors(node: Object) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, driver in enumerate(field(node, "spec.drivers", ())):
        path, name = f"spec.drivers[{position}]", driver.get("name") or ""
        errors += driver_name_errors(name, f"{path}.name")
        node_id = driver.get("nodeID") or ""
        if not node_id:
            errors.append(fe.required(f"{path}.nodeID", ""))
        if len(node_id) > 256:
            errors.append(fe.invalid(f"{path}.nodeID", node_id, "must be 256 characters or less"))
        errors += non_negative(field(driver, "allocatable.count"), f"{path}.allocatable.count")
        if name in seen:
            errors.append(fe.duplicate(f"{path}.name", name))
        seen.add(name)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                errors.append(fe.required(path, key))
            if key in keys:
                errors.append(fe.duplicate(path, key))
            keys.add(key)
            errors += qualified_name(key, path)
    return errors


def _node_update_errors(new: Object, old: Object) -> Errors:
    errors = _node_errors(new)
    before = {one.get("name"): one for one in field(old, "spec.drivers", ())}
    for driver in field(new, "spec.drivers", ()):
        known = before.get(driver.get("name"))
        if known is not None:
            without = [
                {key: value for key, value in each.items() if key != "allocatable"}
                for each in (driver, known)
            ]
            if without[0] != without[1]:
                shape = fe.GoStruct(
                    Name=driver.get("name") or "",
                    NodeID=driver.get("nodeID") or "",
                    TopologyKeys=driver.get("topologyKeys"),
                    Allocatable=None,
                )
                errors.append(fe.invalid("spec.drivers", shape, "field is immutable"))
    return errors


def _capacity_errors(capacity: Object) -> Errors:
    errors = selector_errors(capacity.get("nodeTopology"), "nodeTopology")
    errors += dns_subdomain(capacity.get("storageClassName") or "", "storageClassName")
    amount = capacity.get("capacity")
    if amount is not None and Quantity(amount).nanos < 0:
        errors.append(fe.invalid("capacity", amount, NON_NEGATIVE))
    return errors


def _capacity_update_errors(new: Object, old: Object) -> Errors:
    topology = new.get("nodeTopology")
    errors: Errors = []
    if topology != old.get("nodeTopology"):
        order = ("matchLabels", "matchExpressions")
        shape = topology and fe.GoStruct((name, topology[name]) for name in order if name in topology)
        errors.append(fe.invalid("nodeTopology", shape, "field is immutable"))
    return errors + immutable(new.get("storageClassName"), old.get("storageClassName"), "storageClassName")


def _capacity_warnings(capacity: Object, old: Object | None) -> Iterable[str]:
    topology = capacity.get("nodeTopology") or {}
    for position, expression in enumerate(topology.get("matchExpressions") or ()):
        key = expression.get("key") or ""
        if key in DEPRECATED_LABELS:
            yield f"nodeTopology.matchExpressions[{position}].key: {key} is {DEPRECATED_LABELS[key]}"
    for key in topology.get("matchLabels") or ():
        if key in DEPRECATED_LABELS:
            yield f"nodeTopology.matchLabels.{key}: {DEPRECATED_LABELS[key]}"


# Attachments


def _attachment_errors(attachment: Object) -> Errors:
    spec = attachment.get("spec") or {}
    errors = driver_name_errors(spec.get("attacher") or "", "spec.attacher")
    source = spec.get("source") or {}
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        errors.append(fe.required("spec.source", text))
    elif inline is not None and volume is not None:
        errors.append(fe.forbidden("spec.source", text))
    elif volume == "":
        where = "spec.source.persistentVolumeName"
        errors.append(fe.required(where, "must specify non empty persistentVolumeName"))
    elif inline is not None:
        errors += inline_volume_errors(inline, "spec.source.inlineVolumeSpec")
    errors += dns_subdomain(spec.get("nodeName") or "", "spec.nodeName")
    errors += _attachment_status_errors(attachment, attachment)
    if volume is not None:
        errors += dns_subdomain(volume, "spec.source.persistentVolumeName")
    return errors


def _attachment_status_errors(new: Object, old: Object) -> Errors:
    status = new.get("status") or {}
    errors: Errors = []
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items()) > _LARGEST:
        errors.append(fe.too_long("status.attachmentMetadata", _LARGEST))
    for name in ("attachError", "detachError"):
        failure, path = status.get(name) or {}, f"status.{name}"
        if len((failure.get("message") or "").encode()) > 1024:
            errors.append(fe.too_long(f"{path}.message", 1024))
        code = failure.get("errorCode")
        if code is not None and code < 0:
            text = f"must be between 0 and {MAX_INT32}, inclusive"
            errors.append(fe.invalid(f"{path}.errorCode", code, text))
    return errors


def _attachment_update_errors(new: Object, old: Object) -> Errors:
    errors = _attachment_errors(new)
    spec = new.get("spec") or {}
    if spec != old.get("spec"):
        source = spec.get("source") or {}
        shape = fe.GoStruct(
            Attacher=spec.get("attacher") or "",
            Source=fe.GoStruct(
                PersistentVolumeName=source.get("persistentVolumeName"),
                InlineVolumeSpec=source.get("inlineVolumeSpec"),
            ),
            NodeName=spec.get("nodeName") or "",
        )
        errors.append(fe.invalid("spec", shape, "field is immutable"))
    return errors


_CLASS_COLUMNS = (
    column("Name", shown("metadata.name"), description="The name of the class.", format="name"),
    column("Provisioner", shown("provisioner"), description="What makes volumes of this class."),
    column("ReclaimPolicy", shown("reclaimPolicy", "Delete"), description="What becomes of used volumes."),
    column(
        "VolumeBindingMode",
        shown("volumeBindingMode", "Immediate"),
        description="When volumes are bound to claims.",
    ),
    column(
        "AllowVolumeExpansion",
        shown("allowVolumeExpansion", False),
        description="Whether volumes can grow.",
    ),
    AGE,
)

KINDS = {
    "storageclasses": Kind(
        returns_deleted_object=True,
        default=_default_class,
        validate=_class_errors,
        validate_update=_class_update_errors,
        warnings=_class_warnings,
        columns=_CLASS_COLUMNS,
        cells=_class_cells,
        checks_whole_on_update=True,
    ),
    "volumeattributesclasses": Kind(
        returns_deleted_object=True,
        validate=_attributes_errors,
        validate_update=_attributes_update_errors,
        columns=(column("DriverName", shown("driverName"), description="The driver it is for."), AGE),
        checks_whole_on_update=True,
    ),
    "csidrivers": Kind(
        strategy=_DriverStrategy,
        returns_deleted_object=True,
        default=_default_driver,
        validate=_driver_errors,
        validate_update=_driver_update_errors,
        warnings=_driver_warnings,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        columns=(
            column(
                "AttachRequired",
                shown("spec.attachRequired", True),
                type="boolean",
                description="Whether volumes have to be attached.",
            ),
            column(
                "PodInfoOnMount",
                shown("spec.podInfoOnMount", False),
                type="boolean",
                description="Whether the driver is told about pods.",
            ),
            column(
                "StorageCapacity",
                shown("spec.storageCapacity", False),
                type="boolean",
                description="Whether the driver tells how much is left.",
            ),
            column("TokenRequests", _requests_text, description="Tokens that the driver wants."),
            column(
                "RequiresRepublish",
                shown("spec.requiresRepublish", False),
                type="boolean",
                description="Whether volumes are published again from time to time.",
            ),
            column(
                "Modes",
                lambda obj: ",".join(field(obj, "spec.volumeLifecycleModes", ())) or NONE,
                description="Kinds of volumes that the driver has.",
            ),
            AGE,
        ),
    ),
    "csinodes": Kind(
        returns_deleted_object=True,
        validate=_node_errors,
        validate_update=_node_update_errors,
        allow_unconditional_update=False,
        columns=(
            column(
                "Drivers", counted("spec.drivers"), type="integer", description="How many drivers there are."
            ),
            AGE,
        ),
    ),
    "csistoragecapacities": Kind(
        validate=_capacity_errors,
        validate_update=_capacity_update_errors,
        warnings=_capacity_warnings,
        allow_unconditional_update=False,
        checks_whole_on_update=True,
    ),
    "volumeattachments": Kind(
        returns_deleted_object=True,
        validate=_attachment_errors,
        validate_update=_attachment_update_errors,
        validate_status=_attachment_status_errors,
        allow_unconditional_update=False,
        status_keeps_metadata=True,
        columns=(
            column(
                "Attacher", shown("spec.attacher"), description="The driver that attaches.", format="name"
            ),
            column("PV", shown("spec.source.persistentVolumeName"), description="The volume."),
            column("Node", shown("spec.nodeName"), description="Where it is attached."),
            column(
                "Attached",
                shown("status.attached", False),
                type="boolean",
                description="Whether it is attached.",
            ),
            AGE,
        ),
    ),
}
