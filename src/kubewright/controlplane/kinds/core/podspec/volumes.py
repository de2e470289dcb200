"""Rules of volumes, and of how containers mount them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.api.quantity import Quantity
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    descending_path,
    dns_label,
    dns_subdomain,
    file_mode,
    plain_path,
    qualified_name,
)
from kubewright.schema import field_errors as fe

from .disks import disk_errors, driver_errors

Object = dict[str, Any]

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


def volume_errors(volumes: list[Object], pod_name: str, path: str) -> tuple[dict[str, Object], Errors]:
    """The volumes that containers may mount, by name, and everything wrong with the others."""
    errors: Errors = []
    usable: dict[str, Object] = {}
    created = {f"{pod_name}-{one.get('name')}" for one in volumes if pod_name and one.get("ephemeral")}
    for position, volume in enumerate(volumes):
        where, name = f"{path}[{position}]", volume.get("name") or ""
        found = _source_errors(volume, where)
        found += dns_label(name, f"{where}.name") if name else [fe.required(f"{where}.name", "")]
        if name in usable:
            found.append(fe.duplicate(f"{where}.name", name))
        if not found:
            usable[name] = volume
        errors += found
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(fe.invalid(f"{where}.persistentVolumeClaim.claimName", claim, text))
    return usable, errors


def source_order(name: str) -> int:
    """Where a kind of source stands in the order in which several are judged."""
    return _SOURCES.index(name) if name in _SOURCES else len(_SOURCES)


def _source_errors(volume: Object, path: str) -> Errors:
    sources = [name for name in volume if name != "name" and volume[name] is not None]
    sources.sort(key=source_order)
    if not sources:
        return [fe.required(path, "must specify a volume type")]
    first, *others = sources
    errors: Errors = []
    check = _CHECKS.get(first)
    if check is not None:
        errors += check(volume[first], f"{path}.{first}")
    else:
        errors += disk_errors(first, volume[first], f"{path}.{first}")
    errors += [fe.forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in others]
    return errors


def _empty_dir(source: Object, path: str) -> Errors:
    if source.get("sizeLimit") is not None and Quantity(source["sizeLimit"]).nanos < 0:
        return [fe.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _git_repo(source: Object, path: str) -> Errors:
    errors = [] if source.get("repository") else [fe.required(f"{path}.repository", "")]
    return errors + descending_path(source.get("directory") or "", f"{path}.directory")


def _keyed(name_field: str) -> Callable[[Object, str], Errors]:
    def check(source: Object, path: str) -> Errors:
        errors = [] if source.get(name_field) else [fe.required(f"{path}.{name_field}", "")]
        errors += file_mode(source.get("defaultMode"), f"{path}.defaultMode")
        for position, item in enumerate(source.get("items") or ()):
            errors += _key_to_path(item, f"{path}.items[{position}]")
        return errors

    return check


def _key_to_path(item: Object, path: str) -> Errors:
    errors = [fe.required(f"{path}.{field}", "") for field in ("key", "path") if not item.get(field)]
    errors += plain_path(item.get("path") or "", f"{path}.path")
    return errors + file_mode(item.get("mode"), f"{path}.mode")


def _downward(source: Object, path: str) -> Errors:
    errors = file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        errors += _downward_file(item, path)
    return errors


def _downward_file(item: Object, path: str) -> Errors:
    errors = [] if item.get("path") else [fe.required(f"{path}.path", "")]
    errors += plain_path(item.get("path") or "", f"{path}.path")
    if item.get("fieldRef") is not None:
        errors += field_reference_errors(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef")
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(fe.invalid(path, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        errors += resource_reference_errors(
            item["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        errors.append(fe.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + file_mode(item.get("mode"), f"{path}.mode")


def field_reference_errors(reference: Object, allowed: tuple[str, ...], path: str) -> Errors:
    """A field of the pod that a variable or a file shows."""
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


def resource_reference_errors(reference: Object, path: str, *, in_volume: bool) -> Errors:
    """A request or limit of a container that a variable or a file shows."""
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


def _projected(source: Object, path: str) -> Errors:
    errors = file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for position, projection in enumerate(source.get("sources") or ()):
        errors += _projection_errors(projection, taken, f"{path}.sources[{position}]", path)
    return errors


def _projection_errors(projection: Object, taken: set[str], where: str, path: str) -> Errors:
    errors: Errors = []
    count = 0
    for kind in ("secret", "configMap"):
        source = projection.get(kind)
        if source is None:
            continue
        count += 1
        if not source.get("name"):
            errors.append(fe.required(f"{where}.{kind}.name", ""))
        for position, item in enumerate(source.get("items") or ()):
            errors += _key_to_path(item, f"{where}.{kind}.items[{position}]")
            errors += _taken(item.get("path") or "", taken, path, source.get("name") or "")
    downward = projection.get("downwardAPI")
    if downward is not None:
        count += 1
        for position, item in enumerate(downward.get("items") or ()):
            errors += _downward_file(item, f"{where}.downwardAPI.items[{position}]")
            errors += _taken(item.get("path") or "", taken, path, item.get("path") or "")
    token = projection.get("serviceAccountToken")
    if token is not None:
        count += 1
        errors += _token_errors(token, f"{where}.serviceAccountToken", path)
        errors += _taken(token.get("path") or "", taken, path, token.get("path") or "")
    if count > 1:
        errors.append(fe.forbidden(where, "may not specify more than 1 volume type per source"))
    return errors


def _taken(name: str, taken: set[str], path: str, shown: str) -> Errors:
    if not name:
        return []
    if name in taken:
        return [fe.invalid(path, shown, "conflicting duplicate paths")]
    taken.add(name)
    return []


def _token_errors(token: Object, path: str, volume: str) -> Errors:
    errors: Errors = []
    seconds = token.get("expirationSeconds") or 0
    if seconds < 600:
        errors.append(
            fe.invalid(
                f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
        )
    elif seconds > 1 << 32:
        errors.append(
            fe.invalid(
                f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
            )
        )
    if not token.get("path"):
        errors.append(fe.required(f"{volume}.path", ""))
    else:
        errors += plain_path(token["path"], f"{path}.path")
    return errors


def _csi(source: Object, path: str) -> Errors:
    errors = driver_errors(source.get("driver") or "", f"{path}.driver")
    reference = source.get("nodePublishSecretRef")
    if reference is not None and not reference.get("name"):
        errors.append(fe.required(f"{path}.nodePublishSecretRef.name", ""))
    elif reference is not None:
        errors += dns_subdomain(reference["name"], f"{path}.name")
    return errors


def _image(source: Object, path: str) -> Errors:
    errors = [] if source.get("reference") else [fe.required(f"{path}.reference", "")]
    return errors + choice(
        source.get("pullPolicy"), ("Always", "IfNotPresent", "Never"), f"{path}.pullPolicy"
    )


def _ephemeral(source: Object, path: str) -> Errors:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [fe.required(f"{path}.volumeClaimTemplate", "")]
    from kubewright.controlplane.kinds.core.persistent_volume import claim_spec_errors

    path = f"{path}.volumeClaimTemplate"
    return template_metadata_errors(template.get("metadata") or {}, f"{path}.metadata") + claim_spec_errors(
        template.get("spec") or {}, f"{path}.spec"
    )


def template_metadata_errors(metadata: Object, path: str) -> Errors:
    """The metadata of an object that is made from a template: labels and annotations alone."""
    from kubewright.schema.validation.metadata import label_errors

    errors: Errors = []
    for key in sorted(metadata.get("annotations") or {}):
        errors += qualified_name(key.lower(), f"{path}.annotations")
    errors += label_errors(metadata.get("labels") or {}, f"{path}.labels")
    return errors + [
        fe.forbidden(f"{path}.{field}", "cannot be set")
        for field, value in metadata.items()
        if field not in ("labels", "annotations") and value not in (None, "", [], {})
    ]


_CHECKS: dict[str, Callable[[Object, str], Errors]] = {
    "emptyDir": _empty_dir,
    "gitRepo": _git_repo,
    "secret": _keyed("secretName"),
    "configMap": _keyed("name"),
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "image",
)
"""In the order that several sources of one volume are judged in."""


def mount_errors(container: Object, volumes: dict[str, Object], path: str) -> Errors:
    """The mounts of a container, against the volumes of its pod."""
    errors: Errors = []
    devices = {one.get("name"): one.get("devicePath") for one in container.get("volumeDevices") or ()}
    points: set[str] = set()
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{position}]"
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        if name not in volumes:
            errors.append(FieldError.not_found(f"{where}.name", name))
        if not point:
            errors.append(fe.required(f"{where}.mountPath", ""))
        if point in points:
            errors.append(fe.invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        if name in devices:
            errors.append(fe.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if point in devices.values():
            text = "must not already exist as a path in volumeDevices"
            errors.append(fe.invalid(f"{where}.mountPath", point, text))
        errors += _mount_options(mount, container, where, f"{path}.volumeMounts")
    return errors + _device_errors(container, volumes, f"{path}.volumeDevices")


def _mount_options(mount: Object, container: Object, where: str, mounts: str) -> Errors:
    errors: Errors = []
    inside, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if inside:
        errors += descending_path(inside, f"{mounts}.subPath")
    if expression:
        if inside:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(fe.invalid(f"{where}.subPathExpr", expression, text))
        errors += descending_path(expression, f"{mounts}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        errors += choice(
            propagation, ("Bidirectional", "HostToContainer", "None"), f"{mounts}.mountPropagation"
        )
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            text = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(fe.forbidden(f"{mounts}.mountPropagation", text))
    recursive = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            text = "may only be specified when readOnly is true"
            errors.append(fe.forbidden(f"{mounts}.recursiveReadOnly", text))
        if propagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(fe.forbidden(f"{mounts}.recursiveReadOnly", text))
    elif recursive is not None:
        errors += choice(
            recursive, ("Disabled", "Enabled", "IfPossible"), f"{mounts}.recursiveReadOnly", required=False
        )
    return errors


def _device_errors(container: Object, volumes: dict[str, Object], path: str) -> Errors:
    errors: Errors = []
    names_seen: set[str] = set()
    paths_seen: set[str] = set()
    mounts = {one.get("name"): one.get("mountPath") for one in container.get("volumeMounts") or ()}
    for position, device in enumerate(container.get("volumeDevices") or ()):
        where = f"{path}[{position}]"
        name, point = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        if name in names_seen:
            errors.append(fe.invalid(f"{where}.name", name, "must be unique"))
        if volume is None:
            errors.append(FieldError.not_found(f"{where}.name", name))
        elif not volume.get("persistentVolumeClaim") and not volume.get("ephemeral"):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(fe.invalid(f"{where}.name", name, text))
        if not point:
            errors.append(fe.required(f"{where}.devicePath", ""))
        if point in paths_seen:
            errors.append(fe.invalid(f"{where}.devicePath", point, "must be unique"))
        if point and ".." in point.split("/"):
            errors.append(fe.invalid(f"{where}.devicePath", point, "can not contain backsteps ('..')"))
        if name in mounts:
            errors.append(fe.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if point in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            errors.append(fe.invalid(f"{where}.devicePath", point, text))
        names_seen.add(name)
        paths_seen.add(point)
    return errors


def key_errors(reference: Object, path: str) -> Errors:
    """A key of a ConfigMap or Secret."""
    errors = [
        fe.invalid(f"{path}.name", reference.get("name") or "", text)
        for text in names.check_dns_subdomain(reference.get("name") or "")
    ]
    key = reference.get("key") or ""
    if not key:
        return [*errors, fe.required(f"{path}.key", "")]
    return errors + [fe.invalid(f"{path}.key", key, text) for text in names.check_config_key(key)]
