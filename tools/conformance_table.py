"""Write the table of Kubernetes' conformance tests, `docs/conformance-tests.md`, from reports of ginkgo.

    python tools/conformance_table.py [--title TEXT] REPORT.json ...

A report is what `ginkgo --json-report` writes. A test that is in several reports has the result of the last
one in which it was run. Reasons of failures that are not of the control plane are in
`tools/conformance_reasons.toml`: a regular expression over the name of the test, and the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance-tests.md"
REASONS = Path(__file__).with_name("conformance_reasons.toml")
MARK = "Conformance"
NOT_RUN = "not run"


class Result(NamedTuple):
    """A test and its result."""

    name: str
    state: str
    seconds: float
    message: str


def read_report(path: Path) -> Iterator[Result]:
    """Yield the conformance tests of a report; those that were not selected are `not run`."""
    for suite in json.loads(path.read_text()):
        for spec in suite.get("SpecReports") or ():
            groups = [spec.get("LeafNodeLabels") or (), *(spec.get("ContainerHierarchyLabels") or ())]
            labels = {label for group in groups for label in group or ()}
            words = [*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText") or ""]
            if spec.get("LeafNodeType") != "It" or not (MARK in labels or f"[{MARK}]" in words[-1]):
                continue
            failure = spec.get("Failure") or {}
            yield Result(
                " ".join(words),
                _state(spec, failure),
                spec.get("RunTime", 0) / 1e9,
                " ".join(str(failure.get("Message", "")).split())[:160],
            )


def _state(spec: dict[str, Any], failure: dict[str, Any]) -> str:
    state = str(spec.get("State", ""))
    if state == "passed":
        return state
    if state in ("skipped", "pending"):
        # A test that skips itself gives a reason; one that was not selected has none.
        return "skipped" if failure.get("Message") else NOT_RUN
    # At the end of the time, tests under way are interrupted, and others have no state.
    return NOT_RUN if state in ("", "interrupted", "aborted", "invalid") else "failed"


def merge(results: Iterable[Result]) -> list[Result]:
    """Return one result per test, sorted by name; a run replaces an earlier one."""
    found: dict[str, Result] = {}
    for each in results:
        if each.name not in found or each.state != NOT_RUN:
            found[each.name] = each
    return [found[name] for name in sorted(found)]


def page(results: list[Result], reasons: dict[str, str], title: str) -> str:
    """Return the text of the page."""
    counts = Counter(each.state for each in results)
    known = [each for each in results if each.state == "failed" and _reason(each, reasons)]
    lines = [
        "# Conformance tests of Kubernetes",
        "",
        "<!-- Written by tools/conformance_table.py from reports of ginkgo; do not edit. -->",
        "",
        title,
        "",
        f"{len(results)} tests: {counts['passed']} passed, {counts['failed']} failed "
        f"({len(known)} of them for a known reason), {counts['skipped']} skipped, {counts[NOT_RUN]} not run. "
        "[Conformance](conformance.md#end-to-end-tests-of-kubernetes) says how to repeat the run.",
        "",
        "| Test | Result | Seconds | Reason |",
        "|---|---|---:|---|",
    ]
    for each in results:
        reason = "" if each.state == "passed" else _reason(each, reasons) or each.message
        seconds = f"{each.seconds:.0f}" if each.state in ("passed", "failed") else ""
        lines.append(f"| {_cell(each.name)} | {each.state} | {seconds} | {_cell(reason)} |")
    return "\n".join(lines) + "\n"


def _reason(result: Result, reasons: dict[str, str]) -> str:
    if result.state != "failed":
        return ""
    return next((text for pattern, text in reasons.items() if re.search(pattern, result.name)), "")


def _cell(text: str) -> str:
    for character, escaped in (
        ("\\", "\\\\"),
        ("|", "\\|"),
        ("<", "&lt;"),
        ("*", "\\*"),
        ("_", "\\_"),
        ("`", "'"),
    ):
        text = text.replace(character, escaped)
    return text.replace("[", "\\[")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--title", default="", help="what was run: version, nodes, date")
    parser.add_argument("reports", nargs="+", type=Path)
    arguments = parser.parse_args()
    reasons = tomllib.loads(REASONS.read_text())["reasons"] if REASONS.exists() else {}
    results = merge(each for path in arguments.reports for each in read_report(path))
    PAGE.write_text(page(results, reasons, arguments.title))
    print(f"{PAGE.relative_to(ROOT)}: {dict(Counter(each.state for each in results))}")


if __name__ == "__main__":
    main()
