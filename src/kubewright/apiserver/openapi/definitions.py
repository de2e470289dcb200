"""OpenAPI definitions of kinds, encoded once for all documents.

Definitions of built-in types come from tables, those of custom kinds from their schemas plus the fields of
every object; embedded objects get these fields, too. A document contains the definitions that its operations
reference, directly or indirectly.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubewright.api.builtin import schemas as builtin_schemas
from kubewright.api.builtin.descriptions import common_fields, describe
from kubewright.api.builtin.openapi import published
from kubewright.api.builtin.types import types_of
from kubewright.api.gvk import GroupVersion
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion

from .v2 import simplify

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource, Version

Schema = dict[str, Any]
DEFINITIONS_PER_SLICE: Final = 8
_KINDS = "x-kubernetes-group-version-kind"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_OF_ALL_GROUPS: Final = frozenset((f"{_META}.DeleteOptions", f"{_META}.WatchEvent"))
"""Kinds of every group version."""
_UNKNOWN_TO_CUSTOM: Final = frozenset(
    ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
)
"""Groups of such kinds that documents of custom resources omit."""

_METADATA_DESCRIPTION: Final = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
"""The text of kube-apiserver for custom resources."""

_encode = msgspec.json.Encoder().encode


def definition_name(resource: Resource, version: str, kind: str = "") -> str:
    """Return the definition name of a kind: reversed group, version, kind."""
    declared = resource.version(version)
    if declared is not None and declared.published_as:
        return f"{declared.published_as}.{kind or resource.kind}"
    parts = [*reversed((resource.group or "core").split(".")), version, kind or resource.kind]
    return ".".join(parts)


class Definitions:
    """Encoded definitions for one OpenAPI version."""

    def __init__(self, prefix: str, v2: bool = False, version: KubernetesVersion = NEWEST) -> None:
        self.prefix = prefix
        self._version = version
        self._v2 = v2
        self._reference = re.compile(rb'"\$ref":"' + re.escape(prefix.encode()) + rb'([^"]+)"')
        self._encoded: dict[str, tuple[msgspec.Raw, tuple[str, ...]]] = {}

    def gather(
        self,
        names: Iterable[str],
        own: Mapping[str, Schema],
        home: GroupVersion | None,
        *,
        custom: bool = False,
    ) -> Generator[None, None, dict[str, msgspec.Raw]]:
        """Return definitions and those that they reference, by name; pauses between slices.

        `own` has the definitions that are not built in; `home` is the group version of the document, if it
        has one, and `custom` is true if all its resources are custom.
        """
        found: dict[str, msgspec.Raw] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name in own:
                made = self._with_references(own[name])
            elif name in _OF_ALL_GROUPS and home is not None:
                made = self._with_references(self._of_group(name, home, custom))
            elif name in self._encoded:
                made = self._encoded[name]
            elif name in types_of(self._version).definitions:
                made = self._encoded[name] = self._with_references(self._builtin(name))
            else:
                continue
            found[name], references = made
            waiting.extend(references)
            if len(found) % DEFINITIONS_PER_SLICE == 0:
                yield
        return dict(sorted(found.items()))

    def _with_references(self, schema: Schema) -> tuple[msgspec.Raw, tuple[str, ...]]:
        text = _encode(schema)
        return msgspec.Raw(text), tuple({name.decode() for name in self._reference.findall(text)})

    def _builtin(self, name: str) -> Schema:
        schema = published(name, self.prefix, self._version)
        describe(name, schema)
        if self._v2:
            simplify(schema)
        return schema

    def _of_group(self, name: str, home: GroupVersion, custom: bool) -> Schema:
        schema = self._builtin(name)
        kinds = schema[_KINDS]
        if custom:
            schema[_KINDS] = [kind for kind in kinds if kind["group"] not in _UNKNOWN_TO_CUSTOM]
        else:
            wanted = ("", "v1"), (home.group, home.version)
            schema[_KINDS] = [kind for kind in kinds if (kind["group"], kind["version"]) in wanted]
        return schema

    def custom(self, resource: Resource, version: Version) -> dict[str, Schema]:
        """Return the definitions of a custom kind, its list and its own referenced types."""
        name = definition_name(resource, version.name)
        found: dict[str, Schema] = {}
        node = version.schema
        raw: Schema = {"type": "object"}
        if node is not None:
            raw = {**node.raw, "type": "object"}
            for inner, schema in _own_references(node._definitions, raw).items():
                found[inner] = self._adapted(schema)
        anything = node is None or raw.get("x-kubernetes-preserve-unknown-fields") is True
        if self._v2 and anything:
            schema = {"type": "object"}
        else:
            schema = self._adapted(raw)
            schema["properties"] = {**(schema.get("properties") or {}), **self._own_fields("ObjectMeta")}
        schema[_KINDS] = [_kind(resource, version.name, resource.kind)]
        found[name] = schema
        items = {"type": "array", "items": {"$ref": self.prefix + name}}
        found[definition_name(resource, version.name, resource.list_kind)] = shown = {
            "type": "object",
            "description": f"{resource.list_kind} is a list of {resource.kind}",
            "required": ["items"],
            "properties": {
                **self._own_fields("ListMeta"),
                "items": {**items, "description": f"List of {resource.plural}."},
            },
            _KINDS: [_kind(resource, version.name, resource.list_kind)],
        }
        paths = [path for path in version.field_selectors.values() if isinstance(path, str)]
        if paths:
            selectable = [{"fieldPath": path.removeprefix(".")} for path in paths]
            schema["x-kubernetes-selectable-fields"] = shown["x-kubernetes-selectable-fields"] = selectable
        return found

    def _own_fields(self, metadata: str) -> Schema:
        """Return the fields of every object."""
        reference = {"$ref": f"{self.prefix}{_META}.{metadata}"}
        texts = common_fields("kind" if metadata == "ObjectMeta" else "list")
        return {
            "apiVersion": {"type": "string", "description": texts["apiVersion"]},
            "kind": {"type": "string", "description": texts["kind"]},
            "metadata": {
                "description": _METADATA_DESCRIPTION,
                **(reference if self._v2 else {"allOf": [reference]}),
            },
        }

    def _adapted(self, schema: Schema) -> Schema:
        """Copy a custom schema for this OpenAPI version."""
        copy: Schema = self._relinked(schema)
        if self._v2:
            simplify(copy)
        self._embed(copy)
        return copy

    def _relinked(self, value: Any) -> Any:
        """Copy a value with references to definitions of this document."""
        if isinstance(value, dict):
            copy = {
                key: self.prefix + item.rpartition("/")[2]
                if key == "$ref" and isinstance(item, str)
                else self._relinked(item)
                for key, item in value.items()
            }
            if (
                copy.get("x-kubernetes-int-or-string") is True
                and not {"anyOf", "allOf", "type"} & copy.keys()
            ):
                copy["anyOf"] = [{"type": "integer"}, {"type": "string"}]
            return copy
        return [self._relinked(item) for item in value] if isinstance(value, list) else value

    def _embed(self, schema: Schema) -> None:
        """Add the fields of every object to embedded objects."""
        for inner in (schema.get("properties") or {}).values():
            self._embed(inner)
        for inner in (schema.get("items"), schema.get("additionalProperties")):
            if isinstance(inner, dict):
                self._embed(inner)
        if schema.get("x-kubernetes-embedded-resource") is not True:
            return
        if self._v2 and schema.get("x-kubernetes-preserve-unknown-fields") is True:
            return
        schema["properties"] = {**(schema.get("properties") or {}), **self._own_fields("ObjectMeta")}
        schema["required"] = list(dict.fromkeys((*(schema.get("required") or ()), "kind", "apiVersion")))


def _kind(resource: Resource, version: str, kind: str) -> Schema:
    return {"group": resource.group, "version": version, "kind": kind}


def _own_references(known: Mapping[str, Schema], schema: Any) -> dict[str, Schema]:
    """Return the definitions that a schema references, except built-in ones."""
    builtin = builtin_schemas.definitions()
    found: dict[str, Schema] = {}
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            reference = current.get("$ref")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name in known and name not in found and name not in builtin:
                    found[name] = known[name]
                    waiting.append(known[name])
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
    return found
