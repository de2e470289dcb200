"""The `--audit-...` options of `kubewright up`, with the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kubewright.apiserver.audit.flags import FLAGS
from kubewright.options.model import Option


def parse_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a duration in Go's notation."""
    if value is None:
        return None
    from kubewright.api.times import Duration

    try:
        return Duration(value).total_seconds()
    except ValueError:
        raise click.BadParameter(f"{value!r}: expected a duration such as 30s") from None


def _settings(flag: Option) -> dict[str, Any]:
    """Return the arguments of a click option; rarely used ones are not in the help."""
    found: dict[str, Any] = {"default": None, "hidden": flag.is_rare}
    found["type"] = {"int": int, "float": float, "bool": bool}.get(flag.kind.type, str)
    if flag.kind.type == "bool":
        found |= {"is_flag": False, "flag_value": True}
    elif flag.kind.type == "duration":
        found["callback"] = parse_duration
    default = f"  [default: {flag.default}]" if flag.default else ""
    return {**found, "help": f"{flag.help}{default}"}


def add_audit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for flag in reversed(FLAGS):
        command = click.option(f"--{flag.name}", **_settings(flag))(command)
    return command


def read_audit_options(options: dict[str, Any]) -> Any:
    """Return the `AuditOptions` of the given options, or `None`; raises `click.UsageError`."""
    given = {flag.name: options[flag.name.replace("-", "_")] for flag in FLAGS}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return None
    from kubewright.apiserver.audit.options import AuditOptions

    try:
        found = AuditOptions.from_flags(given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if found is None:
        raise click.UsageError(
            "audit options need --audit-policy-file, and --audit-log-path or --audit-webhook-config-file; "
            "nothing would be recorded"
        )
    return found
