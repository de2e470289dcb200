"""Forked processes, and values that they send to their parent.

Runs are executed in forked processes: each run continues a copy of a prepared cluster (`session`), and what
one leaves in module globals, or a crash of the interpreter, does not affect another.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

_HEADER = struct.Struct("!Q")

Emit = Callable[[str, Any], None]
"""Sends a kind of value, and the value, to the parent process."""


class RunCrashed(Exception):
    """A forked process ended without a result."""


def fork(function: Callable[[int], object], *, new_group: bool = False) -> tuple[int, int]:
    """Fork a process that calls a function with a pipe to write to; return its id and the pipe to read.

    With `new_group`, the process and what it forks are a process group, which can be killed together.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = fork_here()
    if new_group:
        # In both processes, so that it has happened before either continues.
        with contextlib.suppress(OSError):
            os.setpgid(pid, 0)
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    exit_after(lambda: function(writing))
    raise AssertionError("unreachable")


def fork_here() -> int:
    """Fork; the child continues with the same random numbers, which Python would otherwise seed again."""
    state = random.getstate()
    pid = os.fork()
    if not pid:
        random.setstate(state)
    return pid


def exit_after(function: Callable[[], object]) -> None:
    """Call a function and end the process."""
    code = 0
    try:
        function()
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def send(pipe: int, value: Any) -> None:
    """Write one pickled value."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(_HEADER.pack(len(data)) + data)
    while view:
        view = view[os.write(pipe, view) :]


def receive(pipe: int) -> Iterator[Any]:
    """Read pickled values until the other end is closed."""
    with os.fdopen(pipe, "rb") as file:
        while header := file.read(_HEADER.size):
            data = file.read(_HEADER.unpack(header)[0])
            yield pickle.loads(data)  # noqa: S301 - written by a child of this process


def load_value(data: bytes | bytearray) -> Any:
    """Return the value that `send` wrote; raise `RunCrashed` if it is incomplete."""
    if len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        raise RunCrashed("a run ended without a result")
    return pickle.loads(memoryview(data)[_HEADER.size :])  # noqa: S301 - written by a child of this process


def run_forked(function: Callable[[], Any]) -> Any:
    """Call a function in a forked process and return its result; raise `RunCrashed` without one."""
    pid, pipe = fork(lambda writing: send(writing, function()))
    try:
        values = list(receive(pipe))
    finally:
        status = os.waitpid(pid, 0)[1]
    if not values:
        raise RunCrashed(f"a run ended with status {os.waitstatus_to_exitcode(status)}")
    return values[0]


def fork_emitter(function: Callable[[Emit], None], *, new_group: bool = False) -> tuple[int, int]:
    """Fork a process that emits values; return its id and the pipe from which `receive` reads them.

    An exception is emitted as `error`.
    """

    def run(pipe: int) -> None:
        def emit(kind: str, value: Any) -> None:
            send(pipe, (kind, value))

        try:
            function(emit)
        except Exception as error:
            if os.environ.get("KUBEWRIGHT_TRACEBACK"):
                raise
            emit("error", f"{type(error).__name__}: {error}")

    return fork(run, new_group=new_group)
