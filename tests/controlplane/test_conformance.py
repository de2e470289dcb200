"""The answers of `kubewright up` beside those that a kube-apiserver gave to the same requests.

The recorded requests and answers are not part of this project; where they are not at hand, nothing is
compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "conformance"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CORPUS / "conform.py").exists(), reason="no recorded conformance cases here"),
]


@pytest.fixture(scope="module")
def result(up_with: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    server = up_with("--disable-admission-plugins", "ServiceAccount")
    path = tmp_path_factory.mktemp("conformance") / "result.json"
    command = [sys.executable, str(CORPUS / "conform.py"), "check", "--kubeconfig", str(server.kubeconfig)]
    command += ["--json", str(path), "--max-wait", "20", "--keep"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert path.exists(), ran.stdout + ran.stderr
    return json.loads(path.read_text()), ran.stdout


@pytest.mark.parametrize(("level", "share"), [("l2", 0.97), ("l3", 0.85)])
def test_steps_that_are_answered_alike(result: Any, level: str, share: float) -> None:
    total, report = result[0]["total"], result[1]
    assert total["steps"] > 0
    assert total[level] >= share * total["steps"], report


def test_no_category_falls_behind(result: Any) -> None:
    behind = {
        name: f"{counts['l2']} of {counts['steps']}"
        for name, counts in result[0]["categories"].items()
        if counts["l2"] < 0.85 * counts["steps"]
    }
    assert not behind, f"{behind}\n{result[1]}"
