"""Python types from an existing CustomResourceDefinition.

    for module, source in generate_types(yaml.safe_load(open("certificates.yaml"))).items():
        Path(f"{module}.py").write_text(source)

Every version of the definition becomes a module named after it, with a class for the kind, for its spec and
status and for each nested object. The manifests that Kubewright generates from the classes have the same
schema, columns, subresources and names as the original. `external=True` declares the kind as one that another
project installs: the classes are for clients and controllers, and no manifest is generated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubewright.api.declaring.declarations import pluralize
from kubewright.api.values.names import check_dns_1035_label, check_dns_subdomain
from kubewright.manifests.path_checks import column_path_errors
from kubewright.scaffold.source.python_source import (
    WIDTH,
    Expression,
    Text,
    call,
    docstring,
    prefixed,
    quote,
    render,
    strings,
    value,
)

from .generated_code import GeneratedCodeError, check_types
from .python_names import class_name, field_names
from .schema_types import Schema, TypeBuilder
from .v1beta1_crds import V1BETA1, as_v1

_META_FIELDS: Final = ("apiVersion", "kind", "metadata")
_GENERATED_ANNOTATIONS: Final = (
    "controller-gen.kubebuilder.io/version",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_CONVERSION_DEFAULTS: Final = {
    "service_name": "webhook-service",
    "service_namespace": "system",
    "path": "/convert",
}
_KIND: Final = re.compile("[A-Z][A-Za-z0-9]*")


class CRDError(ValueError):
    """The document is not a CustomResourceDefinition of `apiextensions.k8s.io/v1` with a schema."""


def generate_types(crd: Mapping[str, Any], *, external: bool = False) -> dict[str, str]:
    """Return the Python source of each version of a definition, by module name.

    Raise `CRDError` if the definition is invalid, or types cannot represent its schema.
    """
    check_crd(crd)
    sources = {
        version["name"]: _Module(crd, version, external).source() for version in crd["spec"]["versions"]
    }
    for version, source in sources.items():
        try:
            check_types(crd, version, source)
        except GeneratedCodeError as error:
            raise CRDError(str(error)) from None
    return sources


def write_types(
    crd: Mapping[str, Any], directory: Path, *, external: bool = False, pattern: str = "{kind}_{version}.py"
) -> list[Path]:
    """Write the modules of a definition into a directory and return their paths.

    Files with the same content are left alone. Raise `FileExistsError` before anything is written if a file
    exists with other content.
    """
    sources = generate_types(crd, external=external)
    kind = crd["spec"]["names"]["kind"].lower()
    files = {
        directory / pattern.format(kind=kind, version=version): source for version, source in sources.items()
    }
    for path, source in files.items():
        if path.exists() and path.read_text(encoding="utf-8") != source:
            raise FileExistsError(f"{path} exists; move it, or choose another directory")
    for path, source in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(source, encoding="utf-8")
    return list(files)


def read_crds(source: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the definitions in a file, a directory or manifest text; raise `CRDError` without any.

    Definitions of `v1beta1` are converted to `v1`.
    """
    from kubewright.client.manifest_files import read_manifests

    found = [
        as_v1(each.data) if each.data.get("apiVersion") == V1BETA1 else each.data
        for each in read_manifests(source)
        if each.data["kind"] == "CustomResourceDefinition"
    ]
    if not found:
        name = "the text" if isinstance(source, str) and "\n" in source else source
        raise CRDError(f"{name} contains no CustomResourceDefinition")
    return found


