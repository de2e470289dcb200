"""Render template sets.

A template set is a directory of jinja2 templates: `init` for a project, `api` for a kind, `image` for a kind
with an operand Deployment, `template` for a kind with templates of its own, `webhook` and `conversion`. The
path of a template is that of the generated file, with the suffix `.j2` and fields in braces:
`src/{package}/{group}/{stem}_controller.py.j2`. An empty field removes its part of the path. A template that
renders to nothing generates no file. The imports of Python files are sorted, so that templates need not
depend on the order of names.

Templates have the variables `project` (`ProjectInputs`), `resource` (`Resource`), `kubewright` (the version)
and those that commands add. `group` is the package of the API group in a project with several groups, and
`root` the relative package of `operator.py`.

A plug-in adds templates, or replaces those with the same path:

    [project.entry-points."kubewright.templates"]
    acme = "acme_templates:plugin"

    plugin = TemplatePlugin(Path(__file__).parent / "templates", variables={"team": "storage"})

A project uses it after `kubewright init --templates acme`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import kubewright

from .errors import ScaffoldError
from .source.python_edits import sort_imports

if TYPE_CHECKING:
    from jinja2 import Environment

LICENSES: Final = {"apache2": "Apache-2.0", "mit": "MIT"}
"""SPDX identifiers of the licenses of projects."""
ENTRY_POINTS: Final = "kubewright.templates"
BUILT_IN: Final = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class TemplatePlugin:
    """A directory of template sets, and variables for them."""

    directory: Path
    variables: Mapping[str, Any] = field(default_factory=dict)


def load_plugins(names: Sequence[str]) -> list[TemplatePlugin]:
    """Return installed template plug-ins by the names of their entry points."""
    if not names:
        return []
    from importlib.metadata import entry_points

    installed = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    plugins = []
    for name in names:
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none"
            raise ScaffoldError(f"no template plug-in named {name!r} is installed; installed: {known}")
        try:
            plugin = installed[name].load()
        except Exception as error:
            raise ScaffoldError(f"cannot load the template plug-in {name!r}: {error}") from None
        if not isinstance(plugin, TemplatePlugin):
            raise ScaffoldError(
                f"the entry point {name!r} of {ENTRY_POINTS} is a {type(plugin).__name__}; expected a "
                "kubewright.scaffold.TemplatePlugin"
            )
        plugins.append(plugin)
    return plugins


def render_set(
    name: str, variables: Mapping[str, Any], *, fields: Mapping[str, str], plugins: Sequence[str] = ()
) -> dict[str, str]:
    """Return the files of a template set by path; the first plug-in with a template takes precedence."""
    loaded = load_plugins(plugins)
    directories = [*(each.directory for each in loaded), BUILT_IN]
    values: dict[str, Any] = {"kubewright": kubewright.__version__}
    for plugin in reversed(loaded):
        values.update(plugin.variables)
    values.update(variables)
    found: dict[str, str] = {}
    for directory in directories:
        for template in _templates(directory, name):
            path = _output_path(template, fields)
            if path not in found:
                found[path] = _render(directory, f"{name}/{template}", values)
    first_party = fields.get("package", "")
    header = _license_header(variables.get("project"))
    return {
        path: header + sort_imports(text, name=path, first_party=first_party)
        if path.endswith(".py")
        else text
        for path, text in sorted(found.items())
        if text.strip()
    }


def _license_header(project: Any) -> str:
    """Return the comment at the top of Python files; empty without a license and an owner."""
    identifier = LICENSES.get(getattr(project, "license", ""))
    if identifier is None or not project.owner:
        return ""
    return (
        f"# SPDX-FileCopyrightText: {project.year} {project.owner}\n"
        f"# SPDX-License-Identifier: {identifier}\n\n"
    )


def _templates(directory: Path, name: str) -> list[str]:
    root = directory / name
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.j2"))


def _output_path(template: str, fields: Mapping[str, str]) -> str:
    try:
        parts = [part.format_map(fields) for part in template.removesuffix(".j2").split("/")]
    except (KeyError, ValueError) as error:
        raise ScaffoldError(f"template {template}: unknown field {error} in its path") from None
    return "/".join(part for part in parts if part)


@lru_cache
def _environment(directory: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(  # noqa: S701 - the templates generate source code, not HTML
        loader=FileSystemLoader(directory),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _render(directory: Path, template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError

    try:
        return _environment(directory).get_template(template).render(values)
    except TemplateError as error:
        raise ScaffoldError(f"{directory / template}: {error}") from None
