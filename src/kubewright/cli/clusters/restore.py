"""`kubewright restore`: makes a store equal to a backup."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--store", required=True, help="Storage: sqlite:PATH, etcd://HOST:PORT or postgresql://HOST/DATABASE."
)
def restore_command(file: Path, store: str) -> None:
    """Restore the backup FILE to a store, also while a server uses it.

    Only differences are written, with new revisions, so that watches and caches of clients stay correct. A
    damaged SQLite store is replaced and kept as PATH.damaged.

    \b
    Example:
      kubewright restore --store sqlite:cluster.db cluster.backup
    """
    from kubewright.storage import StorageError, restore

    try:
        result = asyncio.run(restore(store, file))
    except StorageError as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"restored {file}: {result.written} keys written, {result.deleted} deleted, "
        f"{result.unchanged} unchanged"
    )
