"""Reports as JUnit XML: a test case per fault family, which violations fail, and the budget skips."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from .model import ExplorationReport, ViolationReport

REFERENCE = "reference run"
"""The test case of violations without a fault."""


def junit_of(report: ExplorationReport) -> str:
    """Return a report as JUnit XML."""
    points = {REFERENCE: 0, **{each.name: each.points - each.runs for each in report.families}}
    failed: dict[str, list[ViolationReport]] = {}
    for each in report.violations:
        failed.setdefault(each.family or REFERENCE, []).append(each)
    names = list(dict.fromkeys((*points, *failed)))
    skipped = [name for name in names if points.get(name) and name not in failed and not report.complete]
    suite = ET.Element(
        "testsuite",
        name=f"kubewright explore {report.operator}",
        tests=str(len(names)),
        failures=str(len(failed)),
        skipped=str(len(skipped)),
        errors="0",
        time=f"{report.seconds:.3f}",
    )
    for name in names:
        case = ET.SubElement(suite, "testcase", classname=report.operator, name=name)
        for each in failed.get(name, ()):
            title = _clean(f"{each.rule}: {each.problems[0]}")
            failure = ET.SubElement(case, "failure", type=each.rule, message=title)
            lines = [f"scenario: {each.scenario} ({each.source})", *each.explanation, each.replay]
            failure.text = _clean("\n".join(lines))
        if name in skipped:
            ET.SubElement(case, "skipped", message=f"{points[name]} faults were not explored")
    ET.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suite, encoding="unicode")}\n'


def _clean(text: str) -> str:
    """Return a text without control characters, which XML cannot contain."""
    return "".join(each if each >= " " or each in "\n\t" else "?" for each in text)
