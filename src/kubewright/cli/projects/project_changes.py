"""Parts that the commands for projects share: find the project, generate manifests, print what was done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from kubewright.scaffold.files import Changes

F = TypeVar("F", bound=Callable[..., object])


def output_option(function: F) -> F:
    """Add the option `--output`."""
    option = click.option(
        "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
    )
    return option(function)


@contextmanager
def scaffold_errors() -> Iterator[None]:
    """Turn expected errors into one line on stderr."""
    from kubewright.scaffold.errors import ScaffoldError

    try:
        yield
    except ScaffoldError as error:
        raise click.ClickException(str(error)) from None


def find_project() -> Path:
    """Return the directory of the project that contains the current directory."""
    from kubewright.scaffold.errors import ScaffoldError
    from kubewright.scaffold.lock import LOCK_FILE

    here = Path.cwd()
    for each in (here, *here.parents):
        if (each / LOCK_FILE).is_file():
            return each
    raise ScaffoldError(f"{here} is not a scaffolded project; create one with kubewright init")


def generate_manifests(changes: Changes) -> None:
    """Generate `config` after a change; an error in a type of the user is a warning here."""
    from .manifests import write_project_manifests

    lists = {"created": changes.created, "changed": changes.changed, "removed": changes.removed}
    try:
        for path, change in write_project_manifests(changes.directory):
            lists[change].append(path.as_posix())
    except click.ClickException as error:
        changes.warnings.append(f"manifests were not generated: {error.message}")
        changes.next.insert(0, "kubewright manifests")


def print_changes(changes: Changes, output: str) -> None:
    """Print what a command did, and the commands to run next."""
    if output == "json":
        click.echo(json.dumps(changes.to_json()))
        return
    lines = [f"created {path}" for path in changes.created]
    lines += [f"moved {old} to {new}" for old, new in changes.moved.items()]
    lines += [f"changed {path}" for path in changes.changed]
    lines += [f"removed {path}" for path in changes.removed]
    lines += [
        f"kept {path}, which exists already" for path in changes.kept if not path.endswith("__init__.py")
    ]
    for line in lines:
        click.echo(line)
    for warning in changes.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if changes.next:
        click.echo("Next:\n" + "\n".join(f"  {each}" for each in changes.next))
