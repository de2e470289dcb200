"""Plans as Markdown, for a comment on a pull request.

Names and values come from the cluster: they are in code spans and fenced blocks whose fences are longer than
any run of backquotes in them, so that they cannot end them.
"""

from __future__ import annotations

import re
from typing import Final

from .change_tree import change_title, headline, problem_sections
from .model import CHANGES, DISRUPTIVE, NOTHING, Plan, PlannedChange

MAX_DIFFS: Final = 60
MAX_SIZE: Final = 60_000
"""Characters after which diffs are left out: hosting services limit comments to 65,536."""
_VERDICTS: Final = {
    NOTHING: "Nothing would change",
    CHANGES: "Objects would change",
    DISRUPTIVE: "Running workloads would be disrupted",
}


def markdown_of(plan: Plan) -> str:
    """Return a plan as Markdown."""
    verdict = _VERDICTS.get(plan.exit_code, "The plan is incomplete, or denied")
    parts = [f"### {verdict}", f"Plan of {code(headline(plan))}: {escape(plan.summary())}."]
    changes = plan.operator_changes
    if changes:
        rows = ["| | Object | Owner | Disruption |", "|---|---|---|---|"]
        rows += [
            f"| {change_title(each)} | {code(str(each.name))} | "
            f"{code(str(each.owners[-1])) if each.owners else ''} | {escape(each.disruption)} |"
            for each in changes
        ]
        parts.append("\n".join(rows))
    for title, lines in problem_sections(plan):
        parts.append(f"**{title}**\n\n" + "\n".join(f"- {code(each)}" for each in lines))
    size = sum(map(len, parts))
    for number, each in enumerate(changes):
        block = _diff(each)
        if number >= MAX_DIFFS or size + len(block) > MAX_SIZE:
            parts.append(f"{len(changes) - number} diffs are left out; see the JSON or HTML report.")
            break
        size += len(block)
        if block:
            parts.append(block)
    return "\n\n".join(parts) + "\n"


def _diff(change: PlannedChange) -> str:
    if not change.diff:
        return ""
    runs = max((len(each) for each in re.findall("`+", change.diff)), default=0)
    fence = "`" * max(3, runs + 1)
    title = f"{change_title(change)}: {change.name}"
    return f"<details><summary>{_html(title)}</summary>\n\n{fence}diff\n{change.diff}{fence}\n\n</details>"


def code(text: str) -> str:
    """Return a text as a code span in one line."""
    text = " ".join(text.split()).replace("|", "\\|")
    runs = max((len(each) for each in re.findall("`+", text)), default=0)
    fence = "`" * (runs + 1)
    return f"{fence} {text} {fence}" if runs else f"`{text}`"


def escape(text: str) -> str:
    """Return a text without markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(text.split()))


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
