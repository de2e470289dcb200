"""Where the objects of a plan come from: a cluster of the kubeconfig, or an export."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.api.declaring.declarations import Rbac
    from kubewright.recording.redaction import Redactor
    from kubewright.rehearse.kind_selection import KindSelection
    from kubewright.rehearse.snapshot import ClusterSnapshot


def read_source(
    source: str, *, kubeconfig: str | None, rules: Sequence[Rbac] | None, namespaces: Sequence[str] = ()
) -> ClusterSnapshot:
    """Return the objects of a context, a kubeconfig file or an export.

    Of a cluster, Secrets are redacted; reports redact everything else. `rules` select the kinds, `None` all.
    """
    from kubewright.recording.redaction import Redactor
    from kubewright.rehearse.export_files import SUFFIXES, read_export
    from kubewright.rehearse.kind_selection import KindSelection
    from kubewright.rehearse.snapshot import SnapshotError

    path = Path(source)
    if path.exists() and not _is_kubeconfig(path):
        try:
            return read_export(path)
        except SnapshotError as error:
            raise click.ClickException(str(error)) from None
    if not path.exists() and path.name.endswith(SUFFIXES):
        raise click.ClickException(f"{path} does not exist; write it with: kubewright export -o {path}")
    selection = KindSelection() if rules is None else KindSelection.of_rules(rules)
    return read_context(
        "" if path.exists() else source,
        kubeconfig=str(path) if path.exists() else kubeconfig,
        selection=selection,
        redactor=Redactor(secrets_only=True),
        namespaces=namespaces,
    )


def read_context(
    context: str,
    *,
    kubeconfig: str | None,
    selection: KindSelection | None = None,
    kinds: Sequence[str] = (),
    redactor: Redactor | None,
    namespaces: Sequence[str] = (),
) -> ClusterSnapshot:
    """Return the objects of a cluster: of a selection, of kinds by name, or all of them.

    Expected errors become one line.
    """
    from kubewright.api.errors import APIError
    from kubewright.client import Client, load_config
    from kubewright.client.errors import ConfigError, ConnectionFailed
    from kubewright.rehearse.cluster_reader import read_cluster
    from kubewright.rehearse.kind_selection import KindSelection
    from kubewright.rehearse.snapshot import SnapshotError

    async def read() -> ClusterSnapshot:
        config = load_config(kubeconfig, context=context)
        click.echo(f"cluster {config.server}, {config.source}", err=True)
        async with Client.connect(config) as client:
            wanted = selection or KindSelection()
            if kinds:
                wanted = KindSelection.of_names(kinds, await client.mapper.resources())
            return await read_cluster(
                client,
                wanted,
                redactor=redactor,
                namespaces=namespaces,
                source=context or config.server,
                on_resource=_progress if sys.stderr.isatty() else None,
            )

    try:
        return asyncio.run(read())
    except (APIError, ConfigError, ConnectionFailed, SnapshotError, ValueError, TimeoutError) as error:
        raise click.ClickException(str(error)) from None


def _progress(name: str, count: int) -> None:
    click.echo(f"\r\x1b[K{count} {name}", err=True, nl=False)


def _is_kubeconfig(path: Path) -> bool:
    """Whether a file is a kubeconfig, which names a cluster."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
    return (b"clusters:" in head and b"kind: Config" in head) or b'"kind":"Config"' in head.replace(b" ", b"")
