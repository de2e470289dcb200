"""`kubewright export`: writes the objects of a cluster to a file, redacted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import add_project_to_path, relative_paths
from kubewright.cli.redaction_key import redaction_key_option

if TYPE_CHECKING:
    from kubewright.api.declaring.declarations import Rbac


@click.command("export")
@click.argument("operator", required=False, metavar="[MODULE:OPERATOR]")
@kubeconfig_options
@click.option(
    "--output",
    "-o",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write: JSON, compressed if its name ends with .gz.",
)
@click.option(
    "--kind", "kinds", multiple=True, metavar="NAME", help="Kind to read, such as deploy; repeat it."
)
@click.option(
    "--namespace", "-n", "namespaces", multiple=True, help="Namespace to read; repeat it.  [default: all]"
)
@redaction_key_option
@click.option("--include-secrets", is_flag=True, help="Redact nothing.")
def export_command(
    operator: str | None,
    kubeconfig: str | None,
    context: str,
    path: Path,
    kinds: tuple[str, ...],
    namespaces: tuple[str, ...],
    redaction_key: bytes | None,
    include_secrets: bool,
) -> None:
    """Write the objects of a cluster to a file, for kubewright plan and kubewright replay.

    With an operator, the kinds that it watches, owns or refers to are read, and what decides about its
    requests: CRDs, webhooks, policies, quotas and RBAC. Otherwise all kinds are read. Only lists are sent to
    the cluster. Values of Secrets and environment variables, tokens, passwords and last-applied
    configurations are replaced by placeholders; equal values have equal placeholders.

    \b
    Example:
      kubewright export shop:operator --context staging -o staging.json.gz
      kubewright export --kind shops.example.com --kind deploy -n shop -o shop.json
    """
    from kubewright.cli.snapshot_source import read_context
    from kubewright.recording.redaction import Redactor
    from kubewright.rehearse.export_files import write_export
    from kubewright.rehearse.kind_selection import KindSelection

    if operator and kinds:
        raise click.UsageError("MODULE:OPERATOR and --kind cannot be used together")
    selection = KindSelection()
    if operator:
        add_project_to_path()
        selection = KindSelection.of_rules(operator_rules(operator))
    snapshot = read_context(
        context,
        kubeconfig=kubeconfig,
        selection=selection,
        kinds=kinds,
        redactor=None if include_secrets else Redactor(redaction_key),
        namespaces=namespaces,
    )
    try:
        write_export(snapshot, path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    for note in snapshot.notes:
        click.echo(f"Warning: {note}", err=True)
    redacted = "" if include_secrets else ", redacted"
    click.echo(f"{len(snapshot)} objects{redacted} written to {path}", err=True)


def operator_rules(operator: str) -> list[Rbac]:
    """Return the RBAC rules of an operator."""
    from kubewright.explore.simulation.factories import FactoryError, ModuleFactory
    from kubewright.manifests.project import read_project

    try:
        factory = ModuleFactory(operator)
        factory()
    except FactoryError as error:
        raise click.ClickException(relative_paths(error)) from None
    return list(read_project(factory.modules).permissions)
