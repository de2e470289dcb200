"""Paths and modules of kinds, and the change between the layouts with one and with several API groups.

With one group, the modules of all kinds are in the package of the project. With several groups, each group
has a sub-package, in `src` as well as in `tests`:

    src/shop/shop_v1.py             src/shop/store/shop_v1.py
    src/shop/shop_controller.py     src/shop/store/shop_controller.py
    tests/test_shop_controller.py   tests/store/test_shop_controller.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from .errors import ScaffoldError
from .files import FileWriter
from .inputs import ProjectInputs, ResourceInput
from .source.python_edits import Import, rewrite_imports
from .templates import render_set


def template_fields(project: ProjectInputs, resource: ResourceInput | None = None) -> dict[str, str]:
    """Return the fields in the paths of templates."""
    if resource is None:
        return {"package": project.package}
    return {
        "package": project.package,
        "group": resource.group_package if project.multigroup else "",
        "stem": resource.stem,
        "version": resource.version,
    }


def template_variables(project: ProjectInputs, resource: ResourceInput | None = None) -> dict[str, object]:
    """Return the variables of templates."""
    if resource is None:
        return {"project": project}
    package = project.package
    if project.multigroup:
        package = f"{package}.{resource.group_package}"
    return {
        "project": project,
        "resource": resource,
        "package": package,
        "root": ".." if project.multigroup else ".",
    }


def module_file(project: ProjectInputs, resource: ResourceInput, module: str) -> str:
    """Return the path of a module of a kind."""
    group = f"{resource.group_package}/" if project.multigroup else ""
    return f"src/{project.package}/{group}{module}.py"


def template_folder(project: ProjectInputs, resource: ResourceInput) -> str:
    """Return the folder with the templates of a kind."""
    group = f"{resource.group_package}/" if project.multigroup else ""
    return f"src/{project.package}/{group}templates/{resource.stem}"


def change_layout(writer: FileWriter, *, multigroup: bool) -> None:
    """Move the modules of all kinds to the other layout, and rewrite the imports of the project."""
    project = writer.lock.project
    new_project = replace(project, multigroup=multigroup)
    groups = {each.group_package for each in writer.lock.resources}
    if not multigroup and len(groups) > 1:
        raise ScaffoldError(
            f"the project has {len(groups)} API groups ({', '.join(sorted(groups))}); a layout without "
            "--multigroup has one"
        )
    moves = _moves(writer, project, new_project)
    modules = {
        _module(old): _module(new)
        for old, new in moves.items()
        if old.endswith(".py") and old.startswith("src/")
    }
    for path in sorted(_python_files(writer)):
        target = moves.get(path, path)
        text = writer.read(path) or ""
        new_text = _rewrite(text, path, target, modules, project.package)
        if path in writer.lock.files:
            base = _rewrite(writer.lock.files[path].base, path, target, modules, project.package)
            writer.replace_base(path, base)
        if path in moves:
            writer.move(path, target, new_text)
        else:
            writer.replace(path, new_text)
    for path, target in moves.items():
        if not path.endswith(".py"):
            writer.move(path, target, writer.read(path) or "")
    writer.lock.project = new_project
    for resource in writer.lock.resources:
        package = replace(project, multigroup=True)
        name = module_file(package, resource, "__init__")
        if multigroup:
            rendered = render_set(
                "group",
                template_variables(package, resource),
                fields=template_fields(package, resource),
                plugins=project.templates,
            )
            for path, text in rendered.items():
                writer.keep_or_create(path, text, "group")
        else:
            writer.delete(name)


def _python_files(writer: FileWriter) -> list[str]:
    found = []
    for folder in (f"src/{writer.lock.project.package}", "tests"):
        for path in (writer.directory / folder).rglob("*.py"):
            found.append(path.relative_to(writer.directory).as_posix())
    return found


def _moves(writer: FileWriter, old: ProjectInputs, new: ProjectInputs) -> dict[str, str]:
    """Return the new paths of the modules and tests of all kinds."""
    moves = {}
    for resource in writer.lock.resources:
        for folder, prefix in ((f"src/{old.package}", ""), ("tests", "test_")):
            before = f"{folder}/{resource.group_package}" if old.multigroup else folder
            after = f"{folder}/{resource.group_package}" if new.multigroup else folder
            for path in (writer.directory / before).glob(f"{prefix}{resource.stem}_*.py"):
                if _belongs_to(path.stem.removeprefix(prefix), resource):
                    moves[f"{before}/{path.name}"] = f"{after}/{path.name}"
        example = f"{resource.stem}_example.yaml"
        sources = [f"tests/{resource.group_package}/" if each.multigroup else "tests/" for each in (old, new)]
        if resource.renderer and (writer.directory / sources[0] / example).is_file():
            moves[sources[0] + example] = sources[1] + example
        old_folder, new_folder = template_folder(old, resource), template_folder(new, resource)
        for path in (writer.directory / old_folder).rglob("*"):
            if resource.renderer and path.is_file():
                name = path.relative_to(writer.directory / old_folder).as_posix()
                moves[f"{old_folder}/{name}"] = f"{new_folder}/{name}"
    return moves


def _belongs_to(module: str, resource: ResourceInput) -> bool:
    rest = module.removeprefix(f"{resource.stem}_")
    return rest in ("api", "controller", "conversion") or rest.partition("_")[0] == resource.version


def _module(path: str) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts[1:])


def _rewrite(text: str, old_path: str, new_path: str, modules: dict[str, str], package: str) -> str:
    """Rewrite the imports of one file for moved modules and for its own new place."""
    in_source = old_path.startswith("src/")
    old_package = _module(old_path).rpartition(".")[0] if in_source else ""
    new_package = _module(new_path).rpartition(".")[0] if in_source else ""

    def transform(statement: Import) -> list[Import]:
        if not statement.is_from:
            names = tuple(_rename(name, modules) for name in statement.names)
            return [replace(statement, names=names)]
        source = _absolute(statement, old_package)
        moved: dict[str, list[str]] = {}
        for name in statement.names:
            imported = name.partition(" as ")[0]
            submodule = f"{source}.{imported}"
            target = (
                modules[submodule].rpartition(".")[0] if submodule in modules else modules.get(source, source)
            )
            moved.setdefault(target, []).append(name)
        return [
            _relative(target, tuple(names), new_package)
            if statement.level
            else Import(0, target, tuple(names))
            for target, names in moved.items()
        ]

    return rewrite_imports(text, transform, name=old_path, first_party=package)


def _rename(name: str, modules: dict[str, str]) -> str:
    module, separator, alias = name.partition(" as ")
    return f"{modules.get(module, module)}{separator}{alias}"


def _absolute(statement: Import, package: str) -> str:
    if not statement.level:
        return statement.module
    parts = package.split(".")
    base = parts[: len(parts) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _relative(target: str, names: tuple[str, ...], package: str) -> Import:
    """Return an import of an absolute module, relative to a package."""
    wanted, base = target.split("."), package.split(".")
    common = 0
    while common < min(len(wanted), len(base)) and wanted[common] == base[common]:
        common += 1
    return Import(len(base) - common + 1, ".".join(wanted[common:]), names)
