"""Options of the commands that add a kind."""

from __future__ import annotations

import click

plural_option = click.option(
    "--plural", default="", help="Name of the resource.  [default: the plural of the kind]"
)
scope_option = click.option(
    "--scope",
    type=click.Choice(["Namespaced", "Cluster"]),
    default="Namespaced",
    show_default=True,
    help="Whether objects are in a namespace.",
)
