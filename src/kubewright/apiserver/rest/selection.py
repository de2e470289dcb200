"""Label and field selectors, evaluated on stored bytes.

Only what a selector needs is decoded: labels and names from the metadata, other fields from the whole object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import BadRequest
from kubewright.api.selectors.field_selectors import FieldSelector
from kubewright.api.selectors.label_selectors import Selector
from kubewright.api.values.go_format import format_value
from kubewright.apiserver.resources.conversion import NoConversion

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version

_COMMON = ("metadata.name", "metadata.namespace")


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Header(msgspec.Struct, gc=False):
    metadata: _Metadata


_header = msgspec.json.Decoder(_Header).decode
_decode = msgspec.json.Decoder().decode


class SelectableObject:
    """Labels and selectable fields of one stored object, decoded when they are first needed."""

    __slots__ = ("_fields", "_metadata", "_version", "value")

    def __init__(self, value: bytes, version: Version) -> None:
        self.value = value
        self._version = version
        self._metadata: _Metadata | None = None
        self._fields: dict[str, str] | None = None

    @property
    def metadata(self) -> _Metadata:
        """Name, namespace and labels."""
        if self._metadata is None:
            self._metadata = _header(self.value).metadata
        return self._metadata

    @property
    def fields(self) -> Mapping[str, str]:
        """All selectable fields."""
        if self._fields is None:
            fields = {"metadata.name": self.metadata.name, "metadata.namespace": self.metadata.namespace}
            if self._version.field_selectors:
                fields.update(selectable_fields(_decode(self.value), self._version))
            self._fields = fields
        return self._fields


class Selection:
    """A label selector and a field selector."""

    __slots__ = ("converts", "fields", "labels", "version")

    def __init__(
        self,
        version: Version,
        labels: Selector | None,
        fields: FieldSelector | None,
        *,
        converts: bool = False,
    ) -> None:
        self.version = version
        self.labels = labels
        self.fields = fields
        self.converts = converts
        """Whether stored objects have to be converted to `version` before they are matched."""

    @property
    def name(self) -> str:
        """The name that selected objects must have, or an empty string."""
        return (self.fields.exact("metadata.name") or "") if self.fields is not None else ""

    def selectable(self, value: bytes) -> SelectableObject:
        """Wrap a stored object."""
        return SelectableObject(value, self.version)

    def selects(self, value: bytes) -> bool:
        """Whether a stored object is selected."""
        return self.matches(self.selectable(value))

    def matches(self, obj: SelectableObject) -> bool:
        """Whether the object is selected."""
        if self.labels is not None and not self.labels.matches(obj.metadata.labels):
            return False
        return self.fields is None or self.fields.matches(obj.fields)


def make_selection(
    resource: Resource, version: Version, labels: Selector | None, fields: FieldSelector | None
) -> Selection | None:
    """Return the selection of a request, `None` for everything; raises `BadRequest` for unsupported
    fields."""
    if fields is not None:
        # Built-in kinds without fields of their own accept both common fields, whether they have them or not.
        strict = resource.custom or any(each.field_selectors for each in resource.versions)
        for term in fields.terms:
            if term.field not in version.field_selectors and (
                term.field not in _COMMON
                or (term.field == "metadata.namespace" and not resource.namespaced and strict)
            ):
                raise unsupported_field(resource, version, term.field)
    if labels is None and fields is None:
        return None
    stored = resource.version(resource.storage_version) or version
    converts = (
        fields is not None
        and resource.custom
        and version.name != resource.storage_version
        and not isinstance(resource.converter, NoConversion)
        and any(term.field not in _COMMON for term in fields.terms)
    )
    return Selection(version if version.field_selectors else stored, labels, fields, converts=converts)


def unsupported_field(resource: Resource, version: Version, label: str) -> BadRequest:
    """Return the 400 for a field that cannot be selected."""
    message = resource.strategy.unsupported_field_message
    if message:
        return BadRequest(message.format(label=label, gvk=resource.gvk(version.name)))
    if resource.custom or any(each.field_selectors for each in resource.versions):
        return BadRequest(f"field label not supported: {label}")
    return BadRequest(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def selectable_fields(obj: Object, version: Version) -> dict[str, str]:
    """Return the selectable fields of an object as text."""
    found = {}
    for label, source in version.field_selectors.items():
        if callable(source):
            found[label] = source(obj)
        else:
            value = _get(obj, source)
            found[label] = "" if value is None else format_value(value)
    return found


def _get(obj: Any, path: str) -> Any:
    for part in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj
