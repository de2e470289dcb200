"""`kubewright manifests`: writes, prints or checks the manifests of a project.

Options that are not on the command line come from `[tool.kubewright]` in `pyproject.toml`:

    [tool.kubewright]
    modules = ["guestbook"]

    [tool.kubewright.manifests]
    output = "config"
    max-description = 200
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from kubewright.cli.project_modules import add_project_to_path, missing_modules, relative_paths
from kubewright.manifests import (
    DeclarationError,
    Manifests,
    ManifestSettings,
    ProjectError,
    ProjectSettings,
    ProjectSettingsError,
    compare,
    generate,
    leftovers,
    load_project_of,
    remove_leftovers,
    write,
)
from kubewright.schema.generation.errors import Problem

UPDATE_ADVICE: Final = (
    "samples do not match the types; edit them, or run kubewright manifests --update-samples"
)


@click.command("manifests")
@click.argument("modules", nargs=-1)
@click.option("--output", "-o", metavar="DIR", help="Output directory, or - for stdout.  [default: config]")
@click.option(
    "--check", is_flag=True, help="Compare with existing files; print a diff and fail if they are outdated."
)
@click.option(
    "--update-samples",
    is_flag=True,
    help="Change the objects in config/samples so that they are valid for the current types.",
)
@click.option(
    "--max-description",
    type=click.IntRange(min=0),
    metavar="N",
    help="Truncate descriptions to N characters; 0 removes them.",
)
@click.option("--allow-floats/--no-allow-floats", default=None, help="Allow fields of type float.")
@click.option(
    "--embedded-object-meta/--no-embedded-object-meta",
    default=None,
    help="Include name, labels and annotations in the schema of embedded metadata.",
)
@click.option("--role-name", metavar="NAME", help="Name of the ClusterRole.  [default: manager-role]")
@click.option(
    "--header", metavar="FILE", help="Text file to prepend to every file as a comment, such as a license."
)
def manifests_command(modules: tuple[str, ...], check: bool, update_samples: bool, **options: Any) -> None:
    """Generate CRDs, RBAC roles and webhook configurations from the declarations in MODULES.

    MODULES are importable modules, or packages including their submodules. The default is `modules` of
    [tool.kubewright] in pyproject.toml. With [tool.kubewright.deployment], the directory contains everything
    to run the operator in a cluster, as a kustomization. The objects in config/samples are validated with the
    types.

    \b
    Example:
      kubewright manifests                     write config/
      kubewright manifests --check             fail if config/ is outdated
      kubewright manifests --update-samples    also adapt config/samples
    """
    if update_samples and check:
        raise click.UsageError("--update-samples changes files and --check does not; use one of them")
    project = _read_settings()
    settings = replace(
        project.manifests, **{name: value for name, value in options.items() if value is not None}
    )
    names = list(modules or project.modules)
    if not names:
        raise click.ClickException(missing_modules("manifests"))
    result = _generate(names, project, settings)
    output = settings.output
    for warning in result.messages:
        click.echo(f"Warning: {warning}", err=True)
    if not result.files:
        raise click.ClickException(
            f"no declarations found in {', '.join(names)}; decorate a class with @resource(...)"
        )
    if check:
        _check(result, output)
    elif output == "-":
        click.echo(_stream(result), nl=False)
    else:
        _write(result, Path(output), update=update_samples)


def sample_problems(manifests: Manifests, output: str) -> list[Problem]:
    """Return the problems of the samples below the output directory."""
    from kubewright.manifests.sample_checks import check_samples

    try:
        return check_samples(
            Path(output) / "samples", manifests.definitions, other_kinds=manifests.other_kinds
        )
    except ProjectError as error:
        raise click.ClickException(relative_paths(error)) from None


def warn_of_samples(manifests: Manifests, output: str) -> None:
    """Print a warning for each problem of a sample, and how to fix them."""
    problems = sample_problems(manifests, output)
    for problem in problems:
        click.echo(f"Warning: {relative_paths(problem)}", err=True)
    if problems:
        click.echo(f"Warning: {UPDATE_ADVICE}", err=True)


def write_project_manifests(root: Path) -> list[tuple[Path, str]]:
    """Write the manifests of the project in a directory.

    Return the files that changed, relative to it, each with `created`, `changed` or `removed`.
    """
    project = _read_settings(root)
    result = generate_project(project, root)
    directory = root / project.manifests.output
    names = (*result.files, *result.initial_files)
    existing = {directory / name for name in names if (directory / name).exists()}
    changes = [(path, "changed" if path in existing else "created") for path in write(result, directory)]
    changes += [(path, "removed") for path in remove_leftovers(result, directory)]
    return [(path.relative_to(root), change) for path, change in changes]


def _read_settings(directory: Path | str = ".") -> ProjectSettings:
    try:
        return ProjectSettings.find(directory)
    except ProjectSettingsError as error:
        raise click.ClickException(relative_paths(error)) from None


def generate_project(project: ProjectSettings, root: Path | None = None) -> Manifests:
    """Generate the manifests of a project in a directory; errors in declarations are printed."""
    if not project.modules:
        raise click.ClickException("no modules; set modules = [...] in [tool.kubewright] of pyproject.toml")
    return _generate(list(project.modules), project, project.manifests, root)


def _generate(
    names: list[str], project: ProjectSettings, settings: ManifestSettings, root: Path | None = None
) -> Manifests:
    add_project_to_path(root)
    try:
        header = ""
        if settings.header:
            header = ((root or Path()) / settings.header).read_text(encoding="utf-8")
        return generate(
            load_project_of(project, names),
            settings.schema_options,
            role_name=settings.role_name,
            header=header,
            settings=project,
        )
    except OSError as error:
        raise click.ClickException(f"cannot read header file: {error}") from None
    except ProjectError as error:
        raise click.ClickException(relative_paths(error)) from None
    except RecursionError:
        raise click.ClickException(
            "a declared type is nested too deeply; use kubewright.api.RawObject for arbitrary nesting"
        ) from None
    except DeclarationError as error:
        messages = [relative_paths(each) for each in error.problems]
        for message in messages:
            click.echo(message, err=True)
        count = len(messages)
        raise click.ClickException(f"{count} error{'s' if count > 1 else ''}; nothing was written") from None


def _stream(result: Manifests) -> str:
    """Return all objects as one YAML stream; a deployment in the order in which it can be applied."""
    if result.tree is None:
        return "".join(result.files.values())
    from kubewright.api.apply_order import in_apply_order
    from kubewright.manifests.yaml_output import to_compact_yaml

    objects = [each for file in result.tree.objects.values() for each in file]
    return to_compact_yaml(in_apply_order(objects))


def _check(result: Manifests, output: str) -> None:
    if output == "-":
        raise click.UsageError("--check requires a directory; set it with --output DIR")
    differences = list(compare(result, Path(output)))
    for difference in differences:
        click.echo(difference, nl=False)
    problems = sample_problems(result, output)
    for problem in problems:
        click.echo(relative_paths(problem))
    if differences:
        raise click.ClickException(
            f"{len(differences)} of {_files(len(result.files))} in {output} are outdated; "
            "run kubewright manifests"
        )
    if problems:
        raise click.ClickException(UPDATE_ADVICE)
    click.echo(f"{_files(len(result.files))} in {output} up to date", err=True)


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _write(result: Manifests, directory: Path, *, update: bool) -> None:
    from kubewright.manifests.sample_checks import update_samples

    try:
        changed = write(result, directory)
        if update:
            changed += update_samples(directory / "samples", result.definitions)
    except OSError as error:
        raise click.ClickException(f"cannot write to {directory}: {error.strerror or error}") from None
    for path in changed:
        click.echo(f"wrote {path}", err=True)
    for path in remove_leftovers(result, directory):
        click.echo(f"removed {path}", err=True)
    for path in leftovers(result, directory):
        click.echo(f"Warning: {path} is no longer generated; delete it", err=True)
    if not changed:
        click.echo(f"{_files(len(result.files))} in {directory} up to date", err=True)
    warn_of_samples(result, str(directory))
