"""`init_from_kopf`: start a project from the handlers of a kopf module.

The module is read, not imported or changed. The project gets a type for each resource, from its
CustomResourceDefinition if one is given, a module `handlers.py` with a function for each handler, and
`MIGRATION.md` with what each handler becomes. The bodies of the handlers are ported by hand.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubewright.api.builtin.resources import resources as builtin_resources
from kubewright.api.builtin.schemas import module_of
from kubewright.scaffold.additions.crd_api import add_crd
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.init import prepare_project
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput
from kubewright.scaffold.layout import module_file
from kubewright.scaffold.render import COPY
from kubewright.scaffold.types.from_crd import check_crd
from kubewright.scaffold.types.python_names import class_name, field_names, singular

from .kopf_handlers import KopfHandler, KopfModule, KopfResource, read_kopf_module

_ONE_PER_KIND: Final = ("on.delete", "on.validate", "on.mutate")
"""Handlers of which a kind has one function."""
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
    writer = prepare_project(directory, project)
    types = _KopfTypes(writer, module, crds)
    # Handlers that name a version decide which one a type has.
    resources = sorted(module.resources, key=lambda each: not each.version)
    kinds = {resource: types.find(resource) for resource in resources}
    ported = list(_port(module, kinds, project))
    handlers = f"src/{project.package}/handlers.py"
    writer.create(handlers, _handlers_source(source, ported, kinds.values()), COPY)
    writer.create("tests/test_handlers.py", _TEST.format(package=project.package), COPY)
    writer.create("MIGRATION.md", _report(source, ported, handlers), COPY)
    writer.changes.next += [f"port the bodies of the handlers in {handlers}; see MIGRATION.md", "pytest"]
    return writer.commit()


class _KopfTypes:
    """The types of the resources of handlers: built-in ones, and those that are added to the project."""

    def __init__(self, writer: FileWriter, module: KopfModule, crds: Sequence[Mapping[str, Any]]) -> None:
        self._writer = writer
        self._module = module
        self._crds = crds
        self._added: dict[str, list[ResourceInput]] = {}
        """The versions that were added, by the name of the definition."""

    def find(self, resource: KopfResource) -> tuple[str, str]:
        """Return the module and the name of the type of a resource."""
        return self._defined(resource) or _builtin_type(resource) or self._create(resource)

    def _defined(self, resource: KopfResource) -> tuple[str, str] | None:
        for crd in self._crds:
            spec = crd["spec"]
            if not any(
                resource.matches(spec["group"], each["name"], _names(crd)) for each in spec["versions"]
            ):
                continue
            key = f"{spec['names']['plural']}.{spec['group']}"
            if key not in self._added:
                check_crd(crd)
                self._added[key] = add_crd(self._writer, crd, controller=False, external=False)
            added = self._added[key]
            found = next((each for each in added if each.version == resource.version), added[0])
            return f".{found.module}", found.kind
        return None

    def _create(self, resource: KopfResource) -> tuple[str, str]:
        """Add a type with the fields that handlers read."""
        project = self._writer.lock.project
        if not resource.group:
            raise ScaffoldError(
                f"the handlers do not name the group of {resource.name}; pass its definition with --crds FILE"
            )
        key = f"{resource.name.lower()}.{resource.group}"
        for known in self._added.setdefault(key, []):
            if resource.version in ("", known.version):
                return f".{known.module}", known.kind
        below = resource.group == project.domain or resource.group.endswith(f".{project.domain}")
        plural = resource.name.lower()
        inputs = ResourceInput(
            group=resource.group.removesuffix(f".{project.domain}") if below else resource.group,
            domain=project.domain if below else "",
            version=resource.version or "v1",
            kind=class_name(singular(plural)),
            plural=plural,
            controller=False,
        )
        text = _type_source(inputs, resource.group, self._module.spec_fields)
        self._writer.create(module_file(project, inputs, inputs.module), text, COPY)
        self._writer.lock.put(inputs)
        self._added[key].append(inputs)
        return f".{inputs.module}", inputs.kind


def _names(crd: Mapping[str, Any]) -> list[str]:
    """Return the names by which kopf finds the resources of a definition."""
    names = crd["spec"]["names"]
    single = (names.get("plural"), names.get("singular"), names.get("kind"))
    return [
        *(each for each in single if each),
        *(names.get("shortNames") or ()),
        *(names.get("categories") or ()),
    ]


def _builtin_type(resource: KopfResource) -> tuple[str, str] | None:
    for row in builtin_resources():
        names = (row.plural, row.singular, row.gvk.kind, *row.short_names)
        if resource.matches(row.gvk.group, row.gvk.version, names):
            return module_of(row.gvk), row.gvk.kind
    return None


def _type_source(inputs: ResourceInput, group: str, fields: Mapping[str, Any]) -> str:
    """Return a module with the fields that handlers read; other fields are preserved."""
    kind = inputs.kind
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
        f'"""{kind} {group}/{inputs.version}: add the fields of its schema."""\n\n'
        f"from __future__ import annotations\n\n{imports}\n\n\n{classes}\n\n"
        f'@resource(group="{group}", version="{inputs.version}", plural="{inputs.plural}")\n'
        f'class {kind}(CustomResource[{spec}, {status}]):\n    """{inputs.article.capitalize()} {kind}."""\n'
    )


@dataclass(frozen=True)
class _PortedHandler:
    """A handler, and what it becomes."""

    handler: KopfHandler
    kind: str
    decorator: str | None
    caller: str
    """The function that has to call this one, because a kind has only one with such a decorator."""

    @property
    def note(self) -> str:
        """What differs."""
        call = f"call it from `{self.caller}`" if self.caller else ""
        return "; ".join(each for each in (call, self.handler.note) if each)


def _port(
    module: KopfModule, kinds: Mapping[KopfResource, tuple[str, str]], project: ProjectInputs
) -> Iterator[_PortedHandler]:
    first: dict[tuple[str, str], str] = {}
    for handler in module.handlers:
        home, kind = kinds[handler.resource] if handler.resource is not None else ("", "")
        decorator = handler.decorator(kind) if kind or not handler.needs_resource else None
        caller = ""
        if decorator is not None and handler.event in _ONE_PER_KIND:
            caller = first.setdefault((handler.event, kind), handler.function)
            if caller == handler.function:
                caller = ""
            else:
                decorator = None
        if decorator is not None and handler.event == "on.delete" and not home.startswith("."):
            decorator = f'@operator.finalize({kind}, finalizer="{project.domain}/{project.name}")'
        yield _PortedHandler(handler, kind, decorator, caller)


def _handlers_source(source: Path, ported: Sequence[_PortedHandler], kinds: Iterable[tuple[str, str]]) -> str:
    by_function: dict[str, list[_PortedHandler]] = {}
    for each in ported:
        by_function.setdefault(each.handler.function, []).append(each)
    names = field_names(by_function)
    functions: list[str] = []
    used = {"Context": "kubewright"}
    for function, handlers in by_function.items():
        text = _function_source(source, names[function], handlers, used)
        if text:
            functions.append(text)
    return (
        f'"""Handlers of {source.name}, with the same names; MIGRATION.md lists them."""\n\n'
        f"from __future__ import annotations\n\n{_imports(used, kinds)}\n\n\n" + "\n\n".join(functions)
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


def _function_source(source: Path, name: str, ported: Sequence[_PortedHandler], used: dict[str, str]) -> str:
    """Return a function with the decorators of its handlers; empty if all of them are without equivalent."""
    decorators = "".join(f"{each.decorator}\n" for each in ported if each.decorator is not None)
    if not decorators and not any(each.caller for each in ported):
        return ""
    kind = ported[-1].kind
    events = {each.handler.event for each in ported}
    variable = kind.lower() if kind.lower().isidentifier() and not keyword.iskeyword(kind.lower()) else "obj"
    origin = ported[0].handler
    doc = f'    """Port of {origin.function} ({source.name}:{origin.line})."""\n'
    if events & {"on.startup", "on.cleanup"}:
        return f"{decorators}async def {name}() -> None:\n{doc}"
    if "on.validate" in events:
        used["FieldError"] = "kubewright"
        head = f"def {name}({variable}: {kind}, old: {kind} | None) -> list[FieldError]:\n"
        return f"{decorators}{head}{doc}    return []\n"
    if "on.mutate" in events:
        return f"{decorators}def {name}({variable}: {kind}) -> None:\n{doc}"
    if "index" in events:
        return f"{decorators}def {name}({variable}: {kind}) -> list[str]:\n{doc}    return []\n"
    head = f"async def {name}({variable}: {kind}, ctx: Context[{kind}]) -> None:\n"
    return f"{decorators}{head}{doc}"


def _report(source: Path, ported: Sequence[_PortedHandler], handlers: str) -> str:
    lines = [
        f"# Migration of {source.name}\n",
        f"Each handler of `{source.name}` is a function with the same name in `{handlers}`. The kopf module",
        "was not changed. Delete this file when the bodies are ported.\n",
        "| Handler | kopf | Kubewright | Note |",
        "|---|---|---|---|",
    ]
    for each in ported:
        handler, decorator = each.handler, each.decorator
        lines.append(
            f"| `{handler.function}` (line {handler.line}) | `@kopf.{handler.event}` "
            f"{handler.resource or ''} | {f'`{decorator}`' if decorator else '-'} | {each.note} |"
        )
    lines += [
        "",
        "Handlers for creation, update and resume of one resource often do the same: replace them by one",
        "`@operator.reconcile(Kind)`, which is called with the current object after any change.",
    ]
    return "\n".join(lines) + "\n"
