"""Minimises a violation of a program: the fewest steps with which its fault still violates the same.

Each step is left out in a reference run and a run with the fault, which is found again by its point. That
takes two runs in real time per step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import ProgramRun


async def minimise(
    execute: Callable[..., Awaitable[ProgramRun]],
    run: ProgramRun,
    reference: ProgramRun,
    name: str,
    *,
    is_exhausted: Callable[[], bool],
) -> tuple[ProgramRun, ProgramRun]:
    """Return the smallest run with the same violation that was found, and its reference run.

    `execute` makes a run of the scenario; its parameters are those of `run_command`.
    """
    count = len(reference.steps)
    if count < 2:
        return run, reference
    for step in reversed(range(count)):
        if is_exhausted():
            break
        skip = tuple(sorted((*run.skipped_steps, step)))
        if len(skip) == count:
            break
        shorter = await execute(skip=skip)
        if not shorter.ok:
            continue
        found = await execute(
            faults=run.faults,
            keys=run.keys,
            reference=shorter,
            skip=skip,
            is_known=lambda found_name, _: found_name == name,
        )
        if found.is_complete and any(each.name == name for each in found.findings):
            run, reference = found, shorter
    return run, reference


__all__ = ["minimise"]
