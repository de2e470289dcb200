"""VolumeAttachment."""

from __future__ import annotations

from typing import Any

from kubewright.api.values.names import check_dns_subdomain
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.persistent_volume import inline_volume_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import (
    Check,
    Errors,
    Format,
    Immutable,
    MaxLength,
    Minimum,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import MAX_INT32, dns_subdomain
from kubewright.schema import field_errors as fe

from .csi_driver import driver_name_errors
from .storage_class import map_size

_MAX_METADATA_SIZE = 256 * 1024


def _source_errors(source: Object, path: str) -> Errors:
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        return [fe.required(path, text)]
    if inline is not None and volume is not None:
        return [fe.forbidden(path, text)]
    if inline is not None:
        return inline_volume_errors(inline, f"{path}.inlineVolumeSpec")
    if volume:
        return []
    return [fe.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]


def _metadata_errors(metadata: dict[str, str], path: str) -> Errors:
    return [fe.too_long(path, _MAX_METADATA_SIZE)] if map_size(metadata) > _MAX_METADATA_SIZE else []


_FAILURE = {
    "message": MaxLength(1024),
    "errorCode": Minimum(0, f"must be between 0 and {MAX_INT32}, inclusive"),
}
STATUS_RULES = Rules(
    {
        "status.attachmentMetadata": _metadata_errors,
        "status.attachError": _FAILURE,
        "status.detachError": _FAILURE,
    }
)
RULES = Rules(
    {
        "spec.attacher": Check(driver_name_errors, absent=""),
        "spec.source": Check(_source_errors, absent={}),
        "spec.nodeName": Format(check_dns_subdomain, absent=""),
        "": STATUS_RULES,
        "spec.source.persistentVolumeName": dns_subdomain,
    }
)


def _spec_value(spec: Object | None) -> Any:
    spec = spec or {}
    source = spec.get("source") or {}
    return fe.GoStruct(
        Attacher=spec.get("attacher") or "",
        Source=fe.GoStruct(
            PersistentVolumeName=source.get("persistentVolumeName"),
            InlineVolumeSpec=source.get("inlineVolumeSpec"),
        ),
        NodeName=spec.get("nodeName") or "",
    )


KINDS = {
    "volumeattachments": Kind(
        validate=RULES,
        validate_update=UpdateRules(RULES, {"spec": Immutable(show=_spec_value)}),
        validate_status=UpdateRules(STATUS_RULES),
        allow_unconditional_update=False,
        returns_deleted_object=True,
        status_keeps_metadata=True,
        columns=(
            column("Attacher", shown("spec.attacher"), description="Driver that attaches.", format="name"),
            column("PV", shown("spec.source.persistentVolumeName"), description="Persistent volume."),
            column("Node", shown("spec.nodeName"), description="Node that it is attached to."),
            column(
                "Attached", shown("status.attached", False), type="boolean", description="Whether attached."
            ),
            AGE,
        ),
    ),
}