def check_crd(crd: Mapping[str, Any]) -> None:
    """Raise `CRDError` if types cannot be generated from a document."""
    if crd.get("kind") != "CustomResourceDefinition":
        raise CRDError(f"not a CustomResourceDefinition but {crd.get('kind', 'a document without kind')}")
    if crd.get("apiVersion") != "apiextensions.k8s.io/v1":
        raise CRDError(
            f"apiVersion {crd.get('apiVersion')!r} is not supported; convert it to apiextensions.k8s.io/v1"
        )
    spec = crd.get("spec")
    if not isinstance(spec, Mapping) or not spec.get("versions") or "group" not in spec:
        raise CRDError("spec.group and spec.versions are required")
    kind = spec.get("names", {}).get("kind", "")
    if not _KIND.fullmatch(kind):
        raise CRDError(f"kind {kind!r} is not a CamelCase name")
    group = spec["group"]
    if not isinstance(group, str) or check_dns_subdomain(group):
        raise CRDError(f"group {group!r} of {kind} is not a lower-case domain such as example.com")
    for version in spec["versions"]:
        name = version.get("name")
        if not isinstance(name, str) or check_dns_1035_label(name):
            raise CRDError(f"version {name!r} of {kind} is not a lower-case name such as v1 or v1alpha1")
        if not isinstance(version.get("schema", {}).get("openAPIV3Schema"), Mapping):
            raise CRDError(f"version {name} of {kind} has no schema")


