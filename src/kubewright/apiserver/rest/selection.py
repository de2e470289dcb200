"""Selectors applied to stored bytes.

Only what the selectors ask for is decoded: labels and names come from a partial read of the metadata, other
fields from the whole object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import BadRequest
from kubewright.api.field_selectors import FieldSelector
from kubewright.api.go_format import format_value
from kubewright.api.label_selectors import Selector

if TYPE_CHECKING:
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.resource import Resource, Version

_COMMON = ("metadata.name", "metadata.namespace")


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Header(msgspec.Struct, gc=False):
    metadata: _Metadata


_header = msgspec.json.Decoder(_Header).decode
_decode = msgspec.json.Decoder().decode


class SelectableFields:
    """What selectors may ask of one stored object."""

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
        """Every selectable field."""
        if self._fields is None:
            fields = {"metadata.name": self.metadata.name, "metadata.namespace": self.metadata.namespace}
            if self._version.field_selectors:
                fields.update(selectable(_decode(self.value), self._version))
            self._fields = fields
        return self._fields


class Selection:
    """Label and field selectors together."""

    __slots__ = ("fields", "labels", "version")

    def __init__(self, version: Version, labels: Selector | None, fields: FieldSelector | None) -> None:
        self.version = version
        self.labels = labels
        self.fields = fields

    def facts(self, value: bytes) -> SelectableFields:
        """Wrap a stored object."""
        return SelectableFields(value, self.version)

    def matches(self, facts: SelectableFields) -> bool:
        """Whether the object is selected."""
        if self.labels is not None and not self.labels.matches(facts.metadata.labels):
            return False
        return self.fields is None or self.fields.matches(facts.fields)


def selection_of(
    resource: Resource, version: Version, labels: Selector | None, fields: FieldSelector | None
) -> Selection | None:
    """The selection of a request, or `None` for everything; raises `BadRequest` for fields nobody can
    select."""
    if fields is not None:
        # Kubernetes' own kinds without fields of their own take either field, whether they have it or not.
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
    return Selection(version if version.field_selectors else stored, labels, fields)


def unsupported_field(resource: Resource, version: Version, label: str) -> BadRequest:
    """400 for a field that cannot be selected."""
    if (resource.group, resource.kind) == ("resource.k8s.io", "ResourceSlice"):
        return BadRequest(f"field label not supported for {resource.gvk(version.name)}: {label}")
    if (resource.group, resource.kind) == ("batch", "Job"):
        return BadRequest(f'field label "{label}" not supported for Job')
    if resource.custom or any(version.field_selectors for version in resource.versions):
        return BadRequest(f"field label not supported: {label}")
    return BadRequest(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def selectable(obj: Object, version: Version) -> dict[str, str]:
    """The selectable fields of an object, as text."""
    found = {}
    for label, source in version.field_selectors.items():
        if callable(source):
            found[label] = source(obj)
        else:
            value = _dotted(obj, source)
            found[label] = "" if value is None else format_value(value)
    return found


def _dotted(obj: Any, path: str) -> Any:
    for part in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj
