"""Command groups whose commands are imported when they are called, and suggestions for unknown names."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import click

from kubewright.parts import MissingPart, missing_part


class Command(NamedTuple):
    """A command of a group."""

    module: str
    """The module, below this package; its function is named after it and has the suffix `_command`."""
    text: str
    """The one-line help text."""


class CommandGroup(click.Group):
    """Group of commands, each in a module that is imported when the command is called."""

    def __init__(self, *args: Any, modules: Mapping[str, Command], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the installed commands."""
        return sorted(name for name in self.modules if self._is_installed(name))

    def _is_installed(self, name: str) -> bool:
        try:
            return importlib.util.find_spec(self._module(name)) is not None
        except ModuleNotFoundError:  # the package of the module is not installed either
            return False

    def _module(self, name: str) -> str:
        return f"{__package__}.{self.modules[name].module}"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.modules:
            return None
        name = self._module(cmd_name)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.rpartition(".")[0]):
                raise
            raise MissingPart(missing_part(f"{ctx.command_path} {cmd_name}"), name=name) from None
        command: click.Command = getattr(module, f"{name.rpartition('.')[2]}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for an unknown one suggests the nearest."""
        if args and not args[0].startswith("-") and args[0] not in self.modules:
            suggestion = nearest(args[0], self.modules)
            raise click.UsageError(f"No such command {args[0]!r}{suggestion}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command names with their help texts."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.modules[name].text) for name in self.list_commands(ctx)])


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean <name>?` for the most similar known name, or an empty string."""
    names = {each.lstrip("-"): each for each in known}  # dashes would make all options similar
    plain = name.lstrip("-")
    found = difflib.get_close_matches(plain, names, n=1, cutoff=0.55) or [
        each for each in names if each.startswith(plain)
    ]
    return f"; did you mean {names[found[0]]}?" if found else ""


def usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error in one line, with the command whose help explains it."""
    command = error.ctx.command_path if error.ctx is not None else "kubewright"
    if isinstance(error, click.NoSuchOption):
        options = error.ctx.command.params if error.ctx is not None else []
        known = [name for each in options for name in (*each.opts, *each.secondary_opts) if name[:2] == "--"]
        message = f"No such option {error.option_name}{nearest(error.option_name, [*known, '--help'])}"
    else:
        message = error.format_message().rstrip(".")
    separator = "" if message.endswith("?") else ";"
    return f"{message}{separator} see {command} --help"
