"""The language check finds forbidden phrases and leaves quotations alone."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path

import pytest

_PATH = Path(__file__).parent.parent / "tools" / "check_language.py"
_SPEC = util.spec_from_file_location("check_language", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
check_language = util.module_from_spec(_SPEC)
sys.modules["check_language"] = check_language
_SPEC.loader.exec_module(check_language)

RULES = check_language.read_rules()


def findings(name: str, text: str, tmp_path: Path) -> list[tuple[int, str]]:
    file = tmp_path / name
    file.write_text(text)
    return [(each.line, each.text) for each in check_language.check_file(file, RULES)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""Wait until the pod is gone."""\n', [(1, "is gone")]),
        ("a.py", "x = 1  # the answer\n", [(1, "answer")]),
        ("a.py", "# stops at\n# once\n", [(1, "at once")]),
        ("a.py", "class Mistake: ...\n", [(1, "Mistake")]),
        ("a.py", 'log.error("it is no\\n predicate")\n', []),
        ("a.py", 'text = f"{name} is no predicate"\n', [(1, "is no ")]),
        ("a.py", 'text = "is no predicate"  # quotation: RFC9110\n', []),
        ("a.py", "if answered is None: ...\n", [(1, "answered")]),
        ("a.py", "there = 1  # there is no other\n", []),
        ("a.md", "Say it\nat once.\n", [(2, "at once")]),
        ("a.md", "```\nat once\n```\n> at once\n\n`at once` and “at once”\n", []),
    ],
)
def test_forbidden_phrases_are_reported_with_their_line(name, text, expected, tmp_path) -> None:
    assert findings(name, text, tmp_path) == expected


def test_exit_code_is_1_when_there_are_findings(tmp_path, capsys) -> None:
    file = tmp_path / "a.md"
    file.write_text("Nobody knows.\n")
    assert check_language.main([str(file)]) == 1
    assert "a.md:1: 'Nobody': write the client" in capsys.readouterr().out
