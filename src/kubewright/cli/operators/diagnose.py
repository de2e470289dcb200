"""`kubewright diagnose`: writes a redacted archive for a bug report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import relative_paths

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("diagnose")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("diagnosis.tar.gz"),
    show_default=True,
    help="File to write.",
)
@click.option("--namespace", "-n", help="Namespace of the operator.  [default: that of the project]")
@click.option(
    "--lines", type=click.IntRange(min=1), default=2000, show_default=True, help="Log lines per container."
)
@click.option("--no-cluster", is_flag=True, help="Write versions and settings only; connect to no cluster.")
@kubeconfig_options
def diagnose_command(
    output: Path, namespace: str | None, lines: int, no_cluster: bool, kubeconfig: str | None, context: str
) -> None:
    """Write versions, settings, objects and logs of an operator into one file for a bug report.

    Values of Secrets are not read into the file; environment variables, tokens, keys and passwords in objects
    and logs are replaced by placeholders. Read the file before you publish it: names, images and log messages
    stay as they are.

    \b
    Example:
      kubewright diagnose
      kubewright diagnose --namespace shop-system --output shop.tar.gz
    """
    from kubewright.cli.operators.diagnosis import Diagnosis
    from kubewright.cli.project_deployment import run_on_cluster
    from kubewright.manifests import ProjectSettings, ProjectSettingsError
    from kubewright.recording.redaction import Redactor

    try:
        settings = ProjectSettings.find()
    except ProjectSettingsError as error:
        raise click.ClickException(relative_paths(error)) from None
    diagnosis = Diagnosis(Redactor())
    diagnosis.add_environment()
    if settings.path is not None:
        diagnosis.add_settings(_plain(settings))
    where = namespace or (f"{settings.name}-system" if settings.path is not None else None)
    if not no_cluster and where is None:
        raise click.UsageError("not in a project; name the namespace of the operator with --namespace")

    async def collect(client: Client) -> None:
        assert where is not None
        await diagnosis.add_cluster(client, namespace=where, group=settings.domain, lines=lines)

    if not no_cluster:
        run_on_cluster(collect, kubeconfig=kubeconfig, context=context)
    try:
        diagnosis.write(output)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror or error}") from None
    for each in diagnosis.errors:
        click.echo(f"Warning: not in the file: {each}", err=True)
    click.echo(f"wrote {output}: {len(diagnosis.files)} files; read it before you publish it", err=True)


def _plain(settings: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {key: value for key, value in asdict(settings).items() if key not in ("path", "directory")}
