"""What a container does whose command is simple enough to know without running it.

Known are `true`, `false`, `sleep`, `echo` and `env`, and shell scripts (`sh -c`) of these, `exit`, `;`, `&&`,
`||`, `while true; do ...; done` and output to the termination message file. Containers of the image `pause`
run until they are stopped. Every other command is unknown, and the settings apply.
"""

from __future__ import annotations

import math
import posixpath
import re
from functools import lru_cache
from typing import Final, NamedTuple

from kubewright.workloads.nodes.objects import Object

from . import shell_syntax

DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
_SHELLS: Final = frozenset(("sh", "bash", "ash"))
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNKNOWN_SIGNS: Final = re.compile(r"[$`<*?(){}\[\]\\#]|(?<!&)&(?!&)|(?<!\|)\|(?!\|)")
_LOOP: Final = re.compile(r"^\s*while\s+(?:true|:)\s*;\s*do\b(.*?);?\s*done\s*;?\s*$", re.DOTALL)
_DURATION: Final = re.compile(r"^(\d+(?:\.\d+)?)([smhd]?)$")


class SimpleCommand(NamedTuple):
    """The effects of a command."""

    seconds: float
    """How long it runs; infinite for a command that runs until it is stopped."""
    exit_code: int = 0
    output: str = ""
    files: tuple[tuple[str, str], ...] = ()
    """Content of files by path."""
    prints_environment: bool = False
    """Whether the variables of the container are written after the output."""

    def message(self, container: Object) -> str:
        """Return the termination message: a file, or the output after an error."""
        path = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
        text = dict(self.files).get(path, "")
        if text or self.exit_code == 0:
            return text
        return self.output if container.get("terminationMessagePolicy") == "FallbackToLogsOnError" else ""


def simple_command(container: Object) -> SimpleCommand | None:
    """Return the effects of the command of a container, or `None` if they are not known."""
    command = container.get("command")
    if not command:
        name = posixpath.basename(container.get("image") or "").partition("@")[0].partition(":")[0]
        return SimpleCommand(math.inf) if name == "pause" else None
    return _parse((*command, *(container.get("args") or ())))


@lru_cache(maxsize=256)
def _parse(words: tuple[str, ...]) -> SimpleCommand | None:
    if posixpath.basename(words[0]) in _SHELLS:
        return _parse_script(words[2]) if len(words) > 2 and words[1] == "-c" else None
    execution = _Execution()
    # `$(NAME)` is replaced before the command is run.
    known = not any("$(" in word for word in words) and execution.run(
        shell_syntax.SimpleCommand(";", [*words])
    )
    return execution.result if known else None


def _parse_script(script: str) -> SimpleCommand | None:
    loop = _LOOP.match(script)
    body = loop[1] if loop is not None else script
    if _UNKNOWN_SIGNS.search(body):
        return None
    try:
        commands = shell_syntax.parse_script(body, lambda name: "")
    except shell_syntax.UnsupportedSyntax:
        return None
    execution = _Execution()
    for command in commands:
        wanted = command.operator == ";" or (execution.code == 0) == (command.operator == "&&")
        if wanted and not execution.ended and not execution.run(command):
            return None
    if loop is not None and not execution.ended:
        execution.seconds = math.inf
    return execution.result


class _Execution:
    """The effects of the commands of a script so far."""

    def __init__(self) -> None:
        self.code = 0
        self.seconds = 0.0
        self.output = ""
        self.files: dict[str, str] = {}
        self.ended = False
        self.prints_environment = False

    @property
    def result(self) -> SimpleCommand:
        return SimpleCommand(
            self.seconds, self.code, self.output, tuple(self.files.items()), self.prints_environment
        )

    def run(self, command: shell_syntax.SimpleCommand) -> bool:
        """Apply one command; return whether it is known."""
        name, arguments = posixpath.basename(command.words[0]), command.words[1:]
        if name == "echo":
            return self._echo(arguments, command.target, command.append)
        if command.target and name not in ("true", ":", "false"):
            return False
        if name in ("true", ":"):
            self.code = 0
        elif name == "false":
            self.code = 1
        elif name == "exit":
            if arguments and not arguments[0].isdecimal():
                return False
            self.code, self.ended = int(arguments[0]) % 256 if arguments else self.code, True
        elif name == "env" and not arguments:
            self.code, self.prints_environment = 0, True
        elif name == "sleep":
            return self._sleep(arguments)
        else:
            return False
        return True

    def _sleep(self, arguments: list[str]) -> bool:
        for text in arguments:
            if text in ("inf", "infinity"):
                self.seconds = math.inf
                continue
            found = _DURATION.match(text)
            if found is None:
                return False
            self.seconds += float(found[1]) * _UNITS[found[2]]
        self.code = 0
        return bool(arguments)

    def _echo(self, arguments: list[str], target: str, append: bool) -> bool:
        newline = arguments[:1] != ["-n"]
        words = arguments if newline else arguments[1:]
        if words[:1] == ["-e"]:
            return False
        text = " ".join(words) + ("\n" if newline else "")
        if target:
            self.files[target] = (self.files.get(target, "") if append else "") + text
        else:
            self.output += text
        self.code = 0
        return True
