"""Lexer: text to tokens.

One regular expression finds the next token; strings keep their raw text until the parser unescapes them. Text
that matches no token is reported with ANTLR's message and skipped, so that one pass finds all such errors.
Token names in messages (`NUM_INT`, `'('`) are those of the CEL grammar.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from kubewright.cel.errors import Issue


class Token(NamedTuple):
    """A token: its grammar name, its text and its offset."""

    kind: str
    text: str
    pos: int


EOF: Final = "EOF"
_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING: Final = (
    rf"(?:\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\""
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\""
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r"|[rR]\"\"\"[\s\S]*?\"\"\""
    r"|[rR]'''[\s\S]*?'''"
    r"|[rR]\"[^\"\n\r]*\""
    r"|[rR]'[^'\n\r]*')"
)
_TOKEN: Final = re.compile(
    rf"(?P<HIDDEN>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB]{_STRING})"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<OP>==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>])"
)
_PARTIAL: Final = r"(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
_UNFINISHED: Final = re.compile(
    rf"[bB]?(?:[rR](?:'[^'\n\r]*|\"[^\"\n\r]*)"
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*{_PARTIAL}|\"(?:{_ESCAPE}|[^\\\"\n\r])*{_PARTIAL})|[=|&]"
)
KEYWORDS: Final = frozenset({"in", "true", "false", "null"})


class Source:
    """The text of an expression with its line starts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        start = text.find("\n")
        while start >= 0:
            self._starts.append(start + 1)
            start = text.find("\n", start + 1)

    def issue(self, pos: int, message: str) -> Issue:
        """Return an issue at this offset; a negative offset has no position."""
        if pos < 0:
            return Issue(-1, -1, message)
        line = bisect_right(self._starts, pos)
        return Issue(line, pos - self._starts[line - 1], message)


def tokenize(source: Source, issues: list[Issue]) -> list[Token]:
    """Return all tokens and a final EOF; append an issue for each text that matches no token."""
    text = source.text
    tokens: list[Token] = []
    pos, end = 0, len(text)
    match = _TOKEN.match
    while pos < end:
        found = match(text, pos)
        if found is None:
            stop = _skip(text, pos)
            issues.append(
                source.issue(pos, f"Syntax error: token recognition error at: '{shown(text[pos:stop])}'")
            )
            pos = stop
            continue
        kind = found.lastgroup
        assert kind is not None
        if kind != "HIDDEN":
            lexeme = found[0]
            if kind == "OP" or (kind == "IDENTIFIER" and lexeme in KEYWORDS):
                kind = lexeme
            tokens.append(Token(kind, lexeme, pos))
        pos = found.end()
    tokens.append(Token(EOF, "<EOF>", end))
    return tokens


def _skip(text: str, pos: int) -> int:
    unfinished = _UNFINISHED.match(text, pos)
    stop = unfinished.end() if unfinished else pos
    return min(max(stop, pos) + 1, len(text))


def shown(text: str) -> str:
    """Return token text as messages print it."""
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "'": "'",
    "\\": "\\",
    "?": "?",
    "`": "`",
}
_ESCAPED: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\"'\\?`])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2}))"
)


def _body(literal: str) -> tuple[str, bool]:
    raw = literal[0] in "rR"
    if raw:
        literal = literal[1:]
    literal = literal.replace("\r\n", "\n").replace("\r", "\n")
    quotes = 3 if len(literal) >= 6 and literal[:3] in ('"""', "'''") else 1
    return literal[quotes:-quotes], raw


def unescape_string(literal: str) -> str:
    """The value of a string literal; raises `ValueError` with the reason."""
    body, raw = _body(literal)
    return body if raw or "\\" not in body else _ESCAPED.sub(_string_escape, body)


def _string_escape(match: re.Match[str]) -> str:
    if match["simple"]:
        return _SIMPLE[match["simple"]]
    digits = match["hex"] or match["short"] or match["long"]
    code = int(digits, 16) if digits else int(match["octal"], 8)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def unescape_bytes(literal: str) -> bytes:
    """The value of a bytes literal: `\\x` and octal escapes are bytes, the rest is UTF-8."""
    body, raw = _body(literal[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    last = 0
    for match in _ESCAPED.finditer(body):
        parts.append(body[last : match.start()].encode())
        if match["short"] or match["long"]:
            raise ValueError("unable to unescape string")
        if match["simple"]:
            parts.append(_SIMPLE[match["simple"]].encode())
        else:
            parts.append(bytes([int(match["hex"], 16) if match["hex"] else int(match["octal"], 8)]))
        last = match.end()
    parts.append(body[last:].encode())
    return b"".join(parts)
