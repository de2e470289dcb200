"""Reports of runs that violate something: timeline, owner graphs, text, JSON and HTML."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from tests.explore.planted import count_from_stale_list, missed_delete_event, secret_regenerated
from tests.explore.planted.catalogue import load
from tests.explore.planted.kinds import Planted

from kubewright.explore import Exploration, Finding, Run, parse_faults, run_once
from kubewright.explore.baseline import Baseline, BaselineError
from kubewright.explore.reports.html import html_of
from kubewright.explore.reports.junit import junit_of
from kubewright.explore.reports.model import ExplorationReport, FamilyReport, OwnerNode, ViolationReport
from kubewright.explore.reports.run_report import describe_run
from kubewright.explore.reports.sarif import sarif_of
from kubewright.explore.reports.text import print_report
from kubewright.explore.reports.timeline import shorten, timeline_of


def run_planted(planted: Planted, faults: str) -> tuple[Run, Run]:
    """Return the reference run and a run with faults of an operator with a bug."""
    reference = run_once(lambda: planted.build(False), planted.scenario)
    run = run_once(
        lambda: planted.build(False), planted.scenario, faults=parse_faults(faults), reference=reference
    )
    return reference, run


def report_of(planted: Planted, faults: str, *, against_reference: bool = False) -> ViolationReport:
    reference, run = run_planted(planted, faults)
    finding = run.findings[0]
    return describe_run(
        run,
        planted.scenario,
        name=finding.name,
        message=finding.message,
        expected=reference.state if against_reference else None,
        replay="kubewright explore ...",
        test="def test(): ...",
    )


@pytest.fixture(scope="module")
def missed_delete() -> ViolationReport:
    return report_of(missed_delete_event.PLANTED, "crash-after@w1", against_reference=True)


def test_timeline_shows_what_was_true_seen_and_written(missed_delete: ViolationReport) -> None:
    lines = [(each.column, each.text) for each in missed_delete.timeline if each.emphasis != "dim"]
    fault = (
        "fault crash-after@w1: the operator is killed after "
        "`patch parts.planted.example.com external/a` (w1) was stored, before it receives the response"
    )
    assert [line for line in lines if not line[1].startswith("step")] == [
        ("true", "create apps.planted.example.com default/a"),
        ("saw", "ADDED apps.planted.example.com default/a"),
        ("wrote", "patch parts.planted.example.com external/a"),
        ("true", fault),
        ("wrote", "operator-1#1 is killed"),
        ("true", "delete apps.planted.example.com default/a"),
        (
            "true",
            "final-state: Part.planted.example.com external/a exists, and not in the reference run",
        ),
    ]
    assert missed_delete.steps[0] == "apply App a"
    assert missed_delete.before == []
    assert [(each.text, each.change) for each in missed_delete.after] == [
        ("Part.planted.example.com external/a", "added")
    ]


def test_stale_reads_are_marked_with_what_was_true() -> None:
    report = report_of(count_from_stale_list.PLANTED, "stale@w1+30s")
    stale = [each for each in report.timeline if each.emphasis == "stale"]
    assert stale[0].text.startswith("list parts.planted.example.com")
    assert "stale, as of revision" in stale[0].detail
    assert report.timeline[-1].text == "not_too_many: 3 parts exist for 2 replicas"
    (root,) = report.before
    (after,) = report.after
    assert len(root.children) == 0
    assert [each.change for each in after.children] == ["added", "added", "added"]
    assert len(shorten(report.timeline, limit=5)) == 5


def test_junit_and_sarif(missed_delete: ViolationReport) -> None:
    report = ExplorationReport(
        operator="shop:operator",
        violations=[replace(missed_delete, family="crash", key="Part external/# exists")],
        families=[
            FamilyReport(name="crash", points=3, runs=3, violations=1),
            FamilyReport(name="stale", points=4, runs=1, skipped=3),
        ],
        complete=False,
    )
    suite = ElementTree.fromstring(junit_of(report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite.find("testcase[@name='crash']/failure")
    assert failure is not None
    assert failure.get("type") == "final-state"
    assert "kubewright explore ..." in (failure.text or "")
    skipped = suite.find("testcase[@name='stale']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "3 faults were not explored"
    (run,) = json.loads(sarif_of(report))["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "final-state"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "tests/explore/planted/missed_delete_event.py"
    assert location["region"]["startLine"] > 1
    other = replace(report.violations[0], problems=["Part external/2 exists"])
    again = json.loads(sarif_of(replace(report, violations=[other])))
    assert again["runs"][0]["results"][0]["partialFingerprints"] == result["partialFingerprints"]


def test_baseline(tmp_path: Path) -> None:
    def exploration() -> Exploration:
        result = Exploration()
        for message in ("Part a-7 does not exist", "Part b does not exist"):
            run = Run(scenario="resize", seed=0, findings=[Finding("final-state", message)])
            result.add_finding(run.findings[0], run, run)
        return result

    file = tmp_path / "baseline.yaml"
    first = exploration()
    first.violations.pop()
    file.write_text(Baseline.of(first))
    result = exploration()
    Baseline.read(file).apply(result)
    assert [each.message for each in result.violations] == ["Part b does not exist"]
    assert result.notes == ["accepted by the baseline: resize: final-state: Part a-# does not exist"]
    fixed = Exploration()
    Baseline.read(file).apply(fixed)
    assert fixed.notes == ["not found any more, remove it: resize: final-state: Part a-# does not exist"]
    file.write_text("accepted: [{scenario: resize}]")
    with pytest.raises(BaselineError, match=r"accepted\[0\] must have scenario, violation, message"):
        Baseline.read(file)
    with pytest.raises(BaselineError, match="cannot read"):
        Baseline.read(tmp_path / "missing.yaml")


def test_text(missed_delete: ViolationReport) -> None:
    report = ExplorationReport(
        operator="shop:operator",
        violations=[missed_delete],
        families=[FamilyReport(name="crash", points=3, runs=3, violations=1)],
        runs=3,
        seconds=2.0,
        complete=False,
    )
    console = Console(file=io.StringIO(), width=120)
    print_report(report, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "violation 1: final-state\n" in text
    assert "2.000s #1   WROTE patch parts.planted.example.com external/a  (revision" in text
    assert "owners after\n└── + Part.planted.example.com external/a\n" in text
    assert "replay: kubewright explore ...\n" in text
    assert "1 violation found in 3 runs (2.0 s, 90 per minute); not every fault was explored" in text
    assert json.loads(report.to_json())["violations"][0]["faults"] == ["crash-after@w1"]


def test_html_escapes_everything_and_loads_nothing(missed_delete: ViolationReport) -> None:
    hostile = '<script>alert("x")</script>'
    report = ExplorationReport(
        operator=hostile,
        scenarios=[hostile],
        violations=[
            replace(
                missed_delete,
                scenario=hostile,
                source=hostile,
                rule=hostile,
                problems=[hostile],
                explanation=[hostile],
                steps=[hostile],
                timeline=[
                    replace(each, text=hostile, detail=hostile, process=hostile)
                    for each in missed_delete.timeline
                ],
                before=[OwnerNode(text=hostile, note=hostile)],
                before_title=hostile,
                replay=hostile,
                test=hostile,
            )
        ],
        families=[FamilyReport(name=hostile)],
    )
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    page = html_of(report)
    Parser().feed(page)
    names = {tag for tag, _ in tags}
    assert "table" in names
    assert names.isdisjoint({"script", "link", "img", "iframe", "a"})
    assert not any({"src", "href", "onclick"} & attributes.keys() for _, attributes in tags)
    assert "url(" not in page
    assert "&lt;script&gt;" in page


def test_values_of_secrets_are_not_part_of_reports() -> None:
    _, run = run_planted(secret_regenerated.PLANTED, "crash-after@w1")
    (finding,) = run.findings
    assert finding.message == "Secret default/a-password was changed with a new value of password"
    report = describe_run(
        run, secret_regenerated.PLANTED.scenario, name=finding.name, message=finding.message
    )
    assert run.state is not None
    (secret,) = run.state.of_kind("Secret")
    versions = [secret, *run.state.history(secret)]
    page = html_of(ExplorationReport(operator="a", violations=[report]))
    assert len(versions) == 2
    assert not any(each.get("data", "password") in page for each in versions)


def test_timeline_shows_a_delayed_write_when_it_is_stored() -> None:
    planted = load("non_atomic_children")
    scenario = replace(planted.scenario, invariants=())
    run = run_once(lambda: planted.build(True), scenario, faults=parse_faults("slow-request@w1+3s"))
    lines = [each for each in timeline_of(run.trace) if each.point == "w1"]
    assert [each.text.partition(" ")[0] for each in lines] == ["sends", lines[1].text.partition(" ")[0]]
    assert lines[1].time >= lines[0].time + 3.0
    assert lines[1].detail.startswith("revision ")


def test_timeline_shows_the_values_of_external_calls() -> None:
    planted = load("record_leaked")
    run = run_once(lambda: planted.build(True), planted.scenario)
    lines = [each for each in timeline_of(run.trace) if each.text == "external: create dns shop"]
    assert [each.detail for each in lines] == ['"10.0.0.1"']
