"""Blocks the connections and programs that plain functions of an operator start during a rehearsal.

The event loop of a rehearsal has no network: asynchronous clients fail there. Plain functions run in threads
and can use sockets of their own, for example with `requests`; CPython reports these to an audit hook, which
raises before the system call. Native drivers that do not use Python's sockets, such as libpq, are not seen.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

from kubewright.explore.simulation.loop import PROCESS, ExternalConnectionBlocked
from kubewright.explore.simulation.thread_calls import current_call

_ADDRESSES: Final = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
"""Position of the address in the arguments of an event."""
_NAMES: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"))
_PROGRAMS: Final = frozenset(("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"))


class _Hook:
    """The audit hook of this process; it cannot be removed."""

    def __init__(self) -> None:
        self.calls: list[str] | None = None
        """Where blocked calls are listed; `None` while nothing is blocked."""
        self.other_threads: frozenset[threading.Thread] = frozenset()
        """Threads that are not those of an operator: they existed before it."""
        self._is_added = False

    def add(self) -> None:
        """Add the hook once."""
        if not self._is_added:
            self._is_added = True
            sys.addaudithook(self)

    def _is_of_operator(self) -> bool:
        if PROCESS.get() is not None or current_call() is not None:
            return True
        return threading.current_thread() not in self.other_threads

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.calls is None or not (event in _ADDRESSES or event in _NAMES or event in _PROGRAMS):
            return
        if not self._is_of_operator():
            return
        if event in _ADDRESSES:
            target = _address(arguments[_ADDRESSES[event]])
        elif event in _NAMES:
            port = arguments[1] if event == "socket.getaddrinfo" else None
            target = f"{arguments[0]}:{port}" if port else str(arguments[0])
        else:
            target = f"the program {arguments[0]}"
        if target not in self.calls:
            self.calls.append(target)
        raise ExternalConnectionBlocked(
            f"{target} is outside of the rehearsal; declare a fake for it, see kubewright plan --fakes"
        )


_hook = _Hook()


@contextlib.contextmanager
def blocked_calls(calls: list[str]) -> Iterator[None]:
    """Block calls of the operator within the block, and append their targets to a list."""
    _hook.add()
    _hook.other_threads = frozenset(threading.enumerate())
    _hook.calls = calls
    try:
        yield
    finally:
        _hook.calls = None


def _address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return address.decode(errors="replace") if isinstance(address, bytes) else str(address)
