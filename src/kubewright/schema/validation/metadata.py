"""Coercion and validation of ObjectMeta in custom resources.

Custom resources are plain maps, but `metadata` is always an ObjectMeta, at the root and in embedded
resources. `coerce_metadata` decodes it: unknown fields are dropped and returned, empty values are omitted,
and a field of the wrong type raises `MetadataError` with the message of Go's decoder, or is dropped when
stored data is repaired. `metadata_is_plain` is a fast check whether coercion is needed. `validate_metadata`
checks the values: names, labels, annotations, owners, finalizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from kubewright.api.builtin.typed_codec import conversion_error
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersion
from kubewright.api.values import names
from kubewright.api.values.go_format import marshal_json
from kubewright.api.values.times import format_time, parse_time
from kubewright.schema import field_errors as fe

_STRING, _BOOL, _INT, _TIME, _STRINGS, _STRING_MAP, _RAW = (
    "string",
    "bool",
    "int64",
    "time",
    "[]string",
    "map[string]string",
    "raw",
)
_OWNER_FIELDS: Final = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "name": _STRING,
    "uid": "types.UID",
    "controller": _BOOL,
    "blockOwnerDeletion": _BOOL,
}
_MANAGED_FIELDS: Final = {
    "manager": _STRING,
    "operation": "v1.ManagedFieldsOperationType",
    "apiVersion": _STRING,
    "time": _TIME,
    "fieldsType": _STRING,
    "fieldsV1": _RAW,
    "subresource": _STRING,
}
METADATA_FIELDS: Final = {
    "name": _STRING,
    "generateName": _STRING,
    "namespace": _STRING,
    "selfLink": _STRING,
    "uid": "types.UID",
    "resourceVersion": _STRING,
    "generation": _INT,
    "creationTimestamp": _TIME,
    "deletionTimestamp": _TIME,
    "deletionGracePeriodSeconds": _INT,
    "labels": _STRING_MAP,
    "annotations": _STRING_MAP,
    "ownerReferences": "[]v1.OwnerReference",
    "finalizers": _STRINGS,
    "managedFields": "[]v1.ManagedFieldsEntry",
}
_NESTED: Final = {
    "ownerReferences": ("OwnerReference", _OWNER_FIELDS),
    "managedFields": ("ManagedFieldsEntry", _MANAGED_FIELDS),
}
_POINTERS: Final = frozenset(
    (
        "controller",
        "blockOwnerDeletion",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "time",
        "fieldsV1",
    )
)
_MAX_OWNERS_IN_ERRORS: Final = 1000
"""Owner references in all errors about a second controller; each contains all of them."""
_KEPT_EMPTY: Final = frozenset(("apiVersion", "kind", "name", "uid"))


class MetadataError(ValueError):
    """Metadata cannot be decoded; the message is that of Go's decoder, `converted` that of conversion."""

    def __init__(self, text: str, converted: str = "") -> None:
        super().__init__(text)
        self.converted = converted or text


def metadata_is_plain(value: Any) -> bool:
    """Return whether coercion would not change this metadata; a false negative only costs a coercion."""
    if type(value) is not dict:
        return False
    for name, item in value.items():
        kind = METADATA_FIELDS.get(name)
        if kind is None or not item:
            return False
        if type(item) is str:
            if (
                kind is not _STRING
                and kind != "types.UID"
                and not (kind is _TIME and _is_canonical_time(item))
            ):
                return False
        elif type(item) is dict:
            if kind is not _STRING_MAP:
                return False
            for text in item.values():
                if type(text) is not str:
                    return False
        elif type(item) is int:
            if kind is not _INT:
                return False
        elif type(item) is not list or not _plain_list(name, item):
            return False
    return True


def _is_canonical_time(text: str) -> bool:
    return len(text) == 20 and text[10] == "T" and text[19] == "Z"


def _plain_list(name: str, items: list[Any]) -> bool:
    if name == "finalizers":
        return all(type(item) is str for item in items)
    fields = _NESTED[name][1] if name in _NESTED else None
    if fields is None:
        return False
    for item in items:
        if type(item) is not dict:
            return False
        for key, value in item.items():
            kind = fields.get(key)
            if kind is None or value is None:
                return False
            if kind is _BOOL:
                if type(value) is not bool:
                    return False
            elif kind is _RAW:
                if type(value) is not dict:
                    return False
            elif type(value) is not str or not value or (kind is _TIME and not _is_canonical_time(value)):
                return False
        if name == "ownerReferences" and not item.keys() >= _KEPT_EMPTY:
            return False
    return True


