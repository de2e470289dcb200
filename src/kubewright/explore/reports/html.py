"""Reports as one self-contained HTML page: no scripts, no external files.

Every value is escaped, because names, messages and values of fields come from the explored operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .model import ExplorationReport, OwnerNode, TimelineEntry, ViolationReport

_STYLE = """
:root {
  color-scheme: light dark;
  --line: #8884; --fault: #b45309; --bad: #b91c1c; --good: #15803d; --step: #0e7490
}
@media (prefers-color-scheme: dark) {
  :root { --fault: #fbbf24; --bad: #f87171; --good: #4ade80; --step: #22d3ee }
}
html { background: Canvas; color: CanvasText }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2 }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem; border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right }
code, pre, .timeline td { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere }
.timeline td:nth-child(-n+2) { white-space: nowrap }
.timeline th:nth-child(n+3) { width: 29% }
pre { padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto }
section { border: 1px solid var(--line); border-radius: 8px; padding: 0 1rem 1rem; margin: 1.5rem 0 }
.graphs { display: flex; gap: 2rem; flex-wrap: wrap }
.graphs ul { padding-left: 1.2rem }
.fault, .stale, .changed { color: var(--fault) }
.fault, .problem { font-weight: 600 }
.error, .problem, .removed, .bad { color: var(--bad) }
.added, .good { color: var(--good) }
.step { color: var(--step) }
.dim, small { opacity: .65 }
"""


def html_of(report: ExplorationReport) -> str:
    """Return a report as an HTML page."""
    title = f"Exploration of {report.operator}"
    count = len(report.violations)
    verdict = (
        f'<p class="bad"><strong>{count} violation{"s" if count != 1 else ""}</strong></p>'
        if count
        else '<p class="good"><strong>No violations</strong></p>'
    )
    limit = "" if report.complete else " The budget was used up; not every point was explored."
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        verdict,
        f"<p>{report.runs} runs in {report.seconds:.1f} s, seed {report.seed}; scenarios: "
        f"{escape(', '.join(report.scenarios))}.{limit}</p>",
        _list(report.notes, "dim") if report.notes else "",
        _families(report),
        *(_violation(number, each) for number, each in enumerate(report.violations, 1)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _families(report: ExplorationReport) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.name)}</td>"
        + "".join(
            f'<td class="number">{value}</td>'
            for value in (each.points, each.runs, each.skipped, each.violations)
        )
        + "</tr>"
        for each in report.families
    )
    head = "".join(
        f'<th class="number">{title}</th>' for title in ("Points", "Runs", "Skipped", "Violations")
    )
    return f"<table><tr><th>Family</th>{head}</tr>{rows}</table>"


def _violation(number: int, violation: ViolationReport) -> str:
    faults = violation.explanation or ["no fault is needed"]
    parts = [
        f'<section><h2 class="bad">{number}. {escape(violation.rule)}</h2>',
        f"<p>Scenario <code>{escape(violation.scenario)}</code> "
        f"<small>{escape(violation.source)}</small></p>",
        _list(violation.problems, "problem"),
        "<h3>Faults</h3>",
        _list(faults, "fault"),
    ]
    if violation.steps:
        parts += ["<h3>Steps</h3>", _list(violation.steps, "step")]
    parts += [
        "<h3>Timeline</h3>",
        '<table class="timeline"><tr><th>Time</th><th>Process</th><th>What was true</th>'
        "<th>What the operator saw</th><th>What it wrote</th></tr>",
        *map(_row, violation.timeline),
        "</table>",
    ]
    if violation.before or violation.after:
        parts += [
            '<h3>Owner graph</h3><div class="graphs">',
            f"<div><strong>{escape(violation.before_title)}</strong>{_nodes(violation.before)}</div>",
            f"<div><strong>after</strong>{_nodes(violation.after)}</div></div>",
        ]
    if violation.replay:
        parts.append(f"<h3>Replay</h3><pre>{escape(violation.replay)}</pre>")
    if violation.test:
        parts.append(f"<h3>Test</h3><pre>{escape(violation.test)}</pre>")
    parts.append("</section>")
    return "\n".join(parts)


def _row(entry: TimelineEntry) -> str:
    detail = f" <small>{escape(entry.detail)}</small>" if entry.detail else ""
    cell = f'<td class="{escape(entry.emphasis)}">{escape(entry.text)}{detail}</td>'
    cells = [cell if entry.column == name else "<td></td>" for name in ("true", "saw", "wrote")]
    process = "" if entry.process == "scenario" else entry.process
    return f"<tr><td>{entry.time:.3f} s</td><td>{escape(process)}</td>{''.join(cells)}</tr>"


def _nodes(nodes: Sequence[OwnerNode]) -> str:
    if not nodes:
        return '<p class="dim">no objects</p>'
    marks = {"added": "+ ", "removed": "- ", "changed": "~ ", "": ""}
    items = "".join(
        f'<li><span class="{each.change}">{marks[each.change]}{escape(each.text)}</span>'
        + (f" <small>{escape(each.note)}</small>" if each.note else "")
        + (_nodes(each.children) if each.children else "")
        + "</li>"
        for each in nodes
    )
    return f"<ul>{items}</ul>"


def _list(texts: Iterable[str], css: str) -> str:
    items = "".join(f'<li class="{css}">{escape(each)}</li>' for each in texts)
    return f"<ul>{items}</ul>"
