"""A short soak run (`python -m bench.soak`): nothing fails and nothing gets lost.

Memory is left to the long one: in a few seconds it only rises.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import asyncio, sys
from bench.soak import soak
report = asyncio.run(soak(8, store=sys.argv[1], seed=7))
print(report)
sys.exit(bool(report.errors) or report.compared == 0 or not report.done["define"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory:", "sqlite:{folder}/soak.db"])
def test_mixed_load(store: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, store.format(folder=tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout[:10_000] + ran.stderr
