"""`kubewright undecodable`: lists stored objects that cannot be decoded, and deletes them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.storage import Storage

Found = dict[str, str]
"""Keys of objects that cannot be decoded, with the cause."""


@click.command("undecodable")
@click.option(
    "--store",
    help="Read a store without a server: sqlite:PATH, etcd://HOST:PORT or postgresql://HOST/DATABASE.  "
    "[default: ask the server of the kubeconfig]",
)
@click.option(
    "--encryption-provider-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="EncryptionConfiguration of the objects in --store.",
)
@kubeconfig_options
@click.option("--delete", "keys", multiple=True, metavar="KEY", help="Delete this object; repeat the option.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before anything is deleted.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
def undecodable_command(
    store: str | None,
    encryption_provider_config: Path | None,
    kubeconfig: str | None,
    context: str,
    keys: tuple[str, ...],
    yes: bool,
    output: str,
) -> None:
    """List stored objects that cannot be decoded, or delete some of them.

    Such objects are damaged, or encrypted with a key that is missing. Restore the key or a backup if you can:
    --delete removes them without finalizers and admission, and can break what depends on them.

    \b
    Example:
      kubewright undecodable
      kubewright undecodable --delete /registry/secrets/default/token
      kubewright undecodable --store sqlite:cluster.db --encryption-provider-config encryption.yaml
    """
    if store is None and encryption_provider_config is not None:
        raise click.UsageError("--encryption-provider-config requires --store")
    if store is not None and (kubeconfig or context):
        raise click.UsageError("--store reads a store without a server; omit --kubeconfig and --context")
    command = _Command(keys, yes=yes, output=output)
    if store is None:
        run_on_cluster(command.run_on_server, kubeconfig=kubeconfig, context=context)
    else:
        _run_on_store(command, store, encryption_provider_config)


class _Command:
    def __init__(self, keys: Sequence[str], *, yes: bool, output: str) -> None:
        self._keys = tuple(dict.fromkeys(keys))
        self._yes = yes
        self._output = output

    async def run_on_server(self, client: Client) -> None:
        from kubewright.client.undecodable_objects import delete_undecodable, find_undecodable

        result = await find_undecodable(client)
        for resource, error in result.unlisted.items():
            click.echo(f"Warning: {resource} could not be listed: {error}", err=True)
        for resource in result.truncated:
            click.echo(f"Warning: {resource}: the server names only the first objects", err=True)
        objects = {each.key: each for each in result.objects}

        async def delete(key: str) -> None:
            await delete_undecodable(client, objects[key])

        complete = not result.unlisted and not result.truncated
        await self._run({key: each.cause for key, each in objects.items()}, delete, complete=complete)

    async def run_on_storage(self, storage: Storage) -> None:
        from kubewright.controlplane.undecodable_values import find_undecodable_values
        from kubewright.storage.contract import RevisionMismatch

        values, encrypted = await find_undecodable_values(storage)
        if encrypted:
            click.echo(
                f"Warning: {len(encrypted)} encrypted objects were not checked; add "
                "--encryption-provider-config",
                err=True,
            )
        for key in self._keys:
            if key in encrypted:
                raise click.ClickException(
                    f"{key} is encrypted and was not checked; add --encryption-provider-config"
                )
        revisions = {each.key: each.revision for each in values}

        async def delete(key: str) -> None:
            try:
                await storage.delete(key, expected=revisions[key])
            except RevisionMismatch:
                raise click.ClickException(f"{key} was changed and is not deleted; try again") from None

        await self._run({each.key: each.cause for each in values}, delete, complete=not encrypted)

    async def _run(self, found: Found, delete: Callable[[str], Awaitable[None]], *, complete: bool) -> None:
        if not self._keys:
            self._show(found, complete)
            return
        for key in self._keys:
            if key not in found:
                raise click.ClickException(
                    f"{key} is not an object that cannot be decoded; list them without --delete"
                )
        self._confirm()
        for key in self._keys:
            await delete(key)
            click.echo(f"deleted {key}")

    def _show(self, found: Found, complete: bool) -> None:
        if self._output == "json":
            rows = [{"key": key, "cause": cause} for key, cause in sorted(found.items())]
            click.echo(json.dumps(rows, indent=2))
        elif not found:
            click.echo(f"all {'' if complete else 'other '}objects can be decoded")
        for key, cause in sorted(found.items()) if self._output == "text" else ():
            click.echo(f"{key}: {cause}")

    def _confirm(self) -> None:
        if self._yes:
            return
        for key in self._keys:
            click.echo(f"delete {key}", err=True)
        if not sys.stdin.isatty():
            raise click.ClickException("nothing was deleted; confirm the list above with --yes")
        click.confirm("Delete these objects without finalizers and admission?", abort=True, err=True)


def _run_on_store(command: _Command, url: str, encryption: Path | None) -> None:
    from kubewright.storage import StorageError, open_storage

    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        raise click.ClickException("memory: is not a store that can be read later")
    if scheme == "sqlite" and not Path(rest.removeprefix("//")).exists():
        raise click.ClickException(f"the store {rest.removeprefix('//')} does not exist")

    async def main() -> None:
        storage = open_storage(url)
        if encryption is not None:
            from kubewright.controlplane.encryption import EncryptedStorage

            storage = EncryptedStorage.from_config(storage, encryption)
        async with storage:
            await command.run_on_storage(storage)

    from kubewright.controlplane.configuration.config_file import ConfigFileError

    try:
        asyncio.run(main())
    except (StorageError, ConfigFileError) as error:
        raise click.ClickException(str(error)) from None
