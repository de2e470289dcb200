"""The template of a Python program: an interpreter with its libraries, which is forked for each start.

It runs in the interpreter of the program, in which Kubewright may not be installed, so it uses the standard
library only. Each line on stdin is a JSON object: `log`, the file for the output of a start. The template
writes `{"pid": ...}` for a start, and `{"ended": pid, "code": ...}` when that process has ended.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import sys


def libraries(files: list[str]) -> list[str]:
    """Return the modules of installed packages that Python files import at their top level."""
    found: dict[str, None] = {}
    for file in files:
        try:
            with open(file, "rb") as source:
                tree = ast.parse(source.read())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.Import):
                found.update(dict.fromkeys(each.name for each in node.names))
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found[node.module] = None
    return [each for each in found if is_installed(each.partition(".")[0])]


def is_installed(name: str) -> bool:
    """Whether a module belongs to an installed package, not to the project."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    origin = spec.origin if spec is not None else None
    return origin is not None and ("site-packages" in origin or "dist-packages" in origin)


def serve() -> str:
    """Fork for each line on stdin; return the log file in the new process, or nothing at the end of stdin."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    import select

    buffer = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            report_ended()
        if 0 not in ready:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return ""
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            log: str = json.loads(line)["log"]
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                os.close(reading)
                os.close(writing)
                return log
            respond({"pid": pid})


def report_ended() -> None:
    """Report the processes that have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            respond({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def respond(value: dict[str, int]) -> None:
    """Write a line to the exploration."""
    os.write(1, json.dumps(value).encode() + b"\n")


def redirect(log: str) -> None:
    """Use a log file as stdout and stderr, and an empty stdin."""
    empty = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for target, source in ((0, empty), (1, output), (2, output)):
        os.dup2(source, target)


def main() -> None:
    """Import the libraries, wait for starts, and be the program in each of them."""
    arguments = sys.argv[1:]
    sys.path.pop(0)  # the directory of this file
    is_module = arguments[0] == "-m"
    program, sys.argv = (arguments[1], arguments[1:]) if is_module else (arguments[0], arguments)
    sys.path.insert(0, os.getcwd() if is_module else os.path.dirname(os.path.abspath(program)))
    with contextlib.redirect_stdout(sys.stderr):
        for name in libraries([each for each in sys.argv if os.path.isfile(each)]):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()
    log = serve()
    if not log:
        return
    redirect(log)
    if is_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
