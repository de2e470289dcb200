"""What kinds, fields, features and rules need of a cluster, compared with versions of Kubernetes.

    for lack in lacks_of_object(deployment, parse_versions("1.33-1.37")):
        print(lack)     # spec.template.spec.hostnameOverride: Kubernetes 1.33 lacks the field

A field whose feature gate is disabled by default exists, but an API server drops it. Objects of other groups
than those of Kubernetes are not compared.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from kubewright.api.builtin.resources import resources
from kubewright.api.builtin.schemas import definition_name
from kubewright.api.builtin.types import types_of
from kubewright.api.encoding.codec import to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.kubernetes_version import KubernetesVersion, supported, version_table
from kubewright.api.objects import Struct
from kubewright.cel.compatibility import FUNCTIONS, first_version
from kubewright.schema.pruning import declares, prune
from kubewright.schema.structural import Node

Versions = Sequence[KubernetesVersion]


@dataclass(frozen=True)
class Lack:
    """Something that is used, and that some versions do not have."""

    subject: str
    """A kind, a path of a field, a resource or a function."""
    versions: tuple[str, ...]
    reason: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: Kubernetes {', '.join(self.versions)} {self.reason}"


def lacks_of_object(obj: Mapping[str, Any] | Struct, versions: Versions, where: str = "") -> Iterator[Lack]:
    """Compare the kind and the fields of an object."""
    plain = to_plain(obj) if isinstance(obj, Struct) else obj
    gvk = GroupVersionKind.from_api_version(plain.get("apiVersion") or "", plain.get("kind") or "")
    having = [version for version in supported() if _row(gvk, version)]
    if not having:
        return
    yield from lacks_of_kind(gvk, versions, where)
    absent: dict[str, list[str]] = {}
    disabled: dict[tuple[str, str], list[str]] = {}
    for version in versions:
        if version not in having:
            continue
        types = types_of(version)
        name = definition_name(gvk)
        for path in prune(_copy(plain), Node(types.enabled_definitions[name], types.enabled_definitions)):
            if declares(Node(types.definitions[name], types.definitions), path):
                gate = _gate_of(name, path, version)
                disabled.setdefault((path, gate), []).append(str(version))
            elif any(declares(_node(gvk, other), path) for other in having):
                absent.setdefault(path, []).append(str(version))
    for path, names in absent.items():
        yield Lack(f"{gvk.kind}.{path}", tuple(names), "lacks the field", where)
    for (path, gate), names in disabled.items():
        reason = f"drops the field, because the feature gate {gate} is disabled by default"
        yield Lack(f"{gvk.kind}.{path}", tuple(names), reason, where)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _row(gvk: GroupVersionKind, version: KubernetesVersion) -> Any:
    return next((row for row in resources(version) if row.gvk == gvk), None)


def _node(gvk: GroupVersionKind, version: KubernetesVersion) -> Node:
    definitions = types_of(version).definitions
    return Node(definitions[definition_name(gvk)], definitions)


def _gate_of(root: str, path: str, version: KubernetesVersion) -> str:
    """Return the disabled gate of the last field of a path."""
    field = path.rpartition(".")[2].partition("[")[0]
    gates = version.gates()
    found = (
        gate
        for fields in version_table()["gated fields"].values()
        for name, gate in fields.items()
        if name == field and gate in gates and not gates[gate].enabled
    )
    return next(found, "")


def lacks_of_kind(gvk: GroupVersionKind, versions: Versions, where: str = "") -> Iterator[Lack]:
    """Compare a kind; kinds that no version has are custom ones."""
    if not any(_row(gvk, version) for version in supported()):
        return
    subject = f"{gvk.api_version}, Kind={gvk.kind}"
    rows = {version: _row(gvk, version) for version in versions}
    yield from _as_lack(
        subject, [version for version, row in rows.items() if row is None], "lacks the kind", where
    )
    off = [version for version, row in rows.items() if row is not None and not row.served_by_default]
    reason = (
        f"does not serve it by default; start kube-apiserver with --runtime-config={gvk.api_version}=true"
    )
    yield from _as_lack(subject, off, reason, where)


def lacks_of_rule(
    groups: Iterable[str], names: Iterable[str], versions: Versions, where: str = ""
) -> Iterator[Lack]:
    """Compare the resources of an RBAC rule; resources that no version has are custom ones."""
    names = list(names)
    for group in ("" if each == "core" else each for each in groups):
        known = {version: _resources(group, version) for version in supported()}
        for name in names:
            if not any(name in each for each in known.values()):
                continue
            missing = [version for version in versions if name not in known[version]]
            yield from _as_lack(
                f"{name}.{group}" if group else name, missing, "does not serve the resource", where
            )


def _resources(group: str, version: KubernetesVersion) -> set[str]:
    rows = [row for row in resources(version) if row.gvk.group == group and row.served_by_default]
    return {row.plural for row in rows} | {
        f"{row.plural}/{part.name}" for row in rows for part in row.subresources
    }


def lacks_of_expression(expression: str, versions: Versions, where: str = "") -> Iterator[Lack]:
    """Compare the functions of a CEL expression."""
    for library, functions in FUNCTIONS.items():
        first = first_version(library)
        for function in functions:
            if f"{function}(" in expression.replace(" ", "") and _calls(expression, function):
                missing = [version for version in versions if version < first]
                yield from _as_lack(
                    f"CEL function {function}", missing, "does not accept it in new expressions", where
                )


def _calls(expression: str, function: str) -> bool:
    text = expression.replace(" ", "")
    before = text[text.index(f"{function}(") - 1] if text.index(f"{function}(") else ""
    return not (before.isalnum() or before == "_")


def _as_lack(subject: str, versions: list[KubernetesVersion], reason: str, where: str) -> Iterator[Lack]:
    if versions:
        yield Lack(subject, tuple(map(str, versions)), reason, where)


def lacks_of_definition(definition: Mapping[str, Any], versions: Versions) -> Iterator[Lack]:
    """Compare the CEL rules of a CustomResourceDefinition."""
    name = definition["metadata"]["name"]
    for version in definition["spec"].get("versions") or ():
        waiting: list[Any] = [(version.get("schema") or {}).get("openAPIV3Schema")]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, Mapping):
                for rule in schema.get("x-kubernetes-validations") or ():
                    for text in (rule.get("rule"), rule.get("messageExpression")):
                        yield from lacks_of_expression(text or "", versions, name)
                waiting += [*schema.values()]
            elif isinstance(schema, list):
                waiting += schema


def lacks_of_source(modules: Iterable[ModuleType], versions: Versions) -> Iterator[Lack]:
    """Compare the fields of built-in types that modules set, as in `PodSpec(hostname_override=...)`."""
    for module in modules:
        try:
            source, file = inspect.getsource(module), inspect.getsourcefile(module)
        except (OSError, TypeError):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                cls = _named(node.func, vars(module))
                if cls is not None:
                    yield from _lacks_of_call(node, cls, versions, file or module.__name__)


def _named(node: ast.expr, names: Mapping[str, Any]) -> type[Struct] | None:
    """Return the built-in type that an expression names."""
    if isinstance(node, ast.Attribute):
        owner = names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        found = getattr(owner, node.attr, None) if owner is not None else None
    else:
        found = names.get(node.id) if isinstance(node, ast.Name) else None
    is_builtin = isinstance(found, type) and issubclass(found, Struct) and found.__module__.startswith(_API)
    return found if is_builtin else None


_API: Final = "kubewright.api."


def _lacks_of_call(node: ast.Call, cls: type[Struct], versions: Versions, file: str) -> Iterator[Lack]:
    group, _, version = cls.__module__.removeprefix(_API).partition(".")
    group = "resource" if group == "resources" else group
    end = f".{group}.{version}.{cls.__name__}"
    wire = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    used = {wire[word.arg] for word in node.keywords if word.arg in wire}
    where = f"{file}:{node.lineno}"
    gvk = getattr(cls, "gvk", None)
    if isinstance(gvk, GroupVersionKind):
        yield from lacks_of_kind(gvk, versions, where)
    for section, reason in (("fields", "lacks the field"), ("gated fields", "")):
        fields: dict[str, str] = next(
            (each for name, each in version_table()[section].items() if name.endswith(end)), {}
        )
        for field in sorted(used & fields.keys()):
            subject = f"{cls.__name__}.{field}"
            if section == "fields":
                absent = [each for each in versions if not each.includes(fields[field])]
                yield from _as_lack(subject, absent, reason, where)
                continue
            gate = fields[field]
            off = [each for each in versions if gate in each.gates() and not each.gates()[gate].enabled]
            text = f"drops the field, because the feature gate {gate} is disabled by default"
            yield from _as_lack(subject, off, text, where)
