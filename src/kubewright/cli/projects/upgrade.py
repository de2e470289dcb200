"""`kubewright upgrade`: merges the files of newer templates into a project."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from .project_changes import find_project, output_option, print_changes, scaffold_errors

if TYPE_CHECKING:
    from kubewright.scaffold.upgrade import UpgradePlan

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("upgrade")
@click.option("--yes", "-y", is_flag=True, help="Apply the changes without asking.")
@click.option("--dry-run", is_flag=True, help="Print the changes; write nothing.")
@output_option
def upgrade_command(yes: bool, dry_run: bool, output: str) -> None:
    """Bring the generated files of a project up to the installed version of Kubewright.

    What the templates changed since is merged into your files. The changes are printed as a diff, and applied
    after you confirm them. Changes to the same lines are marked as conflicts, as git does. Files that you
    deleted stay deleted. The exit code is 1 if there are conflicts, or changes that were not confirmed.

    \b
    Example:
      pip install --upgrade kubewright
      kubewright upgrade
    """
    import kubewright
    from kubewright.scaffold.upgrade import plan_upgrade

    with scaffold_errors():
        plan = plan_upgrade(find_project())
    if output == "text":
        _print_plan(plan)
    if plan.files and not (yes or dry_run) and (output == "json" or not sys.stdin.isatty()):
        if output == "json":
            _print_json(plan, applied=False)
        count = _count(len(plan.files), "file")
        raise click.ClickException(f"{count} to change; apply the changes with kubewright upgrade --yes")
    removes = True
    applies = not dry_run
    if plan.files and applies and not yes:
        applies = click.confirm("Apply these changes?")
        removes = bool(applies and plan.removals) and click.confirm(
            f"Remove {', '.join(each.name for each in plan.removals)}?", default=True
        )
        if not applies:
            raise click.ClickException("nothing was written")
    if not applies:
        if output == "json":
            _print_json(plan, applied=False)
        return
    with scaffold_errors():
        changes = plan.apply(remove=removes)
    if plan.conflicts:
        changes.next += [f"resolve the conflict at {place}" for place in plan.conflicts]
    if plan.files:
        changes.next += ["kubewright manifests", "pytest"]
    if output == "json":
        _print_json(plan, applied=True)
    else:
        print_changes(changes, output)
        if not plan.files:
            click.echo(f"all generated files are up to date with kubewright {kubewright.__version__}")
    if plan.conflicts:
        raise click.ClickException(f"{_count(len(plan.conflicts), 'conflict')} to resolve")


def _print_plan(plan: UpgradePlan) -> None:
    for line in plan.diff().splitlines():
        click.echo(click.style(line, fg=_COLORS.get(line[:1])))
    for name, reason in plan.kept.items():
        click.echo(f"kept {name}: {reason}", err=True)
    for place in plan.conflicts:
        click.echo(f"conflict at {place}", err=True)


def _print_json(plan: UpgradePlan, *, applied: bool) -> None:
    document = {
        "directory": str(plan.directory),
        "applied": applied,
        "files": [each.to_json() for each in plan.files],
        "kept": plan.kept,
        "conflicts": plan.conflicts,
    }
    click.echo(json.dumps(document, indent=2))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
