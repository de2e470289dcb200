"""Built-in commands of simulated containers, on a file system in memory.

`kubectl exec POD -- echo hi` and `kubectl cp` work without a handler: `echo`, `cat`, `env`, `printenv`, `ls`,
`pwd`, `hostname`, `date`, `true`, `false`, `sleep`, `tar`, `touch`, `mkdir`, `rm`, `tee`, `test` and
`sh -c` with these commands, `exit`, `&&`, `||`, `;`, `>` and `>>`. Other syntax is an error (`shell_syntax`).

Lines that a user types on a terminal, for the shell of simulated containers. In a real container the kernel
does this: it echoes input, lets users correct a line and ends input on Ctrl-D.
"""

from __future__ import annotations

import asyncio
import io
import posixpath
import re
import tarfile
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.objects import Object

from .runtime import ContainerRun, ExecRequest
from .shell_syntax import SimpleCommand, UnsupportedSyntax, parse_script

if TYPE_CHECKING:
    from kubewright.apiserver.streams.contract import ProcessStreams

NOT_FOUND: Final = 127
SYNTAX_ERROR: Final = 2
MAX_INPUT: Final = 256 * 1024 * 1024


class FileSystem:
    """Files and directories of one run of a container, by absolute path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {"/", "/tmp", "/etc"}  # noqa: S108

    def write(self, path: str, data: bytes) -> None:
        """Write a file; its directories are created."""
        self.files[path] = data
        self.make_directory(posixpath.dirname(path))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        while path not in self.directories:
            self.directories.add(path)
            path = posixpath.dirname(path)

    def children(self, path: str) -> list[str]:
        """Return the names in a directory."""
        prefix = path.rstrip("/") + "/"
        names = {
            each.removeprefix(prefix).partition("/")[0]
            for each in (*self.files, *self.directories)
            if each.startswith(prefix) and each != prefix
        }
        return sorted(names - {""})

    def remove(self, path: str) -> bool:
        """Remove a file or a directory with its contents; return whether it existed."""
        prefix = path.rstrip("/") + "/"
        found = path in self.files or path in self.directories
        self.files = {
            name: data for name, data in self.files.items() if name != path and not name.startswith(prefix)
        }
        self.directories = {
            name for name in self.directories if name == "/" or (name != path and not name.startswith(prefix))
        }
        return found


class CommandContext:
    """One command: its arguments, its input and output, and the container."""

    def __init__(self, arguments: list[str], run: ContainerRun, request: ExecRequest) -> None:
        self.arguments = arguments
        self.request = request
        self.run = run
        if run.files is None:
            run.files = FileSystem()
            if run.allocation is not None:
                for device in run.allocation.devices:
                    run.files.write(device.container_path, b"")
                for mount in run.allocation.mounts:
                    run.files.make_directory(mount.container_path)
        self.files = run.files
        self.output = bytearray()
        self.errors = bytearray()

    def path(self, name: str) -> str:
        """Return an absolute path."""
        return posixpath.normpath(posixpath.join("/", name))

    async def read_input(self) -> bytes:
        """Return the whole input."""
        data = bytearray()
        while chunk := await self.request.streams.read_stdin():
            data += chunk
            if len(data) > MAX_INPUT:
                raise ValueError("input is too long")
        return bytes(data)

    def fail(self, message: str, code: int = 1) -> int:
        """Write an error message; return the exit code."""
        self.errors += f"{self.arguments[0]}: {message}\n".encode()
        return code


async def run_command(run: ContainerRun, request: ExecRequest) -> int:
    """Run a command and write its output; return its exit code."""
    if not request.command:
        return 0
    context = CommandContext(list(request.command), run, request)
    code = await _run(context, run)
    for data, write in (
        (context.output, request.streams.write_stdout),
        (context.errors, request.streams.write_stderr),
    ):
        if data:
            await write(bytes(data))
    return code


async def _run(context: CommandContext, run: ContainerRun) -> int:
    name = posixpath.basename(context.arguments[0])
    if name in ("sh", "bash", "ash"):
        return await _shell(context, run)
    if name == "env" and len(context.arguments) > 1:
        return await _run_with_variables(context, run)
    command = COMMANDS.get(name)
    if command is None:
        context.errors += f"exec: {context.arguments[0]!r}: executable file not found in $PATH\n".encode()
        return NOT_FOUND
    return await command(context)


async def _run_with_variables(context: CommandContext, run: ContainerRun) -> int:
    """Run `env NAME=VALUE ... COMMAND`."""
    words = context.arguments[1:]
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        context.request.variables[name] = value
    context.arguments = words or ["env"]
    return await _run(context, run)


async def _shell(context: CommandContext, run: ContainerRun) -> int:
    arguments = context.arguments[1:]
    if not arguments or arguments[0] != "-c":
        # An interactive shell: each line is a script.
        code = 0
        if context.request.streams.tty:
            return await _terminal(context, run)
        while data := await context.request.streams.read_stdin():
            for line in data.decode(errors="replace").splitlines():
                if line.strip() == "exit":
                    return code
                code = await _script(context, run, line)
                await context.request.streams.write_stdout(bytes(context.output))
                await context.request.streams.write_stderr(bytes(context.errors))
                context.output.clear()
                context.errors.clear()
        return code
    return await _script(context, run, arguments[1] if len(arguments) > 1 else "")


async def _terminal(context: CommandContext, run: ContainerRun) -> int:
    terminal = TerminalInput(context.request.streams)
    code = 0
    while (line := await terminal.read_line()) is not None:
        if line.split()[:1] == ["exit"]:
            break
        code = await _script(context, run, line)
        await terminal.write(bytes(context.output + context.errors))
        context.output.clear()
        context.errors.clear()
    return code


async def _script(context: CommandContext, run: ContainerRun, script: str) -> int:
    variables = environment(context.request, context.run)
    try:
        commands = parse_script(script, lambda name: variables.get(name, ""))
    except UnsupportedSyntax as error:
        return context.fail(str(error), SYNTAX_ERROR)
    code = 0
    for command in commands:
        if command.operator == ";" or (code == 0) == (command.operator == "&&"):
            if command.words[0] == "exit":
                return (
                    int(command.words[1]) % 256
                    if command.words[1:2] and command.words[1].isdecimal()
                    else code
                )
            code = await _simple(context, run, command)
    return code


async def _simple(context: CommandContext, run: ContainerRun, command: SimpleCommand) -> int:
    inner = CommandContext(command.words, run, context.request)
    code = await _run(inner, run)
    if command.target:
        path = context.path(command.target)
        before = context.files.files.get(path, b"") if command.append else b""
        context.files.write(path, before + bytes(inner.output))
    else:
        context.output += inner.output
    context.errors += inner.errors
    return code


def environment(request: ExecRequest, run: ContainerRun) -> dict[str, str]:
    """Return the variables of a container: of devices, and those that are literal or fields of the pod."""
    pod, metadata = request.pod, request.pod.get("metadata") or {}
    values = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": str(metadata.get("name") or ""),
        "KUBERNETES_SERVICE_PORT": "443",
        "HOME": "/root",
    }
    if run.allocation is not None:
        values.update(run.allocation.envs)
    spec = pod.get("spec") or {}
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            if container.get("name") == request.container:
                for variable in container.get("env") or ():
                    values[variable["name"]] = _value(variable, pod)
    values.update(request.variables)
    return values


def _value(variable: Object, pod: Object) -> str:
    if variable.get("value") is not None:
        return str(variable["value"])
    path = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath") or ""
    value: object = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return str(value) if value is not None else ""


async def _echo(context: CommandContext) -> int:
    arguments = context.arguments[1:]
    newline = "" if arguments[:1] == ["-n"] else "\n"
    words = arguments[1:] if not newline else arguments
    context.output += (" ".join(words) + newline).encode()
    return 0


async def _cat(context: CommandContext) -> int:
    names = [name for name in context.arguments[1:] if not name.startswith("-")]
    if not names:
        context.output += await context.read_input()
        return 0
    code = 0
    for name in names:
        data = context.files.files.get(context.path(name))
        if data is None:
            code = context.fail(f"{name}: No such file or directory")
        else:
            context.output += data
    return code


async def _env(context: CommandContext) -> int:
    values = environment(context.request, context.run)
    if context.arguments[0].endswith("printenv") and len(context.arguments) > 1:
        value = values.get(context.arguments[1])
        if value is None:
            return 1
        context.output += f"{value}\n".encode()
        return 0
    context.output += "".join(f"{name}={value}\n" for name, value in values.items()).encode()
    return 0


async def _ls(context: CommandContext) -> int:
    names = [name for name in context.arguments[1:] if not name.startswith("-")] or ["/"]
    code = 0
    for name in names:
        path = context.path(name)
        if path in context.files.files:
            context.output += f"{name}\n".encode()
        elif path in context.files.directories:
            context.output += "".join(f"{each}\n" for each in context.files.children(path)).encode()
        else:
            code = context.fail(f"{name}: No such file or directory")
    return code


async def _print(context: CommandContext, text: str) -> int:
    context.output += f"{text}\n".encode()
    return 0


async def _sleep(context: CommandContext) -> int:
    try:
        await asyncio.sleep(float(context.arguments[1].rstrip("s")) if len(context.arguments) > 1 else 0)
    except ValueError:
        return context.fail(f"invalid time interval '{context.arguments[1]}'")
    return 0


async def _touch(context: CommandContext) -> int:
    for name in context.arguments[1:]:
        path = context.path(name)
        context.files.write(path, context.files.files.get(path, b""))
    return 0


async def _mkdir(context: CommandContext) -> int:
    for name in context.arguments[1:]:
        if not name.startswith("-"):
            context.files.make_directory(context.path(name))
    return 0


async def _rm(context: CommandContext) -> int:
    code = 0
    force = any(name.startswith("-") and "f" in name for name in context.arguments[1:])
    for name in context.arguments[1:]:
        if not name.startswith("-") and not context.files.remove(context.path(name)) and not force:
            code = context.fail(f"{name}: No such file or directory")
    return code


async def _tee(context: CommandContext) -> int:
    data = await context.read_input()
    context.output += data
    for name in context.arguments[1:]:
        context.files.write(context.path(name), data)
    return 0


async def _test(context: CommandContext) -> int:
    option, _, rest = context.arguments[1] if len(context.arguments) > 1 else "", "", context.arguments[2:]
    path = context.path(rest[0]) if rest else ""
    is_file, is_directory = path in context.files.files, path in context.files.directories
    found = {"-d": is_directory, "-f": is_file, "-e": is_file or is_directory}.get(option, bool(option))
    return 0 if found else 1


async def _tar(context: CommandContext) -> int:
    """Pack or unpack a directory, with the options that `kubectl cp` uses."""
    options, directory, names, position = "", "/", [], 1
    arguments = context.arguments
    while position < len(arguments):
        word = arguments[position]
        if word == "-C" and position + 1 < len(arguments):
            directory = context.path(arguments[position + 1])
            position += 1
        elif word == "-" or word.startswith("--"):
            pass
        elif word.startswith("-") or position == 1:
            options += word.lstrip("-")
        else:
            names.append(word)
        position += 1
    if "c" in options:
        return _pack(context, directory, names)
    if "x" not in options:
        return context.fail("You must specify one of the '-c' or '-x' options", 2)
    data = await context.read_input()
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                path = posixpath.normpath(posixpath.join(directory, member.name.lstrip("/")))
                if member.isdir():
                    context.files.make_directory(path)
                elif member.isfile():
                    content = archive.extractfile(member)
                    context.files.write(path, content.read() if content is not None else b"")
    except tarfile.TarError as error:
        return context.fail(str(error), 2)
    return 0


def _pack(context: CommandContext, directory: str, names: list[str]) -> int:
    files = context.files
    buffer = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            path = posixpath.normpath(posixpath.join(directory, name))
            prefix = path.rstrip("/") + "/"
            if path not in files.files and path not in files.directories:
                code = context.fail(f"{name}: Cannot stat: No such file or directory", 2)
                continue
            inside = sorted(each for each in files.files if each == path or each.startswith(prefix))
            for each in sorted(each for each in files.directories if each == path or each.startswith(prefix)):
                entry = tarfile.TarInfo(posixpath.join(name.lstrip("/"), posixpath.relpath(each, path)))
                entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, int(time.time())
                archive.addfile(entry)
            for each in inside:
                relative = "" if each == path else posixpath.relpath(each, path)
                entry = tarfile.TarInfo(posixpath.join(name.lstrip("/"), relative).rstrip("/"))
                entry.size, entry.mtime = len(files.files[each]), int(time.time())
                archive.addfile(entry, io.BytesIO(files.files[each]))
    context.output += buffer.getvalue()
    return code


async def _result(context: CommandContext) -> int:
    return 1 if context.arguments[0].endswith("false") else 0


Command = Callable[[CommandContext], Awaitable[int]]
COMMANDS: Final[dict[str, Command]] = {
    "echo": _echo,
    "cat": _cat,
    "env": _env,
    "printenv": _env,
    "ls": _ls,
    "pwd": lambda context: _print(context, "/"),
    "hostname": lambda context: _print(context, environment(context.request, context.run)["HOSTNAME"]),
    "date": lambda context: _print(context, time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())),
    "true": _result,
    ":": _result,
    "false": _result,
    "sleep": _sleep,
    "tar": _tar,
    "touch": _touch,
    "mkdir": _mkdir,
    "rm": _rm,
    "tee": _tee,
    "test": _test,
}


_ESCAPES: Final = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z~]|O[A-Z]|.)?")
_INTERRUPT, _END, _ERASE_LINE = "\x03", "\x04", "\x15"
_BACKSPACE: Final = ("\x7f", "\b")


class TerminalInput:
    """Reads lines with echo and a prompt, and writes output with the line ends of a terminal."""

    def __init__(self, streams: ProcessStreams, prompt: str = "$ ") -> None:
        self._streams = streams
        self._prompt = prompt
        self._waiting = ""

    async def write(self, data: bytes) -> None:
        """Write output."""
        if data:
            await self._streams.write_stdout(data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))

    async def read_line(self) -> str | None:
        """Return the next line; `None` at the end of input."""
        line = ""
        await self.write(self._prompt.encode())
        while True:
            if not self._waiting:
                data = await self._streams.read_stdin()
                if not data:
                    return None
                self._waiting = _ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\r")
            key, self._waiting = self._waiting[:1], self._waiting[1:]
            if key in ("\r", "\n"):
                await self.write(b"\n")
                return line
            if key == _END and not line:
                await self.write(b"\n")
                return None
            if key == _INTERRUPT:
                await self.write(b"^C\n")
                return ""
            if key in _BACKSPACE or key == _ERASE_LINE:
                count = len(line) if key == _ERASE_LINE else min(1, len(line))
                line = line[: len(line) - count]
                await self.write(b"\b \b" * count)
            elif key.isprintable():
                line += key
                await self.write(key.encode())
