"""Decode objects from responses, and update the objects of a caller in place."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.objects import set_base
from kubewright.api.unstructured import Unstructured

from .errors import ObjectDecodeError
from .kind_types import KIND_FORMS, AnyKind, ObjectOrKind


def kind_of(target: ObjectOrKind) -> AnyKind:
    """Return the kind of an object, or the kind itself."""
    if isinstance(target, KIND_FORMS):
        return target
    if isinstance(target, MetaObject) and not isinstance(target, PartialObjectMetadata):
        return type(target)
    if isinstance(target, dict):
        api_version, kind = target.get("apiVersion") or "", target.get("kind") or ""
    else:
        api_version, kind = target.api_version, target.kind
    if not kind or not api_version:
        raise ValueError("the object has no apiVersion and kind; set both")
    gvk = GroupVersionKind.from_api_version(api_version, kind)
    if gvk == PartialObjectMetadata.gvk:
        raise ValueError(
            "PartialObjectMetadata does not identify a kind; set api_version and kind to those of the object"
        )
    return gvk


def class_of(kind: AnyKind) -> type[Any]:
    """Return the class that objects of a kind are decoded as."""
    if isinstance(kind, type):
        return kind
    return Unstructured if isinstance(kind, str) else kind.object_class


def decode_object(raw: bytes | msgspec.Raw, of: type[Any], gvk: GroupVersionKind) -> Any:
    """Decode an object; items of lists and partial metadata get the apiVersion and kind of `gvk`.

    Raises `ObjectDecodeError`, which names the object, if it does not match the class.
    """
    try:
        value = codec.decode(raw, of)
    except codec.DecodeError as error:
        raise _decode_error(bytes(raw), of, gvk, error) from error
    if of is PartialObjectMetadata:
        value.api_version, value.kind = gvk.api_version, gvk.kind
    elif isinstance(value, Unstructured) and not value.raw.get("kind"):
        value.raw = {"apiVersion": gvk.api_version, "kind": gvk.kind, **value.raw}
    return value


def _decode_error(
    raw: bytes, of: type[Any], gvk: GroupVersionKind, error: codec.DecodeError
) -> ObjectDecodeError:
    try:
        meta = codec.decoder(codec.ObjectHeader).decode(raw).metadata
        namespace, name = meta.namespace or "", meta.name or ""
    except msgspec.DecodeError:
        namespace = name = ""
    reason, _, path = str(error.__cause__ or error).partition(" - at ")
    return ObjectDecodeError(gvk, namespace, name, path.strip("`").removeprefix("$"), reason, of.__name__)


def update_in_place(target: Any, current: Any, raw: bytes) -> None:
    """Copy the server's version of an object into the object of the caller."""
    if isinstance(target, dict):
        target.clear()
        target.update(current.raw)
        return
    if isinstance(target, Unstructured):
        target.raw = current.raw
    else:
        for name, value in zip(target.__struct_fields__, msgspec.structs.astuple(current), strict=True):
            setattr(target, name, value)
    set_base(target, raw)
