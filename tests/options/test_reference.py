"""The reference page is what the model says."""

from __future__ import annotations

import runpy
from pathlib import Path

from kubewright.cli.clusters.up_options import OPTIONS

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "generate_options.py"))
    page = (ROOT / "docs" / "options.md").read_text()
    assert page == tool["page"](), "run python tools/generate_options.py"
    for one in OPTIONS:
        assert (
            sum(line.startswith(f"| `--{one.name}") and one.help[:20] in line for line in page.splitlines())
            == 1
        )
