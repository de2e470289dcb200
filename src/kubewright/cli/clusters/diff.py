"""`kubewright diff`: prints what changed in an embedded control plane between two moments."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

from .history_requests import MOMENT, request_history

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("diff")
@click.option(
    "--from", "before", type=MOMENT, required=True, help="Revision, time (RFC 3339), or duration before now."
)
@click.option("--to", "after", type=MOMENT, help="The same, for the end.  [default: the current revision]")
@click.option("--kind", "kinds", multiple=True, help="Only objects of this kind; can be repeated.")
@click.option("--managed-fields", is_flag=True, help="Show metadata.managedFields, too.")
@kubeconfig_options
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
def diff_command(
    before: str,
    after: str | None,
    kinds: tuple[str, ...],
    managed_fields: bool,
    kubeconfig: str | None,
    context: str,
    output: str,
) -> None:
    """Print the objects that differ between two revisions or times of a control plane, as a unified diff.

    The server must have been started with `kubewright up --history`. Values of Secrets are replaced by
    placeholders, which differ if the values do.

    \b
    Example:
      kubewright diff --from 1200 --to 1260
      kubewright diff --from 5m --kind Deployment
    """
    names = {each.lower() for each in kinds}

    async def run(client: Client) -> None:
        from kubewright.rehearse import Redactor

        last = after or str((await request_history(client, "GET", limit="1"))["revision"])
        found = await request_history(client, "GET", "/diff", **{"from": before, "to": last})
        redactor = Redactor(secrets_only=True)
        changes = []
        for each in found["changes"]:
            sides = [each["before"], each["after"]]
            if names and str((sides[0] or sides[1]).get("kind")).lower() not in names:
                continue
            changes.append([_shown(side, redactor, managed_fields) for side in sides])
        if output == "json":
            pairs = [{"before": one, "after": other} for one, other in changes]
            click.echo(json.dumps({"from": found["from"], "to": found["to"], "changes": pairs}))
            return
        for one, other in changes:
            click.echo(_difference(one, other, found["from"], found["to"]), nl=False)
        count = len(changes)
        objects = f"{count} object{'' if count == 1 else 's'}"
        click.echo(f"{objects} changed from revision {found['from']} to {found['to']}", err=True)

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


def _shown(obj: Any, redactor: Any, managed_fields: bool) -> Any:
    if obj is None:
        return None
    obj = redactor.redact(obj)
    if not managed_fields:
        obj["metadata"] = {name: each for name, each in obj["metadata"].items() if name != "managedFields"}
    return obj


def _difference(before: Any, after: Any, first: int, last: int) -> str:
    from kubewright.manifests import to_yaml

    metadata = (before or after)["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    name = f"{(before or after)['kind']}/{place}{metadata['name']}"
    texts = [to_yaml([each]) if each is not None else "" for each in (before, after)]
    return "".join(
        difflib.unified_diff(
            texts[0].splitlines(keepends=True),
            texts[1].splitlines(keepends=True),
            f"{name} (revision {first})" if before is not None else "/dev/null",
            f"{name} (revision {last})" if after is not None else "/dev/null",
        )
    )
