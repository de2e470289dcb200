"""Error messages of Go's JSON decoder: the first invalid character, and why.

Clients and tests match on these messages. A text is scanned a second time only when it could not be decoded.
"""

from __future__ import annotations

from kubewright.api.values.go_format import quote

_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_END = "unexpected end of JSON input"


def json_error(data: bytes, error: Exception) -> str:
    """Return why `data` is not JSON; the error of the decoder if the scan finds nothing."""
    return _Scanner(data).error() or str(error)


class _Scanner:
    """Scans a text token by token."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def error(self) -> str | None:
        """Return the first error."""
        try:
            self._document()
        except ValueError as problem:
            return str(problem)
        return None

    def _document(self) -> None:
        """Scan values and separators; `closers` has the closing characters of open containers."""
        closers: list[int] = []
        self._value(closers)
        while closers:
            closer = closers[-1]
            char = self._next()
            if char == closer:
                closers.pop()
            elif char != 0x2C:
                after = "object key:value pair" if closer == 0x7D else "array element"
                self._fail(f"after {after}")
            else:
                if closer == 0x7D:
                    self._key(self._next())
                self._value(closers)
        self._skip()
        if self._at < len(self._data):
            self._at += 1
            self._fail("after top-level value")

    def _value(self, closers: list[int]) -> None:
        """Scan a value, or containers down to the first simple value or end."""
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
            self._fail("looking for beginning of object key string")
        self._string()
        if self._next() != 0x3A:
            self._fail("after object key")

    def _simple(self, char: int) -> None:
        if char == 0x22:
            self._string()
        elif char == 0x2D or char in _DIGITS:
            self._number(char)
        elif char in b"tfn":
            word = {"t": "true", "f": "false", "n": "null"}[chr(char)]
            for wanted in word[1:]:
                if self._byte() != ord(wanted):
                    self._fail(f"in literal {word} (expecting '{wanted}')")
        else:
            self._fail("looking for beginning of value")

    def _string(self) -> None:
        while (char := self._byte()) != 0x22:
            if char < 0x20:
                self._fail("in string literal")
            if char == 0x5C:
                char = self._byte()
                if char == 0x75:
                    for _ in range(4):
                        if self._byte() not in _HEX:
                            self._fail("in \\u hexadecimal character escape")
                elif char not in b'bfnrt\\/"':
                    self._fail("in string escape code")

    def _number(self, char: int) -> None:
        if char == 0x2D:
            char = self._byte()
            if char not in _DIGITS:
                self._fail("in numeric literal")
        if char != 0x30:
            self._digits()
        if self._peek() == 0x2E:
            self._at += 1
            if self._byte() not in _DIGITS:
                self._fail("after decimal point in numeric literal")
            self._digits()
        if self._peek() in (0x45, 0x65):
            self._at += 1
            char = self._byte()
            if char in b"+-":
                char = self._byte()
            if char not in _DIGITS:
                self._fail("in exponent of numeric literal")
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

    def _fail(self, why: str) -> None:
        """Raise the error for the last character."""
        char = self._data[self._at - 1]
        shown = {0x27: "\\'", 0x22: '"'}.get(char)
        if shown is None:
            shown = quote(chr(char))[1:-1] if char < 0x80 else f"\\x{char:02x}"
        raise ValueError(f"invalid character '{shown}' {why}")
