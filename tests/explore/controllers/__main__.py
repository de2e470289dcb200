"""Explore the controllers of Kubewright completely, and print a row of the table for each scenario.

    python -m tests.explore.controllers [--jobs N] [--family NAME] [TEXT ...]

Only the scenarios whose names contain one of the texts are explored; `--trace` prints their reference runs.
"""

from __future__ import annotations

import argparse
import sys

from tests.explore.controllers import all_explored

from kubewright.explore import explore, run_once
from kubewright.explore.exploration import Progress
from kubewright.explore.testing import describe


def show(progress: Progress) -> None:
    """Print how many runs are done."""
    if progress.done % 20 == 0:
        print(f"{progress.scenario}: {progress.done}/{progress.total}", end="\r", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--family", action="append")
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for each in all_explored():
        if arguments.texts and not any(text in each.name for text in arguments.texts):
            continue
        if arguments.trace:
            run = run_once(each.factory, each.scenario)
            print(run.trace.text())
            print(*run.findings, sep="\n")
            continue
        run_once(each.factory, each.scenario)  # forked runs inherit what it imports
        families = arguments.family or each.families
        result = explore(
            each.factory, [each.scenario], families=families, jobs=arguments.jobs, on_progress=show
        )
        points = sum(next(iter(result.references.values())).trace.counts.values()) if result.references else 0
        print(
            f"| {each.name} | {points} | {result.runs} | {len(result.violations)} "
            f"| {result.cpu_seconds:.0f} s |{' nondeterministic' if result.nondeterministic else ''}",
            flush=True,
        )
        for violation in result.violations:
            print(f"    {violation.family}: {describe(violation)}")
            for other in violation.others:
                print(f"          and {other}")
        failed += bool(result.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
