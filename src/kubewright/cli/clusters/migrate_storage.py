"""`kubewright migrate-storage`: stores all objects of CRDs in their storage version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import ProjectDeployment, run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.storage_migration import StorageMigration


@click.command("migrate-storage")
@click.argument("crds", nargs=-1, metavar="[CRD]...")
@kubeconfig_options
@click.option("--dry-run", is_flag=True, help="Count the objects; change nothing.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
def migrate_storage_command(
    crds: tuple[str, ...], kubeconfig: str | None, context: str, dry_run: bool, output: str
) -> None:
    """Store all objects of CRDs in the storage version, and update status.storedVersions.

    CRD is a name such as shops.store.example.com; the default is all CRDs of the project. Run it after the
    storage version has changed, and before the old version is removed. It does what a
    StorageVersionMigration does, in clusters without one, and can be repeated.

    \b
    Example:
      kubewright migrate-storage
      kubewright migrate-storage shops.store.example.com --context staging
    """
    names = list(crds)
    if not names:
        definitions = ProjectDeployment.load(needs_deployment=False).definitions
        names = [
            each["metadata"]["name"] for each in definitions if each["kind"] == "CustomResourceDefinition"
        ]
    if not names:
        raise click.UsageError("the project has no CRD; name one")
    results: list[StorageMigration] = []

    async def main(client: Client) -> None:
        from kubewright.client.storage_migration import StorageMigrationError, migrate_storage

        for name in names:
            try:
                result = await migrate_storage(client, name, dry_run=dry_run)
            except StorageMigrationError as error:
                raise click.ClickException(str(error)) from None
            results.append(result)
            if output == "text":
                click.echo(_line(result, dry_run=dry_run))

    run_on_cluster(main, kubeconfig=kubeconfig, context=context)
    if output == "json":
        rows = [
            {
                "crd": each.crd,
                "version": each.version,
                "objects": each.objects,
                "previousStoredVersions": list(each.previous),
            }
            for each in results
        ]
        click.echo(json.dumps(rows, indent=2))


def _line(result: StorageMigration, *, dry_run: bool) -> str:
    if not result.is_needed:
        return f"{result.crd}: all objects are stored in {result.version}"
    count = f"{result.objects} object{'s' if result.objects != 1 else ''}"
    done = "to store" if dry_run else "stored"
    return f"{result.crd}: {count} {done} in {result.version} (stored versions: {', '.join(result.previous)})"
