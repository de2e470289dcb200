"""The public surface against that of the last release: every change is in the changelog."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import kubewright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from public_surface import SURFACE, differences, surface  # noqa: E402


def unreleased_changes() -> str:
    """Return the sections of the changelog that no release has, or only the current one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    current = ("Unreleased", kubewright.__version__, f"[{kubewright.__version__}]")
    return "\n".join(each for each in sections if each.startswith(current))


def test_changes_of_the_public_surface_are_in_the_changelog() -> None:
    changed = differences(json.loads(SURFACE.read_text(encoding="utf-8")), surface())
    text = unreleased_changes()
    missing = [name for name in changed if f"`{name.rpartition('.')[2]}" not in text]
    assert not missing, (
        "name these in CHANGELOG.md (section Unreleased), with `backticks`, and run "
        f"python tools/public_surface.py before the release: {missing}"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"p": {"a": "value"}}, {"p": {}}, ["p.a"]),
        ({"p": {}}, {"p": {"a": {"function": "x"}}}, ["p.a"]),
        ({"p": {"a": {"function": "x"}}}, {"p": {"a": {"function": "x, y"}}}, ["p.a"]),
        (
            {"p": {"A": {"class": "", "methods": {"get": "self"}}}},
            {"p": {"A": {"class": "", "methods": {"get": "self, name"}}}},
            ["p.A.get"],
        ),
        ({"p": {"a": "value"}}, {"p": {"a": "value"}}, []),
    ],
)
def test_differences(old: dict, new: dict, expected: list[str]) -> None:
    assert differences(old, new) == expected
