"""`kubewright docs`: writes the API reference of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubewright.cli.project_modules import add_project_to_path, missing_modules, relative_paths

from .crd_sources import definition_errors


@click.command("docs")
@click.argument("modules", nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html"]),
    default=None,
    help="Format of the page.  [default: by the name of the output, else markdown]",
)
@click.option("--output", "-o", default="docs/api.md", show_default=True, metavar="FILE", help="File, or -.")
@click.option("--title", default="API reference", show_default=True, help="Title of the page.")
@click.option(
    "--crds",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|DIR",
    help="Describe these CRDs instead of those that the modules declare.",
)
@click.option(
    "--check", is_flag=True, help="Compare with the existing file and fail if it is outdated; write nothing."
)
def docs_command(
    modules: tuple[str, ...], form: str | None, output: str, title: str, crds: Path | None, check: bool
) -> None:
    """Write a reference of the kinds in MODULES: fields, types, defaults, validations, CEL rules, examples.

    The default of MODULES is `modules` of [tool.kubewright] in pyproject.toml. Examples are the objects in
    the samples directory of the manifests.

    \b
    Example:
      kubewright docs
      kubewright docs --output public/api.html
    """
    from kubewright.manifests.api_reference import describe_kinds, to_html, to_markdown

    form = form or ("html" if output.endswith((".html", ".htm")) else "markdown")
    definitions, samples = _definitions(modules, crds)
    kinds = describe_kinds(definitions, samples)
    text = (to_html if form == "html" else to_markdown)(kinds, title=title)
    if output == "-":
        click.echo(text, nl=False)
        return
    path = Path(output)
    found = path.read_text(encoding="utf-8") if path.is_file() else None
    if found == text:
        click.echo(f"{output} is up to date", err=True)
        return
    if check:
        raise click.ClickException(f"{output} is outdated; run kubewright docs --output {output}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(f"wrote {output}", err=True)


def _definitions(
    modules: tuple[str, ...], crds: Path | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the definitions to describe, and the sample objects of the project."""
    from kubewright.client.manifest_files import read_manifests
    from kubewright.manifests import (
        DeclarationError,
        Options,
        ProjectError,
        ProjectSettings,
        ProjectSettingsError,
        load_project_of,
    )
    from kubewright.manifests.deployment.apiserver import served_definitions
    from kubewright.scaffold.check import CheckError, definitions_of, directory_definitions
    from kubewright.scaffold.types.from_crd import read_crds

    try:
        settings = ProjectSettings.find()
        folder = settings.directory / settings.manifests.output / "samples"
        with definition_errors():
            has_samples = any(folder.glob("*.yaml")) if folder.is_dir() else False
            samples = [each.data for each in read_manifests(folder)] if has_samples else []
            if crds is not None:
                found = directory_definitions(crds) if crds.is_dir() else read_crds(crds)
                return found, samples
        if not (modules or settings.modules):
            raise click.UsageError(missing_modules("docs"))
        add_project_to_path()
        options = Options(
            allow_floats=settings.manifests.allow_floats,
            embedded_object_meta=settings.manifests.embedded_object_meta,
        )
        project = load_project_of(settings, modules)
        apps = {id(each.app): each.app for each in project.api_servers}.values()
        served = [each for app in apps for each in served_definitions(app)]
        return [*definitions_of(project, options), *served], samples
    except DeclarationError as error:
        for problem in error.problems:
            click.echo(relative_paths(problem), err=True)
        raise click.ClickException("the types are invalid; nothing was written") from None
    except (CheckError, ProjectError, ProjectSettingsError) as error:
        raise click.ClickException(relative_paths(error)) from None
