"""Plans as one self-contained HTML page with the owner tree: no scripts, no external files.

Every value is escaped, because names, messages and values of fields come from the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .change_tree import (
    MARKS,
    ChangeNode,
    change_title,
    change_trees,
    headline,
    problem_sections,
    shown_value,
)
from .model import CHANGES, NOTHING, Plan, PlannedChange

_STYLE = """
:root {
  color-scheme: light dark;
  --line: #8884; --change: #b45309; --bad: #b91c1c; --good: #15803d
}
@media (prefers-color-scheme: dark) {
  :root { --change: #fbbf24; --bad: #f87171; --good: #4ade80 }
}
html { background: Canvas; color: CanvasText }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.2 }
code, pre, .fields td { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere }
pre { padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto }
pre { margin: .4rem 0 }
ul.tree, ul.tree ul { list-style: none; padding-left: 1.3rem; margin: .2rem 0 }
ul.tree { padding-left: 0 }
ul.tree ul { border-left: 1px solid var(--line) }
.fields { border-collapse: collapse; margin: .2rem 0 .4rem }
.fields td { padding: .1rem .6rem .1rem 0; vertical-align: top }
summary { cursor: pointer }
section { border: 1px solid var(--line); border-radius: 8px; padding: 0 1rem 1rem; margin: 1rem 0 }
.create, .good, .plus { color: var(--good) }
.change { color: var(--change) }
.delete, .recreate, .bad, .minus { color: var(--bad) }
.dim, small { opacity: .65 }
"""


def html_of(plan: Plan) -> str:
    """Return a plan as an HTML page."""
    css = {NOTHING: "good", CHANGES: "change"}.get(plan.exit_code, "bad")
    title = f"Plan of {plan.operator}"
    own = [each for each in plan.changes if each.actor == "operator" or each.disruption]
    rest = [each for each in plan.changes if each not in own]
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="{css}"><strong>{escape(plan.summary())}</strong></p>',
        f"<p>{escape(headline(plan))}; as <code>{escape(plan.service_account)}</code>; workloads: assumed "
        f"{escape(plan.assume)}; idle after {plan.seconds:.0f} virtual seconds.</p>",
        *(_section(name, lines) for name, lines in problem_sections(plan)),
        f'<h2>Objects</h2><ul class="tree">{_nodes(change_trees(own))}</ul>' if own else "",
    ]
    if rest:
        parts.append(
            f"<details><summary>{len(rest)} changes by controllers of the cluster</summary>"
            f'<ul class="tree">{_nodes(change_trees(rest))}</ul></details>'
        )
    return "\n".join((*parts, "</body></html>")) + "\n"


def _section(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in lines)
    tag = "ol" if title.startswith("Order") else "ul"
    return f"<section><h2>{escape(title)}</h2><{tag}>{items}</{tag}></section>"


def _nodes(nodes: Sequence[ChangeNode]) -> str:
    return "".join(
        f"<li>{_change(node.change) if node.change is not None else _owner(node)}"
        + (f"<ul>{_nodes(node.children)}</ul>" if node.children else "")
        + "</li>"
        for node in nodes
    )


def _owner(node: ChangeNode) -> str:
    return f'<span class="dim">{escape(str(node.name))}</span>'


def _change(change: PlannedChange) -> str:
    disruption = f' <strong class="bad">{escape(change.disruption)}</strong>' if change.disruption else ""
    policy = f" <small>{escape(change.policy)}</small>" if change.policy else ""
    head = (
        f'<span class="{change.verb}">{MARKS[change.verb]} {escape(str(change.name))}</span> '
        f"<small>{escape(change_title(change))}</small>{disruption}{policy}"
    )
    rows = "".join(
        f"<tr><td>{escape(each.path.lstrip('.'))}</td>"
        f"<td class='minus'>{escape(shown_value(each.before))}</td>"
        f"<td class='plus'>{escape(shown_value(each.after))}</td></tr>"
        for each in change.fields
    )
    body = f"<table class='fields'>{rows}</table>" if rows else ""
    if change.diff:
        body += f"<pre>{''.join(map(_diff_line, change.diff.splitlines()))}</pre>"
    return f"<details><summary>{head}</summary>{body}</details>" if body else head


def _diff_line(line: str) -> str:
    css = {"+": "plus", "-": "minus", "@": "dim"}.get(line[:1], "")
    return f'<span class="{css}">{escape(line)}</span>\n'
