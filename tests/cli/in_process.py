"""Runs commands in the process of the tests, which is faster than a process for each of them."""

from __future__ import annotations

import contextlib
import importlib
import io
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

from kubewright.cli import main
from kubewright.schema.generation import source


@dataclass
class Done:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


def kubewright(directory: Path, *arguments: str, stdin: str = "") -> Done:
    """Run a command in a directory; modules that it imports from there are forgotten afterwards."""
    # click writes completions as bytes, which a StringIO does not accept.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before, path = set(sys.modules), list(sys.path)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    stdin_before, sys.stdin = sys.stdin, io.StringIO(stdin)
    importlib.invalidate_caches()
    linecache.checkcache()
    source._classes.cache_clear()
    code = 0
    try:
        with contextlib.chdir(directory), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main.main(args=list(arguments), prog_name="kubewright")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        sys.path[:], sys.dont_write_bytecode, sys.stdin = path, written, stdin_before
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(directory)):
                del sys.modules[name]
    return Done(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