@dataclass
class _Module:
    """The module of one version."""

    crd: Mapping[str, Any]
    version: Mapping[str, Any]
    external: bool

    def __post_init__(self) -> None:
        self.spec: Mapping[str, Any] = self.crd["spec"]
        self.names: Mapping[str, Any] = self.spec["names"]
        self.kind: str = self.names["kind"]
        self.schema: Schema = dict(self.version["schema"]["openAPIV3Schema"])
        self.builder = TypeBuilder()
        reserved = self.builder.is_reserved(self.kind)
        self.class_name = f"{self.kind}Resource" if reserved else self.kind
        self.builder.reserve(self.class_name)

    def source(self) -> str:
        """Return the source of the module."""
        self._add_kind()
        version = f"{self.spec['group']}/{self.version['name']}"
        parts = [
            docstring(f"Types of the kind {self.kind} of {version}.", ""),
            "\nfrom __future__ import annotations\n",
            self._imports(),
        ]
        before = ""
        for source in self.builder.classes:
            # ruff format: two blank lines around a class, one between imports and aliases.
            is_class = source.startswith(("@", "class "))
            parts.append(("\n\n" if is_class or before else "\n") + source)
            before = source
        return "".join(parts)

    def _imports(self) -> str:
        lines: list[str] = []
        for standard in (True, False):
            modules = sorted(
                module
                for module in self.builder.imports
                if (module.partition(".")[0] != "kubewright") is standard
            )
            if not modules:
                continue
            lines.append("")
            for module in modules:
                # The order of ruff: classes, then functions.
                names = sorted(self.builder.imports[module], key=_import_order)
                flat = f"from {module} import {', '.join(names)}"
                if len(flat) <= WIDTH:
                    lines.append(flat)
                else:
                    lines.append(f"from {module} import (")
                    lines.extend(f"    {name}," for name in names)
                    lines.append(")")
        return "\n".join(lines) + "\n"

    def _add_kind(self) -> None:
        properties: dict[str, Schema] = self.schema.get("properties") or {}
        required = set(self.schema.get("required") or ())
        own = {name: child for name, child in properties.items() if name not in _META_FIELDS}
        fields = self._metadata_fields(properties, required)
        is_standard = "spec" in own and "status" not in required and _has_plain_status(own)
        if is_standard:
            base, more = self._custom_resource(own, required)
            fields += more
        else:
            base = self.builder.use("MetaObject")
            names = field_names(own)
            for wire, child in own.items():
                fields += self._field(wire, child, names[wire], required)
        if self._status_argument() is True and "status" not in own and not self._preserves():
            own["status"] = {"type": "object"}
            fields += self._field("status", own["status"], "status", required)
        rest = {key: item for key, item in self.schema.items() if key != "description"}
        rest["required"] = [name for name in required if name not in properties]
        markers = self.builder.class_markers({**rest, "properties": {}})
        arguments = self._resource_arguments()
        head = render(call("@" + self.builder.use("resource"), *arguments)) + "\n"
        text = self.builder.class_source(
            self.class_name,
            base,
            fields,
            markers=markers,
            description=self.schema.get("description", ""),
            head=head,
        )
        self.builder.classes.append(text)

    def _preserves(self) -> bool:
        return bool(self.schema.get("x-kubernetes-preserve-unknown-fields"))

    def _metadata_fields(self, properties: Mapping[str, Schema], required: set[str]) -> str:
        """Redeclare the fields of every object where the definition requires or restricts them."""
        lines = ""
        for wire, name in (("apiVersion", "api_version"), ("kind", "kind")):
            if wire in required:
                annotated = self.builder.use("Annotated")
                lines += f'    {name}: {annotated}[str, {self.builder.use("Required")}] = ""\n'
        restrictions = {
            key: item
            for key, item in properties.get("metadata", {}).items()
            if key not in ("type", "description") and item
        }
        markers: list[Expression] = []
        if restrictions:
            markers.append(self.builder.marker("SchemaKeywords", value(restrictions)))
        if "metadata" in required:
            markers.append(self.builder.marker("Required"))
        if markers:
            metadata = self.builder.use("ObjectMeta")
            annotation = call(self.builder.use("Annotated") + "[", metadata, *markers)
            default = f" = {self.builder.use('field')}(default_factory={metadata})"
            lines += f"    {render(prefixed(annotation, 'metadata: '), '    ', default)}\n"
        return lines

    def _custom_resource(self, own: Mapping[str, Schema], required: set[str]) -> tuple[str, str]:
        """Return the base class with its type arguments, and the fields that are declared beside them."""
        builder = self.builder
        lines = ""
        spec = self._part("spec", own["spec"])
        if "spec" not in required:
            if spec.startswith(f"{self.kind}Spec") and builder.can_be_empty(spec):
                annotated = f"{builder.use('Annotated')}[{spec}, {builder.use('LocalDefault')}]"
                default = f"{builder.use('field')}(default_factory={spec})"
            else:
                spec = annotated = f"{spec} | None"
                default = "None"
            lines += f"    spec: {annotated} = {default}\n"
            lines += self._doc(own["spec"])
        status = "None"
        if "status" in own:
            status = self._part("status", own["status"])
            if not builder.can_be_empty(status):
                status = f"{status} | None"
        others = {name: child for name, child in own.items() if name not in ("spec", "status")}
        names = field_names(others)
        for wire, child in others.items():
            lines += self._field(wire, child, names[wire], required)
        return f"{builder.use('CustomResource')}[{spec}, {status}]", lines

    def _part(self, wire: str, schema: Schema) -> str:
        """Return the name of the type of the spec or status."""
        base = class_name(wire)
        if schema.get("type") == "object" and "additionalProperties" not in schema and not _is_raw(schema):
            return self.builder.struct(schema, f"{self.kind}{base}", self.kind, base=base)
        return self.builder.use("RawObject")

    def _field(self, wire: str, child: Schema, name: str, required: set[str]) -> str:
        if wire in ("spec", "status") and child.get("type") == "object" and child.get("properties"):
            self.builder.struct(child, f"{self.kind}{class_name(wire)}", self.kind, base=class_name(wire))
        safe = f"{name}_" if name in ("gvk", "name", "namespace", "api_version", "metadata") else name
        return self.builder.field(child, wire, safe, self.class_name, required=wire in required)

    def _doc(self, schema: Schema) -> str:
        return docstring(schema["description"]) if schema.get("description") else ""

    def _status_argument(self) -> bool | None:
        """Return `status=` of the declaration, or `None` if the default is right."""
        has_subresource = "status" in (self.version.get("subresources") or {})
        has_field = "status" in (self.schema.get("properties") or {})
        return None if has_field == has_subresource else has_subresource

    def _resource_arguments(self) -> list[Expression]:
        spec, names, version = self.spec, self.names, self.version
        several = len(spec["versions"]) > 1
        arguments: list[Expression] = [f"group={quote(spec['group'])}", f"version={quote(version['name'])}"]

        def add(name: str, item: Expression | None) -> None:
            if item is not None:
                arguments.append(prefixed(item, f"{name}="))

        def text(name: str, given: str | None, default: str = "") -> None:
            add(name, Text(given) if given and given != default else None)

        if self.class_name != self.kind:
            text("kind", self.kind)
        text("plural", names.get("plural"), pluralize(self.kind.lower()))
        text("singular", names.get("singular"), self.kind.lower())
        text("list_kind", names.get("listKind"), f"{self.kind}List")
        text("scope", spec.get("scope"), "Namespaced")
        for name, words in (("short_names", "shortNames"), ("categories", "categories")):
            add(name, strings("", names[words]) if names.get(words) else None)
        columns = tuple(self._columns())
        if columns:
            add("columns", call("", *columns) if len(columns) > 1 else _one(columns[0]))
        status = self._status_argument()
        add("status", None if status is None else repr(status))
        add("scale", self._scale())
        add("storage", "True" if several and version.get("storage") else None)
        add("served", "False" if version.get("served") is False else None)
        if version.get("deprecationWarning") is not None:
            add("deprecation_warning", Text(version["deprecationWarning"]))
        elif version.get("deprecated"):
            add("deprecated", "True")
        paths = [each["jsonPath"] for each in version.get("selectableFields") or ()]
        add("selectable_fields", strings("", paths) if paths else None)
        if version.get("storage"):
            metadata = self.crd.get("metadata") or {}
            labels, annotations = metadata.get("labels") or {}, dict(metadata.get("annotations") or {})
            for name in _GENERATED_ANNOTATIONS:
                annotations.pop(name, None)
            add("labels", value(labels) if labels else None)
            add("annotations", value(annotations) if annotations else None)
            add("conversion", self._conversion())
        add("external", "True" if self.external else None)
        return arguments

    def _columns(self) -> Iterable[Expression]:
        for column in self.version.get("additionalPrinterColumns") or ():
            if any(column_path_errors(self.schema, column["jsonPath"])):
                continue
            items: list[Expression] = [Text(column["name"]), Text(column["jsonPath"])]
            if column["type"] != "string":
                items.append(Text(column["type"]))
            items += [
                prefixed(value(column[name]), f"{name}=")
                for name in ("format", "description", "priority")
                if column.get(name)
            ]
            yield call(self.builder.use("Column"), *items)

    def _scale(self) -> Expression | None:
        scale = (self.version.get("subresources") or {}).get("scale")
        if scale is None:
            return None
        items: list[Expression] = [
            f"{name}={quote(scale[wire])}"
            for name, wire, default in (
                ("spec_replicas", "specReplicasPath", ".spec.replicas"),
                ("status_replicas", "statusReplicasPath", ".status.replicas"),
                ("selector", "labelSelectorPath", ""),
            )
            if scale.get(wire, default) != default
        ]
        return call(self.builder.use("Scale"), *items)

    def _conversion(self) -> Expression | None:
        conversion = self.spec.get("conversion") or {}
        if conversion.get("strategy") != "Webhook":
            return None
        webhook = conversion.get("webhook") or {}
        client = webhook.get("clientConfig") or {}
        service = client.get("service") or {}
        given: dict[str, Any] = {
            "service_name": service.get("name"),
            "service_namespace": service.get("namespace"),
            "service_port": service.get("port"),
            "path": service.get("path"),
            "url": client.get("url"),
            "ca_bundle": client.get("caBundle"),
        }
        items = [
            prefixed(value(item), f"{name}=")
            for name, item in given.items()
            if item is not None and item != _CONVERSION_DEFAULTS.get(name)
        ]
        review = webhook.get("conversionReviewVersions") or ["v1"]
        if review != ["v1"]:
            items.append(strings("review_versions=", review))
        return call(self.builder.use("WebhookConversion"), *items)


def _is_raw(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) and not schema.get("properties")


def _has_plain_status(own: Mapping[str, Schema]) -> bool:
    """Return whether spec and status are plain objects, as `CustomResource` declares them."""
    return all(
        own.get(name, {}).get("type", "object") == "object"
        and not own.get(name, {}).keys() & {"default", "nullable"}
        and (not _is_raw(own.get(name, {})) or own[name].keys() <= _RAW_KEYWORDS)
        and "additionalProperties" not in own.get(name, {})
        and (name not in own or "type" in own[name])
        for name in ("spec", "status")
    )


_RAW_KEYWORDS: Final = frozenset({"type", "description", "x-kubernetes-preserve-unknown-fields"})


def _one(item: Expression) -> Expression:
    """Return a tuple of one item."""
    group = call("", item)
    return type(group)(group.open, group.items, ",)")


def _import_order(name: str) -> tuple[bool, str]:
    return name[0].islower(), name.lower()
