"""Values of the options of `kubewright up`: callbacks that parse and check them.

Click calls each with the text of its option, before the command runs; an error names the option.
"""

from __future__ import annotations

from pathlib import Path

import click

from .access_options import split_list

DEFAULT_NODES = 1
"""Simulated nodes of a control plane with controllers."""


def parse_nodes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | Path:
    """Return the number of nodes, or the file that declares them."""
    if value is None:
        return DEFAULT_NODES if ctx.params["controllers"] else 0
    if value.isdecimal():
        return int(value)
    path = Path(value)
    if not path.is_file():
        raise click.BadParameter(f"{value!r}: expected a number of nodes, or an existing file")
    return path


def parse_webhook_urls(
    ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    """Return URLs by service."""
    found = {}
    for text in value:
        name, equals, url = text.partition("=")
        if not equals or "." not in name.strip(".") or not url.startswith("https://"):
            raise click.BadParameter(
                f"{text!r}: expected SERVICE.NAMESPACE=URL, as in toys.default=https://127.0.0.1:8443"
            )
        found[name] = url
    return found


def parse_runtime_config(
    ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, bool]:
    """Return API versions with whether they are enabled."""
    found = {}
    for text in split_list(ctx, parameter, value):
        key, equals, word = text.partition("=")
        if word not in ("true", "false") and equals:
            raise click.BadParameter(f"{text!r}: expected KEY=true or KEY=false, as in api/beta=true")
        found[key] = word != "false"
    return found


def check_network(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a range of cluster IPs, or one of each family."""
    from kubewright.controlplane.plane_options import parse_service_ranges

    try:
        parse_service_ranges(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; expected a CIDR such as 10.0.0.0/24, or one of each IP family"
        ) from None
    return value


def check_networks(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check CIDRs that are separated by commas."""
    for part in value.split(","):
        check_network(ctx, parameter, part.strip())
    return value


def check_directory(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Check that the directory of a file exists."""
    if value is not None and not value.absolute().parent.is_dir():
        raise click.BadParameter(f"the directory {value.parent} of {value.name} does not exist")
    return value


__all__ = [
    "check_directory",
    "check_network",
    "check_networks",
    "parse_nodes",
    "parse_runtime_config",
    "parse_webhook_urls",
]
