"""Full and read-only disks: writes fail with the reason, reads still work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("fault", ["full", "readonly"])
def test_faults_of_the_disk(fault: str, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs a mount namespace (unshare -rm) to make a small disk")
    (tmp_path / "disk").mkdir()
    ran = subprocess.run(
        ["unshare", "-rm", sys.executable, str(HERE / "small_disk.py"), fault, str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
