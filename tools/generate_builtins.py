"""Write the built-in types and their schema tables from the OpenAPI documents of Kubernetes.

    python tools/generate_builtins.py --sources CLONE            write api/<group>/<version>.py, schemas, wire
    python tools/generate_builtins.py --sources CLONE --check    fail if a committed file differs

`CLONE` is a clone of the public repository (see `kubernetes_sources`); the types are those of the newest
release. Each definition becomes a msgspec class, a structural OpenAPI v3 schema without descriptions (those
are in `api/descriptions`) and a protobuf message (`wire_tables`). A group version is one module and one file
of each, so that programs only load the ones they use.

Classes are in dependency order, with evaluated annotations: msgspec has to compile each string annotation at
the first decode. Only recursive types are quoted.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import wire_tables
from kubernetes_sources import NEWEST, Release, release, sources_folder

Schema = dict[str, Any]

API = Path(__file__).resolve().parent.parent / "src" / "kubewright" / "api"
KINDS = "x-kubernetes-group-version-kind"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

SCALARS: dict[str, tuple[str, Schema]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": (
        "Quantity",
        {"x-kubernetes-int-or-string": True, "format": "quantity"},
    ),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (
        "int | str",
        {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    ),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": (
        "dict[str, Any]",
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
    META + "FieldsV1": ("dict[str, Any]", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    META + "Time": ("Time", {"type": "string", "format": "date-time"}),
    META + "MicroTime": ("MicroTime", {"type": "string", "format": "date-time", "x-kubewright-precision": 6}),
    META + "Duration": ("Duration", {"type": "string", "format": "duration"}),
    APIEXTENSIONS + "JSON": ("Any", {"x-kubernetes-preserve-unknown-fields": True}),
    APIEXTENSIONS + "JSONSchemaPropsOrBool": (
        "JSONSchemaProps | bool",
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    APIEXTENSIONS + "JSONSchemaPropsOrArray": (
        "JSONSchemaProps | list[JSONSchemaProps]",
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    APIEXTENSIONS + "JSONSchemaPropsOrStringArray": (
        "JSONSchemaProps | list[str]",
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
}
"""Definitions that are a Python type rather than a class: annotation, structural schema."""

PYTHON_NAMES = {"openAPIV3Schema": "openapi_v3_schema"}
"""JSON names whose words cannot be derived from their capitals."""

HAND_WRITTEN = {"io.k8s.api.core.v1.ObjectReference"}
"""Definitions outside `meta/v1` whose class is in `kubewright.api.meta`."""

PACKAGES = {"resource": "resources"}
"""Groups whose package has another name, because `kubewright.api.resource` is a decorator."""

CLASS_NAMES = {META + "GroupResource": "GroupResourceRef"}
"""Classes with another name than their definition."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "kind": "Shared",
        "readOnly": False,
    },
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.FileKeySelector": {"optional": False},
    "core.v1.ISCSIPersistentVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    "core.v1.LocalObjectReference": {"name": ""},
    "core.v1.RBDPersistentVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "core.v1.RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ScaleIOPersistentVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "core.v1.ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "core.v1.ServicePort": {"protocol": "TCP"},
    "certificates.v1.PodCertificateRequestSpec": {"maxExpirationSeconds": 86400},
    "certificates.v1beta1.PodCertificateRequestSpec": {"maxExpirationSeconds": 86400},
    "resource.v1.DeviceToleration": {"operator": "Equal"},
    "resource.v1alpha3.ResourcePoolStatusRequestSpec": {"limit": 100},
    "resource.v1beta1.DeviceToleration": {"operator": "Equal"},
    "resource.v1beta2.DeviceToleration": {"operator": "Equal"},
}
"""Defaults of list elements and of optional fields; those of other fields follow from their types."""

ZERO = {"string": "", "integer": 0, "number": 0, "boolean": False}


class Home(NamedTuple):
    """Return the package and version of a definition."""

    group: str
    version: str


def definitions_of(one: Release) -> dict[str, Schema]:
    """Return the definitions of a release: references without `allOf`, kinds of all group versions."""
    found = {name: _plain(schema) for name, schema in one.definitions.items()}
    for kind in ("DeleteOptions", "WatchEvent"):
        found[META + kind][KINDS] = [
            {"group": group, "kind": kind, "version": version} for group, version in one.group_versions
        ]
    return found


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: _plain(value) for key, value in schema.items()}
    references = copy.get("allOf")
    return {**references[0], **copy} if isinstance(references, list) else copy


def home_of(name: str) -> Home:
    group, version = name.split(".")[-3:-1]
    return Home("meta", "v1") if name.startswith("io.k8s.apimachinery.") else Home(group, version)


def package(home: Home) -> str:
    return PACKAGES.get(home.group, home.group)


def in_meta(name: str) -> bool:
    return name in HAND_WRITTEN or home_of(name).group == "meta"


def class_name(name: str) -> str:
    return CLASS_NAMES.get(name) or name.rpartition(".")[2]


def ref_of(schema: Schema) -> str | None:
    ref = schema.get("$ref")
    return ref.rpartition("/")[2] if ref else None