def coerce_metadata(value: Any, *, drop_malformed: bool = False) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the coerced metadata and the relative paths of its unknown fields.

    The metadata is `None` if it could not be decoded and `repair` is set.
    """
    if value is None:
        return {}, []
    if type(value) is not dict:
        if drop_malformed:
            return None, []
        raise MetadataError(
            f"json: cannot unmarshal {_json_kind(value)} into Go value of type v1.ObjectMeta",
            conversion_error(value, "v1.ObjectMeta", ""),
        )
    unknown: list[str] = []
    return _read_struct(value, METADATA_FIELDS, "ObjectMeta", "", "", unknown, drop_malformed), unknown


def _read_struct(
    value: dict[str, Any],
    fields: dict[str, str],
    struct: str,
    go_path: str,
    path: str,
    unknown: list[str],
    drop: bool,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in sorted(value):
        kind = fields.get(name)
        if kind is None:
            unknown.append(path + name)
            continue
        try:
            item = _read_field(value[name], kind, name, struct, go_path, path, unknown)
        except MetadataError:
            if drop:
                continue
            raise
        if item is not None and (item or name in _POINTERS or kind is _TIME):
            result[name] = item
        elif struct == "OwnerReference" and name in _KEPT_EMPTY:
            result[name] = ""
    if struct == "OwnerReference":
        for name in _KEPT_EMPTY - result.keys():
            result[name] = ""
    return result


def _read_field(
    value: Any, kind: str, name: str, struct: str, go_path: str, path: str, unknown: list[str]
) -> Any:
    if value is None:
        return None
    where = f"{struct}.{go_path}{name}"
    if kind is _RAW:
        return value
    if kind is _TIME:
        return _read_time(value, where)
    if kind is _BOOL:
        if type(value) is not bool:
            _mismatch(value, where, kind)
        return value
    if kind is _INT:
        return _read_int(value, where)
    if kind is _STRING_MAP:
        if type(value) is not dict:
            _mismatch(value, where, kind)
        return {
            key: "" if item is None else _read_string(item, where, _STRING)
            for key, item in sorted(value.items())
        }
    if kind is _STRINGS:
        if type(value) is not list:
            _mismatch(value, where, kind)
        return ["" if item is None else _read_string(item, where, _STRING) for item in value]
    if name in _NESTED and kind.startswith("["):
        if type(value) is not list:
            _mismatch(value, where, kind)
        inner, fields = _NESTED[name]
        items = []
        for position, item in enumerate(value):
            if item is not None and type(item) is not dict:
                _mismatch(item, where, kind[2:])
            items.append(
                _read_struct(
                    item or {},
                    fields,
                    inner,
                    f"{go_path}{name}.",
                    f"{path}{name}[{position}].",
                    unknown,
                    False,
                )
            )
        return items
    return _read_string(value, where, kind)


def _read_string(value: Any, where: str, kind: str) -> str:
    if type(value) is not str:
        _mismatch(value, where, kind)
    return value


def _read_int(value: Any, where: str) -> int:
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        value = int(value)
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    return _mismatch(value, where, _INT)


def _read_time(value: Any, where: str) -> str:
    if type(value) is not str:
        _mismatch(value, where, _STRING)
    if _is_canonical_time(value):
        try:
            parse_time(value)
            return value
        except ValueError:
            pass
    try:
        return format_time(parse_time(value))
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        raise MetadataError(
            f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'
        ) from None


def _json_kind(value: Any, *, integer: bool = False) -> str:
    if type(value) is bool:
        return "bool"
    if isinstance(value, int | float):
        return f"number {marshal_json(value)}" if integer else "number"
    if type(value) is str:
        return "string"
    return "array" if type(value) is list else "object"


def _mismatch(value: Any, where: str, kind: str) -> NoReturn:
    shown = _json_kind(value, integer=kind is _INT)
    base = {"types.UID": "string", "v1.ManagedFieldsOperationType": "string"}.get(kind, kind)
    scalar = base if base in (_STRING, _BOOL, _INT) else ""
    raise MetadataError(
        f"json: cannot unmarshal {shown} into Go struct field {where} of type {kind}",
        conversion_error(value, kind, scalar),
    )


NameRule = Callable[..., list[str]]
"""A `check_*` function of `kubewright.api.values.names` with a `prefix` parameter."""

_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_MANAGER: Final = 128
_MAX_SUBRESOURCE: Final = 256


def validate_metadata(
    metadata: dict[str, Any], path: str, *, namespaced: bool, name_rule: NameRule = names.check_dns_subdomain
) -> list[FieldError]:
    """Return the errors of the metadata of a new object."""
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        errors += [
            fe.invalid(fe.child(path, "generateName"), prefix, text)
            for text in name_rule(prefix, prefix=True)
        ]
    if not name:
        errors.append(fe.required(fe.child(path, "name"), "name or generateName is required"))
    else:
        errors += [fe.invalid(fe.child(path, "name"), name, text) for text in name_rule(name)]
    namespace = metadata.get("namespace") or ""
    if namespaced:
        if not namespace:
            errors.append(fe.required(fe.child(path, "namespace")))
        errors += [
            fe.invalid(fe.child(path, "namespace"), namespace, text)
            for text in (names.check_dns_label(namespace) if namespace else ())
        ]
    elif namespace:
        errors.append(fe.forbidden(fe.child(path, "namespace"), "not allowed on this type"))
    if (metadata.get("generation") or 0) < 0:
        errors.append(
            fe.invalid(
                fe.child(path, "generation"), metadata["generation"], "must be greater than or equal to 0"
            )
        )
    return errors + validate_common_metadata(metadata, path)


def validate_common_metadata(metadata: dict[str, Any], path: str) -> list[FieldError]:
    """Return the errors common to create and update: labels, annotations, owners, finalizers, managers."""
    errors = validate_notes(metadata, path)
    errors += finalizer_errors(metadata.get("finalizers") or [], fe.child(path, "finalizers"))
    return errors + manager_errors(metadata.get("managedFields") or [], fe.child(path, "managedFields"))


def validate_notes(metadata: dict[str, Any], path: str) -> list[FieldError]:
    """Return the errors of labels, annotations and owner references."""
    errors = label_errors(metadata.get("labels") or {}, fe.child(path, "labels"))
    annotations = metadata.get("annotations") or {}
    where = fe.child(path, "annotations")
    for key in sorted(annotations):
        errors += [fe.invalid(where, key, text) for text in names.check_qualified_name(key.lower())]
    if sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items()) > _MAX_ANNOTATIONS:
        errors.append(fe.too_long(where, _MAX_ANNOTATIONS))
    return errors + owner_errors(metadata.get("ownerReferences") or [], fe.child(path, "ownerReferences"))


def field_manager_errors(manager: str, path: str) -> list[FieldError]:
    """Return the errors of a field manager name: too long, or not printable."""
    if manager.isascii() and manager.isprintable() and len(manager) <= _MAX_MANAGER:
        return []
    errors = [fe.too_long(path, _MAX_MANAGER)] if len(manager.encode()) > _MAX_MANAGER else []
    position = 0
    for char in manager:
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(fe.invalid(path, manager, text))
        position += len(char.encode())
    return errors


def manager_errors(entries: list[dict[str, Any]], path: str) -> list[FieldError]:
    """Return the errors of managers and subresources in managedFields."""
    errors: list[FieldError] = []
    for position, entry in enumerate(entries):
        where = f"{path}[{position}]"
        errors += field_manager_errors(entry.get("manager") or "", fe.child(where, "manager"))
        if len((entry.get("subresource") or "").encode()) > _MAX_SUBRESOURCE:
            errors.append(fe.too_long(fe.child(where, "subresource"), _MAX_SUBRESOURCE))
    return errors


def label_errors(labels: dict[str, str], path: str) -> list[FieldError]:
    """Return the errors of label keys and values."""
    errors: list[FieldError] = []
    for key in sorted(labels):
        errors += [fe.invalid(path, key, text) for text in names.check_qualified_name(key)]
        errors += [fe.invalid(path, labels[key], text) for text in names.check_label_value(labels[key])]
    return errors


def owner_errors(owners: list[dict[str, Any]], path: str) -> list[FieldError]:
    """Return the errors of owner references; at most one may be the controller."""
    errors: list[FieldError] = []
    controller, reported = "", 0
    for owner in owners:
        api_version = owner.get("apiVersion") or ""
        try:
            group, version = GroupVersion.parse(api_version)
        except ValueError:
            group, version = "", ""
        if not version:
            errors.append(fe.invalid(fe.child(path, "apiVersion"), api_version, "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                errors.append(fe.invalid(fe.child(path, name), owner.get(name) or "", "must not be empty"))
        if (group, version, owner.get("kind")) == ("", "v1", "Event"):
            errors.append(fe.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            current = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                if reported and reported * len(owners) > _MAX_OWNERS_IN_ERRORS:
                    continue
                reported += 1
                errors.append(
                    fe.invalid(
                        path,
                        [_ordered_owner(each) for each in owners],
                        "Only one reference can have Controller set to true. "
                        f'Found "true" in references for {controller} and {current}',
                    )
                )
            else:
                controller = current
    return errors


def _ordered_owner(owner: dict[str, Any]) -> fe.GoStruct:
    return fe.GoStruct(
        {
            name: owner[name]
            for name in _OWNER_FIELDS
            if name in owner or (name in _KEPT_EMPTY and owner.get(name))
        }
    )


def finalizer_errors(finalizers: list[str], path: str) -> list[FieldError]:
    """Return the errors of finalizer names; `orphan` and `foregroundDeletion` exclude each other."""
    errors = [
        fe.invalid(path, name, text) for name in finalizers for text in names.check_qualified_name(name)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(
            fe.invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
        )
    return errors
