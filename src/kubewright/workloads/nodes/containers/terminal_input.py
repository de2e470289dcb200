"""Lines that a user types on a terminal, for the shell of simulated containers.

In a real container the kernel does this: it echoes input, lets users correct a line and ends input on Ctrl-D.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright.apiserver.streams.contract import ProcessStreams

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
