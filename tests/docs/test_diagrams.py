"""Diagrams of the pages are rendered, with the colours of the theme."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def test_diagrams_are_rendered_and_used() -> None:
    tool = [sys.executable, str(ROOT / "tools/diagrams.py"), "--check"]
    result = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_diagrams_are_well_formed_and_follow_the_theme() -> None:
    files = sorted((ROOT / "docs/diagrams").glob("*.svg"))
    assert len(files) > 30
    for path in files:
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.get("id", "").startswith("d"), path
        assert "var(--diagram-text)" in text, path
        assert "http://" not in text.replace("http://www.w3.org", ""), path
