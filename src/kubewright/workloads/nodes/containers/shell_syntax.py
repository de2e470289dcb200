"""The part of the shell language that simulated containers understand.

A script is a list of simple commands with `;`, newlines, `&&` and `||` between them, quoted words, variables
(`$NAME`, `${NAME}`), `>` and `>>`. Everything else raises `UnsupportedSyntax` before a command runs, so that
a script never seems to succeed without having been followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_KEYWORDS: Final = frozenset(
    (
        "!", "[[", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "select", "then", "time", "until", "while",
    )
)  # fmt: skip
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class UnsupportedSyntax(ValueError):
    """A script uses syntax that is not simulated, or is malformed."""


@dataclass(slots=True)
class SimpleCommand:
    """Words, where the output goes, and when the command runs."""

    operator: str
    """What precedes it: `;`, `&&` or `||`."""
    words: list[str] = field(default_factory=list)
    target: str = ""
    """File that gets the output."""
    append: bool = False


def parse_script(script: str, variable: Callable[[str], str]) -> list[SimpleCommand]:
    """Return the commands of a script, with the values of variables; raises `UnsupportedSyntax`."""
    return _Parser(script, variable).parse()


class _Parser:
    def __init__(self, script: str, variable: Callable[[str], str]) -> None:
        self._text = script
        self._variable = variable
        self._at = 0
        self._commands: list[SimpleCommand] = []
        self._command = SimpleCommand(";")
        self._redirection = ""

    def parse(self) -> list[SimpleCommand]:
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char in " \t\r" or text.startswith("\\\n", self._at):
                self._at += 2 if char == "\\" else 1
            elif char == "#":
                end = text.find("\n", self._at)
                self._at = end if end >= 0 else len(text)
            elif char in ";\n&|":
                self._operator()
            elif char == ">":
                self._redirect()
            elif char in "<()`":
                raise _unsupported(char)
            else:
                self._word()
        self._end("")
        return self._commands

    def _operator(self) -> None:
        for operator in ("&&", "||"):
            if self._text.startswith(operator, self._at):
                self._at += 2
                if not self._command.words:
                    raise UnsupportedSyntax(f'syntax error near "{operator}"')
                self._end(operator)
                return
        char = self._text[self._at]
        if char in "&|":
            raise _unsupported(char)
        self._at += 1
        if char == "\n" and not self._command.words and self._command.operator != ";":
            return  # `a &&`, newline, `b`
        self._end(";")

    def _redirect(self) -> None:
        sign = ">>" if self._text.startswith(">>", self._at) else ">"
        self._at += len(sign)
        if self._text.startswith(("&", "|"), self._at) or self._command.target:
            raise _unsupported(sign + self._text[self._at : self._at + 1])
        self._redirection = sign

    def _end(self, operator: str) -> None:
        """Finish the current command; `operator` precedes the next one."""
        command = self._command
        if self._redirection:
            raise UnsupportedSyntax(f'syntax error: no file after "{self._redirection}"')
        if command.words:
            self._commands.append(command)
        elif command.target or command.operator != ";":
            raise UnsupportedSyntax("syntax error: a command is missing")
        self._command = SimpleCommand(operator)

    def _word(self) -> None:
        start = self._at
        parts: list[str] = []
        quoted = False
        while self._at < len(self._text) and self._text[self._at] not in " \t\r\n;&|<>()":
            char = self._text[self._at]
            if char in "'\"":
                quoted = True
                parts.append(self._single() if char == "'" else self._double())
            elif char == "\\":
                quoted = True
                parts.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            elif char == "$":
                parts.append(self._expansion())
            elif char in "`*?" or (char in "[]" and len(parts) > 0):
                raise _unsupported(char)
            else:
                parts.append(char)
                self._at += 1
        raw = self._text[start : self._at]
        if raw.isdecimal() and self._text.startswith((">", "<"), self._at):
            raise _unsupported(raw + self._text[self._at])
        if not quoted and not self._command.words and not self._redirection:
            if raw in _KEYWORDS:
                raise _unsupported(raw)
            if _ASSIGNMENT.match(raw):
                raise UnsupportedSyntax(f'assignments such as "{raw}" are not simulated; {_REMEDY}')
        word = "".join(parts)
        if self._redirection:
            self._command.target, self._command.append = word, self._redirection == ">>"
            self._redirection = ""
        elif word or quoted or "$" not in raw:
            self._command.words.append(word)

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise UnsupportedSyntax("syntax error: no closing quotation")
        word = self._text[self._at + 1 : end]
        self._at = end + 1
        return word

    def _double(self) -> str:
        self._at += 1
        parts: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return "".join(parts)
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in tuple('$`"\\\n'):
                parts.append(self._text[self._at + 1].replace("\n", ""))
                self._at += 2
            elif char == "$":
                parts.append(self._expansion())
            elif char == "`":
                raise _unsupported(char)
            else:
                parts.append(char)
                self._at += 1
        raise UnsupportedSyntax("syntax error: no closing quotation")

    def _expansion(self) -> str:
        """Read `$NAME` or `${NAME}`; a dollar sign before anything that cannot be a variable is itself."""
        self._at += 1
        found = _BRACED.match(self._text, self._at) or _NAME.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            return self._variable(found[1] if found.re is _BRACED else found[0])
        following = self._text[self._at : self._at + 1]
        if following and following in "({?!#@*$-0123456789'\"":
            raise _unsupported("$" + following)
        return "$"


_REMEDY: Final = (
    "simulated containers run simple commands with ;, &&, ||, > and >>; "
    "handle others with on_exec, or use --run-processes"
)


def _unsupported(sign: str) -> UnsupportedSyntax:
    return UnsupportedSyntax(f'"{sign}" is not simulated; {_REMEDY}')
