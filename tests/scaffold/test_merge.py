"""Three-way merges: no change is lost, and only changes to the same lines are conflicts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.scaffold.source.merge import has_conflicts, merge, split_lines

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "    x\n"]), max_size=12).map("".join)
TEXT = st.builds(lambda text, end: text + end, LINES, st.sampled_from(["", "end without line feed"]))


@given(base=TEXT, changed=TEXT)
def test_one_changed_side_is_the_result(base: str, changed: str) -> None:
    for result in (
        merge(base, changed, base),
        merge(base, base, changed),
        merge(base, changed, changed),
    ):
        assert (result.text, result.conflicts) == (changed, ())


def resolve(text: str, side: int) -> str:
    """Take one side of each conflict."""
    lines, place = [], None
    for line in split_lines(text):
        if line.startswith("<<<<<<< "):
            place = 0
        elif line == "=======\n":
            place = 1
        elif line.startswith(">>>>>>> "):
            place = None
        elif place is None or place == side:
            lines.append(line)
    return "".join(lines)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str, str, list[tuple[str, str]], str]:
    """Base, both sides, conflicts, and the expected text with `!` for each conflict.

    Regions that one side or both change are separated by lines that none changes; all lines are distinct.
    """
    base, yours, theirs, expected = "", "", "", ""
    conflicts = []
    for number in range(draw(st.integers(1, 6))):
        old = "".join(f"old {number}.{line}\n" for line in range(draw(st.integers(0, 3))))
        new = "".join(f"yours {number}.{line}\n" for line in range(draw(st.integers(0, 3))))
        other = "".join(f"theirs {number}.{line}\n" for line in range(draw(st.integers(0, 3))))
        match draw(st.sampled_from(["none", "yours", "theirs", "same", "both"])):
            case "none":
                mine, their, result = old, old, old
            case "yours":
                mine, their, result = new, old, new
            case "theirs":
                mine, their, result = old, other, other
            case "same":
                mine = their = result = new
            case _:
                mine, their, result = new, other, "!\n"
                if old == new:
                    result = other
                elif old == other or new == other:
                    result = new
                else:
                    conflicts.append((new, other))
        kept = f"kept {number}\n"
        base, yours, theirs, expected = (
            base + old + kept,
            yours + mine + kept,
            theirs + their + kept,
            expected + result + kept,
        )
    return base, yours, theirs, conflicts, expected


@given(edits())
def test_separate_changes_merge_and_others_conflict(
    case: tuple[str, str, str, list[tuple[str, str]], str],
) -> None:
    base, yours, theirs, conflicts, expected = case
    result = merge(base, yours, theirs)
    for new, other in conflicts:
        expected = expected.replace("!\n", f"<<<<<<< yours\n{new}=======\n{other}>>>>>>> theirs\n", 1)
    assert result.text == expected
    assert len(result.conflicts) == len(conflicts)
    lines = split_lines(result.text)
    assert all(lines[line - 1] == "<<<<<<< yours\n" for line in result.conflicts)
    assert has_conflicts(result.text) == bool(conflicts)


@given(base=TEXT, yours=TEXT, theirs=TEXT)
def test_each_side_has_its_lines_in_any_texts(base: str, yours: str, theirs: str) -> None:
    """A side of all conflicts contains every line that this side added."""
    text = merge(base, yours, theirs).text
    for side, changed in ((0, yours), (1, theirs)):
        # The end of a text without a line feed is completed before a marker.
        resolved = [line.rstrip("\n") for line in split_lines(resolve(text, side))]
        known = {line.rstrip("\n") for line in split_lines(base)}
        added = [line.rstrip("\n") for line in split_lines(changed) if line.rstrip("\n") not in known]
        for line in set(added):
            assert resolved.count(line) >= added.count(line)


def test_a_conflict_leaves_out_equal_lines() -> None:
    result = merge("a\nb\nc\n", "a\nsame\nx\nend\nc\n", "a\nsame\ny\nend\nc\n", theirs_label="kubewright 2")
    assert result.text == ("a\nsame\n<<<<<<< yours\nx\n=======\ny\n>>>>>>> kubewright 2\nend\nc\n")
    assert result.conflicts == (3,)


def test_markers_start_a_line() -> None:
    assert merge("a", "b", "c").text == "<<<<<<< yours\nb\n=======\nc\n>>>>>>> theirs\n"
    assert not has_conflicts("Title\n=======\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("base", "yours", "theirs"),
    [
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nc\nD\n"),
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nX\nc\nd\n"),
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nC\nd\n"),
        ("a\nb\n", "a\nx\nb\n", "a\ny\nb\n"),
        ("a\nb\n", "", "a\nb\nc\n"),
    ],
)
def test_the_result_is_that_of_git(tmp_path: Path, base: str, yours: str, theirs: str) -> None:
    for name, text in (("base", base), ("yours", yours), ("theirs", theirs)):
        (tmp_path / name).write_text(text)
    merged = subprocess.run(
        ["git", "merge-file", "-p", "yours", "base", "theirs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert merge(base, yours, theirs).text == merged.stdout
