"""`kubewright rewind`: restores an earlier state of an embedded control plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

from .history_requests import MOMENT, request_history

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("rewind")
@click.option(
    "--to", type=MOMENT, help="Revision, time (RFC 3339), or duration before now, to which objects return."
)
@click.option("--list", "limit", is_flag=False, flag_value=20, type=int, help="Print the last changes.")
@kubeconfig_options
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
def rewind_command(
    to: str | None, limit: int | None, kubeconfig: str | None, context: str, output: str
) -> None:
    """Restore all objects of a control plane as they were at an earlier revision or time.

    The server must have been started with `kubewright up --history`. It continues from there: revisions grow,
    clients with watches receive the differences as changes, and what was undone stays in the history, so that
    a rewind can be undone, too. Leases and Events do not change.

    \b
    Example:
      kubewright rewind --list
      kubewright diff --from 1200
      kubewright rewind --to 1200
      kubewright rewind --to 5m
    """
    if (to is None) == (limit is None):
        raise click.UsageError("specify either --to or --list")

    async def run(client: Client) -> None:
        if to is None:
            found = await request_history(client, "GET", limit=str(limit))
            click.echo(json.dumps(found) if output == "json" else _table(found), nl=output == "json")
            return
        done = await request_history(client, "POST", "/rewind", to=to)
        if output == "json":
            click.echo(json.dumps(done))
        else:
            click.echo(
                f"rewound to revision {done['to']}: wrote {done['written']}, deleted {done['deleted']}; "
                f"the revision is now {done['revision']}"
            )

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


def _table(found: Any) -> str:
    rows = [("REVISION", "TIME", "CHANGE", "KEY")]
    rows += [
        (str(each["revision"]), each["time"] or "", each["operation"], each["key"])
        for each in reversed(found["changes"])
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "   ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    lines.append(f"revision {found['revision']}, history since {found['oldest']}")
    return "\n".join(lines) + "\n"
