"""`init_from_kopf`: start a project from the handlers of a kopf module.

The module is read, not imported or changed. The project gets a type for each resource, from its
CustomResourceDefinition if one is given, a module `handlers.py` with a function for each handler, and
`MIGRATION.md` with what each handler becomes. The bodies of the handlers are ported by hand.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kubewright.api.builtin.resources import resource_at
from kubewright.api.gvk import GroupVersionResource
from kubewright.scaffold.additions.crd_api import add_crd
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.init import init_project
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput
from kubewright.scaffold.layout import module_file
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import COPY
from kubewright.scaffold.types.python_names import class_name, field_names, singular

from .kopf_handlers import KopfHandler, KopfModule, KopfResource, read_kopf_module

_TEST: Final = """from kubewright.testing import RunningOperator

from {package}.operator import operator


async def test_operator_starts(running_operator: RunningOperator) -> None:
    manager = await running_operator(operator)
    assert manager.ready
"""


def init_from_kopf(
    directory: Path, source: Path, project: ProjectInputs, *, crds: Sequence[Mapping[str, Any]] = ()
) -> Changes:
    """Create a project for the handlers of a module; `crds` are the definitions of their resources."""
    try:
        module = read_kopf_module(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScaffoldError(f"cannot read {source}: {error.strerror}") from None
    except SyntaxError as error:
        raise ScaffoldError(f"{source}:{error.lineno}: {error.msg}") from None
    if not module.handlers:
        raise ScaffoldError(f"{source} has no kopf handlers")
    created = init_project(directory, project)
    writer = FileWriter(directory, ScaffoldLock.read(directory))
    kinds: dict[KopfResource, tuple[str, str]] = {}
    for resource in module.resources:
        kinds[resource] = _builtin_kind(resource) or _add_kind(writer, resource, module, crds)
    handlers = f"src/{project.package}/handlers.py"
    writer.create(handlers, _handlers_source(source, module, kinds), COPY)
    writer.create("tests/test_handlers.py", _TEST.format(package=project.package), COPY)
    writer.create("MIGRATION.md", _report(source, module, kinds, handlers), COPY)
    writer.changes.next += [f"port the bodies of the handlers in {handlers}; see MIGRATION.md", "pytest"]
    changes = writer.commit()
    changes.created[:0] = created.created
    return changes


def _builtin_kind(resource: KopfResource) -> tuple[str, str] | None:
    row = resource_at(GroupVersionResource(resource.group, resource.version, resource.plural))
    if row is None:
        return None
    group = row.gvk.group.partition(".")[0] or "core"
    return f"kubewright.api.{group}.{row.gvk.version}", row.gvk.kind


def _add_kind(
    writer: FileWriter, resource: KopfResource, module: KopfModule, crds: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    """Add the type of a custom resource, and return its module and name."""
    for crd in crds:
        names = crd["spec"]["names"]
        if (crd["spec"]["group"], names["plural"]) == (resource.group, resource.plural):
            added = add_crd(writer, crd, controller=False, external=False)
            found = next((each for each in added if each.version == resource.version), added[0])
            return f".{found.module}", found.kind
    project = writer.lock.project
    if not resource.group:
        raise ScaffoldError(
            f"the handlers do not name the group of {resource.plural}; pass its definition with --crds FILE"
        )
    below = resource.group == project.domain or resource.group.endswith(f".{project.domain}")
    inputs = ResourceInput(
        group=resource.group.removesuffix(f".{project.domain}") if below else resource.group,
        domain=project.domain if below else "",
        version=resource.version,
        kind=class_name(singular(resource.plural)),
        plural=resource.plural,
        controller=False,
    )
    text = _type_source(resource, inputs.kind, module.spec_fields)
    writer.create(module_file(project, inputs, inputs.module), text, COPY)
    writer.lock.put(inputs)
    return f".{inputs.module}", inputs.kind


def _type_source(resource: KopfResource, kind: str, fields: Mapping[str, Any]) -> str:
    """Return a module with the fields that handlers read; other fields are preserved."""
    from kubewright.scaffold.types.schema_types import TypeBuilder

    builder = TypeBuilder()
    types = {str: "string", bool: "boolean", int: "integer"}
    preserve: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
    properties = {
        name: {"type": types[type(default)], "default": default} if type(default) in types else dict(preserve)
        for name, default in fields.items()
    }
    for schema in properties.values():
        if schema.get("type") == "integer":
            schema["format"] = "int64"
    builder.reserve(kind)
    schema = {"type": "object", "properties": properties, **preserve, "description": "Desired state."}
    spec = builder.struct(schema, f"{kind}Spec", kind, base="Spec")
    status = builder.struct(
        {"type": "object", **preserve, "description": "Observed state."}, f"{kind}Status", kind, base="Status"
    )
    for name in ("CustomResource", "resource"):
        builder.use(name)
    imports = "\n".join(
        f"from {module} import {', '.join(sorted(names, key=lambda name: (name[0].islower(), name.lower())))}"
        for module, names in sorted(builder.imports.items(), reverse=True)
    ).replace("\nfrom kubewright", "\n\nfrom kubewright")
    classes = "\n\n".join(builder.classes)
    return (
        f'"""{kind} {resource.group}/{resource.version}: add the fields of its schema."""\n\n'
        f"from __future__ import annotations\n\n{imports}\n\n\n{classes}\n\n"
        f'@resource(group="{resource.group}", version="{resource.version}", plural="{resource.plural}")\n'
        f'class {kind}(CustomResource[{spec}, {status}]):\n    """A {kind}."""\n'
    )


def _handlers_source(source: Path, module: KopfModule, kinds: Mapping[KopfResource, tuple[str, str]]) -> str:
    by_function: dict[str, list[KopfHandler]] = {}
    for handler in module.handlers:
        by_function.setdefault(handler.function, []).append(handler)
    names = field_names(by_function)
    functions: list[str] = []
    used = {"Context": "kubewright"}
    for function, handlers in by_function.items():
        text = _function_source(source, names[function], handlers, kinds, used)
        if text:
            functions.append(text)
    return (
        f'"""Handlers of {source.name}, with the same names; MIGRATION.md lists them."""\n\n'
        f"from __future__ import annotations\n\n{_imports(used, kinds.values())}\n\n\n"
        + "\n\n".join(functions)
    )


def _imports(used: Mapping[str, str], kinds: Iterable[tuple[str, str]]) -> str:
    modules: dict[str, set[str]] = {}
    for name, module in used.items():
        modules.setdefault(module, set()).add(name)
    for module, name in kinds:
        modules.setdefault(module, set()).add(name)
    absolute = [module for module in sorted(modules) if not module.startswith(".")]
    relative = sorted([module for module in modules if module.startswith(".")] + [".operator"])
    modules[".operator"] = {"operator"}
    lines = [f"from {module} import {', '.join(sorted(modules[module]))}" for module in absolute]
    return "\n".join(
        [*lines, "", *(f"from {each} import {', '.join(sorted(modules[each]))}" for each in relative)]
    )


def _function_source(
    source: Path,
    name: str,
    handlers: Sequence[KopfHandler],
    kinds: Mapping[KopfResource, tuple[str, str]],
    used: dict[str, str],
) -> str:
    """Return a function with the decorators of its handlers; empty if all of them are without equivalent."""
    decorators: list[str] = []
    kind = ""
    for handler in handlers:
        kind = kinds[handler.resource][1] if handler.resource is not None else ""
        decorator = handler.decorator(kind)
        if decorator is not None and (kind or handler.resource is None):
            decorators.append(decorator)
    if not decorators:
        return ""
    events = {handler.event for handler in handlers}
    variable = kind.lower() if kind.lower().isidentifier() and not keyword.iskeyword(kind.lower()) else "obj"
    doc = f'    """Port of {handlers[0].function} ({source.name}:{handlers[0].line})."""\n'
    if events & {"on.startup", "on.cleanup"}:
        return f"{decorators[0]}\nasync def {name}() -> None:\n{doc}"
    if "on.validate" in events:
        used["FieldError"] = "kubewright"
        head = f"def {name}({variable}: {kind}, old: {kind} | None) -> list[FieldError]:\n"
        return f"{decorators[0]}\n{head}{doc}    return []\n"
    if "on.mutate" in events:
        return f"{decorators[0]}\ndef {name}({variable}: {kind}) -> None:\n{doc}"
    if "index" in events:
        return f"{decorators[0]}\ndef {name}({variable}: {kind}) -> list[str]:\n{doc}    return []\n"
    head = f"async def {name}({variable}: {kind}, ctx: Context[{kind}]) -> None:\n"
    return "\n".join(decorators) + f"\n{head}{doc}"


def _report(
    source: Path,
    module: KopfModule,
    kinds: Mapping[KopfResource, tuple[str, str]],
    handlers: str,
) -> str:
    lines = [
        f"# Migration of {source.name}\n",
        f"Each handler of `{source.name}` is a function with the same name in `{handlers}`. The kopf module",
        "was not changed. Delete this file when the bodies are ported.\n",
        "| Handler | kopf | Kubewright | Note |",
        "|---|---|---|---|",
    ]
    for handler in module.handlers:
        kind = kinds[handler.resource][1] if handler.resource is not None else ""
        decorator = handler.decorator(kind)
        lines.append(
            f"| `{handler.function}` (line {handler.line}) | `@kopf.{handler.event}` "
            f"{handler.resource or ''} | {f'`{decorator}`' if decorator else '-'} | {handler.note} |"
        )
    lines += [
        "",
        "Handlers for creation, update and resume of one resource often do the same: replace them by one",
        "`@operator.reconcile(Kind)`, which is called with the current object after any change.",
    ]
    return "\n".join(lines) + "\n"


__all__ = ["init_from_kopf"]
