"""The options of commands that connect to a cluster: which kubeconfig, and which of its contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def kubeconfig_options(command: CommandT) -> CommandT:
    """Add `--kubeconfig` and `--context`."""
    add_context = click.option(
        "--context", default="", help="Context of the kubeconfig.  [default: current-context]"
    )
    add_kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Kubeconfig file.  [default: $KUBECONFIG, ~/.kube/config]",
    )
    return add_kubeconfig(add_context(command))
