"""The option `--redaction-key` of commands that write redacted objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

MIN_BYTES = 16


def redaction_key_option(command: CommandT) -> CommandT:
    """Add `--redaction-key`; the parameter is the key, or `None`."""
    return click.option(
        "--redaction-key",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_read,
        help="File with a key: equal values have equal placeholders in all files with it.  "
        "[default: a random key]",
    )(command)


def _read(_: click.Context, __: click.Parameter, path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
    if len(key) < MIN_BYTES:
        raise click.ClickException(f"{path} has less than {MIN_BYTES} bytes; choose a longer key")
    return key
