"""The table of Kubernetes' conformance tests, from reports of ginkgo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.conformance_table import merge, page, read_report


def spec(name: str, state: str, message: str = "") -> dict[str, Any]:
    return {
        "LeafNodeType": "It",
        "LeafNodeText": f"{name} [Conformance]",
        "ContainerHierarchyTexts": ["[sig-node] Pods"],
        "State": state,
        "RunTime": 2_000_000_000,
        "Failure": {"Message": message} if message else None,
    }


def write(path: Path, *specs: dict[str, Any]) -> Path:
    path.write_text(json.dumps([{"SpecReports": specs}]))
    return path


def test_a_later_run_replaces_an_earlier_one(tmp_path: Path) -> None:
    other = {**spec("other", "passed"), "LeafNodeText": "without the mark"}
    first = write(
        tmp_path / "1.json",
        spec("a", "failed", "a | b"),
        spec("b", "passed"),
        spec("c", "skipped"),
        spec("d", "interrupted"),
        other,
    )
    second = write(
        tmp_path / "2.json", spec("a", "passed"), spec("b", "skipped"), spec("c", "timedout", "late")
    )
    results = merge([*read_report(first), *read_report(second)])
    assert [(each.name[-15:-14], each.state) for each in results] == [
        ("a", "passed"),
        ("b", "passed"),
        ("c", "failed"),
        ("d", "not run"),
    ]
    text = page(results, {r"Pods c": "no registry"}, "title")
    assert "4 tests: 2 passed, 1 failed (1 of them for a known reason), 0 skipped, 1 not run" in text
    assert "no registry" in text
