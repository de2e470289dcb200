"""`kubewright check`: checks the code of a project and its compatibility with a released version."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import add_project_to_path, missing_modules, relative_paths

if TYPE_CHECKING:
    from kubewright.api.kubernetes_version import KubernetesVersion
    from kubewright.client import Client
    from kubewright.manifests import Change, Options, Project, ProjectSettings
    from kubewright.scaffold.check import Finding


@click.command("check")
@click.argument("modules", nargs=-1)
@click.option(
    "--against",
    metavar="REVISION|FILE|DIR|cluster",
    help="Compare the CRDs with a git revision, with files, or with those in the cluster.",
)
@click.option(
    "--crds",
    type=click.Path(exists=True),
    metavar="FILE|DIR",
    help="Compare these CRDs instead of those that the modules declare; the code is not checked.",
)
@click.option(
    "--kubernetes",
    default="",
    metavar="VERSIONS",
    help="Report kinds, fields, features and rules that versions of Kubernetes lack, as in 1.33-1.37.",
)
@click.option(
    "--manifests",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="FILE|DIR",
    help="Manifests to compare with --kubernetes, in addition to the code; can be repeated.",
)
@click.option(
    "--recording",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Requests that a RequestRecorder has written in a test, to compare with --kubernetes.",
)
@click.option("--strict", is_flag=True, help="Treat new enum values as breaking, and warnings as errors.")
@click.option("--all", "show_all", is_flag=True, help="Print compatible changes as well.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@kubeconfig_options
def check_command(
    modules: tuple[str, ...],
    against: str | None,
    crds: str | None,
    kubernetes: str,
    manifests: tuple[Path, ...],
    recording: tuple[Path, ...],
    strict: bool,
    show_all: bool,
    output: str,
    kubeconfig: str | None,
    context: str,
) -> None:
    """Check declarations, permissions and CRD compatibility of a project.

    Reports what `kubewright manifests` would reject, client calls that no RBAC rule allows, and objects in
    config/samples that the types reject. With
    --against, it compares the CRDs with released ones and classifies each change as breaking or compatible.
    With --kubernetes, it reports what versions of Kubernetes lack. The exit code is 0 without errors, 1 with
    errors or breaking changes, and 2 for wrong usage.

    \b
    Example:
      kubewright check
      kubewright check --kubernetes 1.33-1.37 --manifests config
      kubewright check --against v1.2.0
      kubewright check --crds config/crd --against cluster
    """
    from kubewright.manifests import DeclarationError, compare_definitions
    from kubewright.scaffold.check import check_project, definitions_of, directory_definitions
    from kubewright.scaffold.check_versions import check_files, check_versions
    from kubewright.scaffold.types.from_crd import read_crds

    if crds is not None and against is None:
        raise click.UsageError("--crds requires --against")
    if (manifests or recording) and not kubernetes:
        raise click.UsageError("--manifests and --recording require --kubernetes")
    settings = _settings()
    findings: list[Finding] = []
    versions = _versions(kubernetes)
    with _errors():
        if crds is not None:
            current = directory_definitions(Path(crds)) if Path(crds).is_dir() else read_crds(crds)
        else:
            project, options = _project(modules, settings)
            findings = check_project(project, options, samples=Path(settings.manifests.output) / "samples")
            if versions:
                findings += check_versions(project, options, versions)
            try:
                current = definitions_of(project, options) if against is not None else []
            except DeclarationError:
                # The findings contain the errors; there is nothing to compare.
                current, against = [], None
        for path in (*manifests, *recording):
            findings += check_files(path, versions)
        changes: list[Change] = []
        if against is not None:
            released = _released(against, settings, current, kubeconfig, context)
            changes = compare_definitions(released, current, strict=strict)
    failures = sum(change.breaking for change in changes)
    failures += sum(strict or finding.severity == "error" for finding in findings)
    if output == "json":
        _print_json(findings, changes)
    else:
        _print_text(findings, changes, against=against, show_all=show_all)
    if failures:
        raise SystemExit(1)


def _versions(text: str) -> list[KubernetesVersion]:
    from kubewright.api.kubernetes_version import parse_versions

    try:
        return parse_versions(text) if text else []
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--kubernetes") from None


def _settings() -> ProjectSettings:
    from kubewright.manifests import ProjectSettings, ProjectSettingsError

    try:
        return ProjectSettings.find()
    except ProjectSettingsError as error:
        raise click.ClickException(str(error)) from None


def _project(modules: tuple[str, ...], settings: ProjectSettings) -> tuple[Project, Options]:
    from kubewright.manifests import load_project_of

    if not (modules or settings.modules):
        raise click.UsageError(missing_modules("check"))
    add_project_to_path()
    return load_project_of(settings, modules), settings.manifests.schema_options


class _errors:  # noqa: N801  (a context manager that reads as a statement)
    """Report expected errors in one line."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from kubewright.client.errors import ManifestError
        from kubewright.manifests import ProjectError
        from kubewright.scaffold.check import CheckError
        from kubewright.scaffold.types.from_crd import CRDError

        if isinstance(error, CheckError | CRDError | ManifestError | ProjectError):
            raise click.ClickException(relative_paths(error)) from None