def references(schema: Schema) -> Iterator[str]:
    ref = ref_of(schema)
    if ref:
        yield ref
    for child in (schema.get("properties") or {}).values():
        yield from references(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from references(schema[key])


def normal(schema: Schema) -> Schema:
    """Return the structural OpenAPI v3 schema of a definition or a part of it."""
    found: Schema = {}
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    ref = ref_of(schema)
    if ref:
        found["$ref"] = ref
    elif kind:
        found["type"] = kind
    for key in ("format", "required"):
        if key in schema:
            found[key] = schema[key]
    for key in sorted(schema):
        if key.startswith("x-kubernetes-"):
            found[key] = schema[key]
    if "items" in schema:
        found["items"] = normal(schema["items"])
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        found["additionalProperties"] = normal(extra)
    if "properties" in schema:
        found["properties"] = {name: normal(child) for name, child in schema["properties"].items()}
    return found


def structural(name: str, definitions: dict[str, Schema], merge_keys: dict[str, set[str]]) -> Schema:
    if name in SCALARS:
        return dict(SCALARS[name][1])
    schema = normal(definitions[name])
    properties = schema.get("properties", {})
    home = home_of(name)
    for field, value in DEFAULTS.get(f"{home.group}.{home.version}.{class_name(name)}", {}).items():
        if field in properties:
            properties[field]["default"] = value
    for field in merge_keys.get(name, ()):
        part = properties.get(field, {})
        if "default" not in part and field in schema.get("required", ()) and part.get("type") in ZERO:
            part["default"] = ZERO[part["type"]]
    return schema


def list_keys(definitions: dict[str, Schema]) -> dict[str, set[str]]:
    """Return the fields of each definition that are keys of a list."""
    keys: dict[str, set[str]] = {}

    def visit(schema: Schema) -> None:
        element = ref_of(schema.get("items") or {})
        if element:
            keys.setdefault(element, set()).update(schema.get("x-kubernetes-list-map-keys") or ())
        for child in (schema.get("properties") or {}).values():
            visit(child)

    for schema in definitions.values():
        visit(schema)
    return keys


def schema_file(names: Iterable[str], definitions: dict[str, Schema], keys: dict[str, set[str]]) -> str:
    """Return JSON with one definition per line, for readable diffs."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(structural(name, definitions, keys), separators=(',', ':'))}"
        for name in sorted(names)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


_WORDS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z0-9]+")
_SHADOWING = {"bool", "int", "str", "float", "list", "dict", "bytes", "field"}


def python_name(wire: str) -> str:
    name = PYTHON_NAMES.get(wire) or "_".join(word.lower() for word in _WORDS.findall(wire))
    return name + "_" if keyword.iskeyword(name) or name in _SHADOWING else name


def renamed(name: str) -> str:
    """Return the JSON name that msgspec derives from a Python name."""
    return msgspec.defstruct("Probe", [(name, int)], rename="camel").__struct_encode_fields__[0]


def annotation(schema: Schema) -> str:
    ref = ref_of(schema)
    if ref:
        return SCALARS[ref][0] if ref in SCALARS else class_name(ref)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    match kind:
        case "array":
            return f"list[{annotation(schema['items'])}]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {annotation(schema['additionalProperties'])}]"
        case "object":
            return "dict[str, Any]"
        case "string":
            return "bytes" if schema.get("format") == "byte" else "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
    raise SystemExit(f"no Python type for {schema}")


def field_line(wire: str, schema: Schema, later: set[str]) -> str:
    name = python_name(wire)
    of = annotation(schema)
    of = of if of == "Any" else f"{of} | None"
    if later & set(re.findall(r"[A-Za-z0-9]+", of)):
        of = f'"{of}"'
    value = "None" if renamed(name) == wire else f'field(default=None, name="{wire}")'
    return f"    {name}: {of} = {value}"


def gvk_of(schema: Schema) -> tuple[str, str, str] | None:
    found = schema.get("x-kubernetes-group-version-kind")
    return (found[0]["group"], found[0]["version"], found[0]["kind"]) if found else None


def class_text(name: str, schema: Schema, later: set[str]) -> list[str]:
    gvk = gvk_of(schema)
    properties: dict[str, Schema] = schema.get("properties", {})
    if gvk and gvk[2].endswith("List") and "items" in properties:
        item = class_name(ref_of(properties["items"]["items"]) or "")
        head = f"class {class_name(name)}(ObjectList[{item}]):"
        return [head, f"    gvk = GroupVersionKind{json.dumps(gvk).replace('[', '(').replace(']', ')')}"]
    lines = [f"class {class_name(name)}({'MetaObject' if gvk else 'Struct'}):"]
    skipped: set[str] = set()
    if gvk:
        lines += [f"    gvk = GroupVersionKind{json.dumps(gvk).replace('[', '(').replace(']', ')')}", ""]
        skipped = {"apiVersion", "kind", "metadata"}
        if ref_of(properties["metadata"]) != META + "ObjectMeta":
            raise SystemExit(f"{name} is a kind without ordinary metadata")
    lines += [field_line(wire, child, later) for wire, child in properties.items() if wire not in skipped]
    return lines if len(lines) > 1 else [*lines, "    pass"]


def in_order(names: list[str], definitions: dict[str, Schema]) -> list[str]:
    """Sort classes after the classes that they refer to, as far as possible."""
    ordered: list[str] = []
    seen: set[str] = set()
    own = set(names)

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        for ref in sorted(set(references(definitions[name]))):
            if ref in own:
                visit(ref)
        ordered.append(name)

    for name in sorted(names):
        visit(name)
    return ordered


def module_text(home: Home, names: list[str], definitions: dict[str, Schema], group: str) -> str:
    classes = [name for name in names if name not in SCALARS and name not in HAND_WRITTEN]
    body: list[str] = []
    pending = set(classes)
    imports: dict[str, set[str]] = {}
    for name in in_order(classes, definitions):
        later = {class_name(one) for one in pending}
        text = class_text(name, definitions[name], later)
        body += ["", "", *text]
        pending.discard(name)
        for ref in references(definitions[name]):
            if ref in SCALARS or ref in pending or (home_of(ref) == home and not in_meta(ref)):
                continue
            source = (
                "kubewright.api.meta"
                if in_meta(ref)
                else f"kubewright.api.{package(home_of(ref))}.{home_of(ref).version}"
            )
            imports.setdefault(source, set()).add(class_name(ref))
    code = "\n".join(body)
    words = set(re.findall(r"\w+", code))
    for source, candidates in (
        ("kubewright.api.gvk", {"GroupVersionKind"}),
        ("kubewright.api.meta", {"MetaObject", "ObjectList"}),
        ("kubewright.api.objects", {"Struct", "field"}),
        ("kubewright.api.values.quantity", {"Quantity"}),
        ("kubewright.api.values.times", {"Duration", "MicroTime", "Time"}),
    ):
        imports.setdefault(source, set()).update(candidates & words)
    imports["kubewright.api.meta"] &= words
    own = {class_name(name) for name in classes}
    clash = own & set().union(*imports.values())
    if clash:
        raise SystemExit(f"{home}: {clash} would be both imported and defined")
    head = [
        f'"""Types of `{group}/{home.version}`.'
        if group
        else f'"""Types of `{home.version}`, the core group.'
    ]
    head += ["", "Written by tools/generate_builtins.py; change that instead.", '"""', ""]
    if "Any" in words:
        head += ["from typing import Any", ""]
    head += [
        f"from {source} import {', '.join(sorted(found))}"
        for source, found in sorted(imports.items())
        if found
    ]
    exported = own | ({"ObjectReference"} if "io.k8s.api.core.v1.ObjectReference" in names else set())
    tail = ["", "", f"__all__ = {json.dumps(sorted(exported))}", ""]
    return "\n".join(head) + code + "\n".join(tail)


