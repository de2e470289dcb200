"""The state of one evaluation, and the budget that limits it.

Compiled code runs on a frame, a plain list: cost, cost limit, work, then one slot per variable. Cost is what
Kubernetes counts. Work counts what Kubernetes does not: the nodes of nested data that equality or conversion
visits, so that a cheap expression cannot traverse a large object repeatedly.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.cel import limits
from kubewright.cel.errors import CostExceeded

Frame = list[Any]

FIRST_SLOT: Final = 3
WORK_LIMIT: Final = 5_000_000
"""Limit of nodes visited without cost: about one second."""


class Budget:
    """Cost shared by several evaluations, such as all rules of one object."""

    __slots__ = ("limit", "per_call", "used")

    def __init__(
        self, limit: int = limits.RUNTIME_COST_BUDGET, *, per_call: int = limits.PER_CALL_LIMIT
    ) -> None:
        self.limit = limit
        self.per_call = per_call
        self.used = 0

    @property
    def remaining(self) -> int:
        """Remaining cost; negative once the budget is exceeded."""
        return self.limit - self.used


def charge(frame: Frame, cost: int) -> None:
    """Add a cost; raise `CostExceeded` beyond the limit."""
    frame[0] += cost
    if frame[0] > frame[1]:
        raise CostExceeded


def work(frame: Frame, value: Any) -> None:
    """Count the nodes of nested data before it is traversed."""
    if not isinstance(value, list | dict):
        return
    stack = [value]
    count = 0
    while stack:
        item = stack.pop()
        count += len(item) + 1
        if count + frame[2] > WORK_LIMIT:
            raise CostExceeded
        for child in item.values() if isinstance(item, dict) else item:
            if type(child) is dict or type(child) is list:
                stack.append(child)
    frame[2] += count