def _released(
    against: str,
    settings: ProjectSettings,
    current: list[dict[str, Any]],
    kubeconfig: str | None,
    context: str,
) -> list[dict[str, Any]]:
    from kubewright.scaffold.check import released_definitions

    if against != "cluster":
        return released_definitions(against, Path.cwd(), output=settings.manifests.output)
    from kubewright.api.encoding.codec import to_plain
    from kubewright.cli.project_deployment import run_on_cluster

    names = {each["metadata"]["name"] for each in current}
    found: list[dict[str, Any]] = []

    async def read(client: Client) -> None:
        async for each in client.list("customresourcedefinitions.apiextensions.k8s.io"):
            if each.metadata.name in names:
                found.append(to_plain(each))

    run_on_cluster(read, kubeconfig=kubeconfig, context=context)
    return found


def _print_json(findings: list[Finding], changes: list[Change]) -> None:
    document = {
        "findings": [
            {
                "severity": each.severity,
                "where": relative_paths(each.where),
                "subject": each.subject,
                "message": relative_paths(each.message),
            }
            for each in findings
        ],
        "changes": [
            {
                "crd": each.crd,
                "version": each.version,
                "path": each.path,
                "check": each.check,
                "compatibility": each.compatibility,
                "reason": each.reason,
            }
            for each in changes
        ],
    }
    click.echo(json.dumps(document, indent=2))


def _print_text(
    findings: list[Finding], changes: list[Change], *, against: str | None, show_all: bool
) -> None:
    for finding in findings:
        prefix = "Error" if finding.severity == "error" else "Warning"
        click.echo(f"{prefix}: {relative_paths(finding)}")
    breaking = [change for change in changes if change.breaking]
    shown = changes if show_all else breaking
    if shown:
        _print_table(shown)
    if against is None:
        errors = sum(finding.severity == "error" for finding in findings)
        if not findings:
            click.echo("no problems found", err=True)
        elif errors:
            click.echo(f"{errors} error{'s' if errors != 1 else ''}", err=True)
        return
    compatible = len(changes) - len(breaking)
    more = "; print the compatible ones with --all" if compatible and not show_all else ""
    click.echo(
        f"{len(breaking)} breaking and {compatible} compatible changes against {against}{more}", err=True
    )


def _print_table(changes: list[Change]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("CRD", "VERSION", "FIELD", "CLASS", "CHANGE"):
        table.add_column(name, overflow="fold")
    for change in changes:
        style = "red" if change.breaking else ""
        table.add_row(
            change.crd,
            change.version,
            change.path,
            f"[{style}]{change.compatibility}[/]" if style else "compatible",
            change.reason,
        )
    console = Console(width=None if sys.stdout.isatty() else 1000)
    console.print(table)
