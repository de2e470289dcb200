"""`kubewright backup`: writes the state of a store to a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--store", required=True, help="Storage: sqlite:PATH, etcd://HOST:PORT or postgresql://HOST/DATABASE."
)
def backup_command(file: Path, store: str) -> None:
    """Write a backup of a store to FILE, also while a server uses it.

    The backup is a SQLite file with all current objects and credentials as of one revision. Its checksums are
    verified.

    \b
    Example:
      kubewright backup --store sqlite:cluster.db cluster.backup
    """
    from kubewright.storage import StorageError, backup

    try:
        revision = asyncio.run(backup(store, file))
    except StorageError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"wrote {file}: revision {revision}, {file.stat().st_size} bytes")