def outputs(definitions: dict[str, Schema]) -> dict[Path, str]:
    homes: dict[Home, list[str]] = {}
    groups: dict[Home, str] = {}
    for name, schema in definitions.items():
        home = home_of(name)
        homes.setdefault(home, []).append(name)
        gvk = gvk_of(schema)
        if gvk:
            groups.setdefault(home, gvk[0])
    keys = list_keys(definitions)
    files: dict[Path, str] = {}
    for home, names in sorted(homes.items()):
        files[API / "schemas" / f"{home.group}.{home.version}.json"] = schema_file(names, definitions, keys)
        if home.group != "meta":
            group = groups[home]
            files[API / package(home) / "__init__.py"] = (
                f'"""Built-in types of the `{group or "core"}` group."""\n'
            )
            files[API / package(home) / f"{home.version}.py"] = module_text(home, names, definitions, group)
    return files


def enumerations_file(one: Release) -> str:
    """Return JSON with one type per line."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in one.enumerations.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def formatted(path: Path, text: str) -> str:
    if path.suffix != ".py":
        return text
    ruff = Path(sys.executable).with_name("ruff")
    for arguments in (["check", "--fix-only", "--select", "I,RUF022", "--quiet"], ["format", "--quiet"]):
        command = [str(ruff), *arguments, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", help="clone of the repository of Kubernetes")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    arguments = parser.parse_args()
    sources = sources_folder(arguments.sources)
    if sources is None:
        raise SystemExit("no sources; use --sources CLONE, or set KUBERNETES_SOURCES")
    check = arguments.check
    stale = 0
    newest = release(sources, NEWEST)
    files = {**outputs(definitions_of(newest)), **wire_tables.tables(newest)}
    files[API / "enumerations.json"] = enumerations_file(newest)
    for folder in ("schemas", "wire"):
        for path in sorted({*(API / folder).glob("*.json")} - files.keys()):
            stale += 1
            print(f"{'stale' if check else 'removing'} {path.relative_to(API.parent)}")
            if not check:
                path.unlink()
    for path, raw in files.items():
        text = formatted(path, raw)
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        print(f"{'stale' if check else 'writing'} {path.relative_to(API.parent)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    print(f"{len(files)} files, {stale} {'stale' if check else 'written'}")
    if check and stale:
        raise SystemExit("run: python tools/generate_builtins.py")


if __name__ == "__main__":
    main()
