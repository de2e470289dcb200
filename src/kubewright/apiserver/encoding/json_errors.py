"""What Go's decoder says about text that is no JSON: the first character that cannot be, and why.

Clients and tests match on these words. A text is read a second time for them only when it could not be read.
"""

from __future__ import annotations

from kubewright.api.go_format import quote

_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_END = "unexpected end of JSON input"


def json_error(data: bytes, error: Exception) -> str:
    """Why `data` is no JSON; what the decoder raised if it seems to be."""
    return _Scan(data).complaint() or str(error)


class _Scan:
    """One pass over a text, from token to token."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def complaint(self) -> str | None:
        """The first thing that is wrong."""
        try:
            self._document()
        except ValueError as problem:
            return str(problem)
        return None

    def _document(self) -> None:
        """Values and what has to follow them; `closers` holds the containers that are open."""
        closers: list[int] = []
        self._value(closers)
        while closers:
            closer = closers[-1]
            char = self._next()
            if char == closer:
                closers.pop()
            elif char != 0x2C:
                after = "object key:value pair" if closer == 0x7D else "array element"
                self._refuse(f"after {after}")
            else:
                if closer == 0x7D:
                    self._key(self._next())
                self._value(closers)
        self._skip()
        if self._at < len(self._data):
            self._at += 1
            self._refuse("after top-level value")

    def _value(self, closers: list[int]) -> None:
        """One value, or the beginning of a container down to its first simple value or its end."""
        while True:
            char = self._next()
            if char == 0x7B:
                closers.append(0x7D)
                char = self._next()
                if char == 0x7D:
                    closers.pop()
                    return
                self._key(char)
            elif char == 0x5B:
                closers.append(0x5D)
                self._skip()
                if self._at < len(self._data) and self._data[self._at] == 0x5D:
                    self._at += 1
                    closers.pop()
                    return
            else:
                self._simple(char)
                return

    def _key(self, char: int) -> None:
        if char != 0x22:
            self._refuse("looking for beginning of object key string")
        self._string()
        if self._next() != 0x3A:
            self._refuse("after object key")

    def _simple(self, char: int) -> None:
        if char == 0x22:
            self._string()
        elif char == 0x2D or char in _DIGITS:
            self._number(char)
        elif char in b"tfn":
            word = {"t": "true", "f": "false", "n": "null"}[chr(char)]
            for wanted in word[1:]:
                if self._byte() != ord(wanted):
                    self._refuse(f"in literal {word} (expecting '{wanted}')")
        else:
            self._refuse("looking for beginning of value")

    def _string(self) -> None:
        while (char := self._byte()) != 0x22:
            if char < 0x20:
                self._refuse("in string literal")
            if char == 0x5C:
                char = self._byte()
                if char == 0x75:
                    for _ in range(4):
                        if self._byte() not in _HEX:
                            self._refuse("in \\u hexadecimal character escape")
                elif char not in b'bfnrt\\/"':
                    self._refuse("in string escape code")

    def _number(self, char: int) -> None:
        if char == 0x2D:
            char = self._byte()
            if char not in _DIGITS:
                self._refuse("in numeric literal")
        if char != 0x30:
            self._digits()
        if self._peek() == 0x2E:
            self._at += 1
            if self._byte() not in _DIGITS:
                self._refuse("after decimal point in numeric literal")
            self._digits()
        if self._peek() in (0x45, 0x65):
            self._at += 1
            char = self._byte()
            if char in b"+-":
                char = self._byte()
            if char not in _DIGITS:
                self._refuse("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while self._peek() in range(0x30, 0x3A):
            self._at += 1

    def _peek(self) -> int:
        return self._data[self._at] if self._at < len(self._data) else -1

    def _byte(self) -> int:
        if self._at >= len(self._data):
            raise ValueError(_END)
        self._at += 1
        return self._data[self._at - 1]

    def _skip(self) -> None:
        while self._peek() != -1 and self._peek() in _SPACE:
            self._at += 1

    def _next(self) -> int:
        self._skip()
        return self._byte()

    def _refuse(self, why: str) -> None:
        """The character that was read last cannot be where it is."""
        char = self._data[self._at - 1]
        shown = {0x27: "\\'", 0x22: '"'}.get(char)
        if shown is None:
            shown = quote(chr(char))[1:-1] if char < 0x80 else f"\\x{char:02x}"
        raise ValueError(f"invalid character '{shown}' {why}")
