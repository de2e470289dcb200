"""CONTRIBUTING.md names existing files and directories."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_paths_of_change_requests_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Where do I change...")[1].split("\n## ")[0]
    rows = [line for line in table.split("\n") if line.startswith("| ")][1:]
    paths = re.findall(r"`((?:src|tests|tools|bench)/[^`]*)`", table)
    assert len(rows) >= 12
    assert [path for path in paths if not (ROOT / path).exists()] == []
