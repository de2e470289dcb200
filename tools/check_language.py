"""Report phrases that the style guide replaces, in prose, comments, docstrings, messages and names.

    python tools/check_language.py [PATH ...]

The rules are in `language_rules.toml`. Python files are checked by token: comments and string literals for
phrases, identifiers for words. Markdown is checked outside code blocks and code spans. Quotations are exempt:
text between typographic quotation marks (“...”), Markdown block quotes, and string literals or lines of code
that end in the comment `# quotation: SOURCE`.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count, takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATHS = (
    "src",
    "docs",
    "examples",
    "tests",
    "bench",
    "tools",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
EXEMPT = ("tools/language_rules.toml", "tools/check_language.py", "tests/test_language.py")
_QUOTED = re.compile(r"“[^”]*”", re.DOTALL)
_QUOTATION = re.compile(r"# quotation: \S+")
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_FENCE = re.compile(r"^\s*(```|~~~)")
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """A forbidden pattern, forbidden words in names, and the replacement."""

    pattern: re.Pattern[str]
    names: frozenset[str]
    write: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that breaks a rule."""

    path: str
    line: int
    text: str
    write: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: write {self.write}"


def read_rules(path: Path = ROOT / "tools" / "language_rules.toml") -> list[Rule]:
    """Read the rule file."""
    rules = []
    for entry in tomllib.loads(path.read_text())["rule"]:
        flags = re.NOFLAG if entry.get("case") else re.IGNORECASE
        rules.append(
            Rule(re.compile(entry["pattern"], flags), frozenset(entry.get("names", ())), entry["write"])
        )
    return rules


def check_prose(path: str, line: int, text: str, rules: list[Rule]) -> Iterator[Finding]:
    """Findings in a piece of prose that starts at `line`; a phrase may continue on the next line."""
    text = _QUOTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    words = list(re.finditer(r"\S+", text))
    joined = " ".join(word[0] for word in words)
    starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))
    for rule in rules:
        for match in rule.pattern.finditer(joined):
            word = words[bisect_right(starts, match.start()) - 1]
            yield Finding(path, line + text.count("\n", 0, word.start()), match[0], rule.write)


def check_name(path: str, line: int, name: str, rules: list[Rule]) -> Iterator[Finding]:
    """Findings in an identifier."""
    words = {word.lower() for word in _WORDS.findall(name)}
    for rule in rules:
        if words & rule.names:
            yield Finding(path, line, name, rule.write)


def check_python(path: str, text: str, rules: list[Rule]) -> Iterator[Finding]:
    """Findings in comments, string literals and identifiers."""
    quoting = {number for number, line in enumerate(text.split("\n"), 1) if _QUOTATION.search(line)}
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.end[0] in quoting:
            continue
        if token.type == tokenize.COMMENT:
            comments[line] = token.string.lstrip("#")
        elif token.type in _STRINGS:
            yield from check_prose(path, line, token.string, rules)
        elif token.type == tokenize.NAME:
            yield from check_name(path, line, token.string, rules)
    for line in comments:
        if line - 1 not in comments:
            block = takewhile(lambda number: number in comments, count(line))
            yield from check_prose(path, line, "\n".join(comments[number] for number in block), rules)


def check_markdown(path: str, text: str, rules: list[Rule]) -> Iterator[Finding]:
    """Findings outside code blocks, code spans and block quotes."""
    lines, fenced = [], False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
            lines.append("")
        elif fenced or line.lstrip().startswith(">"):
            lines.append("")
        else:
            lines.append(_CODE_SPAN.sub("`", line))
    yield from check_prose(path, 1, "\n".join(lines), rules)


def check_file(file: Path, rules: list[Rule]) -> list[Finding]:
    """Findings in one file, in order."""
    path = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else file.as_posix()
    if path in EXEMPT:
        return []
    check = {".py": check_python, ".md": check_markdown}.get(file.suffix)
    return sorted(set(check(path, file.read_text(), rules)), key=lambda each: each.line) if check else []


def main(arguments: list[str]) -> int:
    """Check the given files and folders, or the whole project."""
    rules = read_rules()
    findings = 0
    for name in arguments or [str(ROOT / path) for path in PATHS]:
        top = Path(name).resolve()
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_file():
                for finding in check_file(file, rules):
                    print(finding)
                    findings += 1
    if findings:
        print(
            f"{findings} phrases to replace; the vocabulary is in tools/language_rules.toml", file=sys.stderr
        )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
