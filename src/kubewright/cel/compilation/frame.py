"""The state of one evaluation, and the budget that limits it.

Compiled code runs on a frame, a plain list: cost, cost limit, work, allocation, then one slot per variable.
Cost is what Kubernetes counts. Work counts what Kubernetes does not: the nodes of nested data that equality
or conversion visits, so that a cheap expression cannot traverse a large object repeatedly. Allocation counts
the elements and characters of new lists and strings: concatenation of lists costs 1 whatever their size, so
that 26 doublings would create a list of 67 million elements. It is shared by all evaluations of a budget.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.cel.costs import limits
from kubewright.cel.errors import CostExceeded

Frame = list[Any]

FIRST_SLOT: Final = 4
WORK_LIMIT: Final = 5_000_000
"""Limit of nodes visited without cost: about one second."""
ALLOCATION_LIMIT: Final = 5_000_000
"""Limit of the list elements that the evaluations of one budget create, about 40 MB; eight characters or
bytes count as one element."""


class Budget:
    """Cost shared by several evaluations, such as all rules of one object."""

    __slots__ = ("allocation", "limit", "per_call", "used")

    def __init__(
        self, limit: int = limits.RUNTIME_COST_BUDGET, *, per_call: int = limits.PER_CALL_LIMIT
    ) -> None:
        self.limit = limit
        self.per_call = per_call
        self.used = 0
        self.allocation = [0]
        """Elements created so far, in a list that frames share."""

    @property
    def remaining(self) -> int:
        """Remaining cost; negative once the budget is exceeded."""
        return self.limit - self.used


def charge(frame: Frame, cost: int) -> None:
    """Add a cost; raise `CostExceeded` beyond the limit."""
    frame[0] += cost
    if frame[0] > frame[1]:
        raise CostExceeded


def allocate(frame: Frame, value: Any) -> None:
    """Count the elements of a new list or string; raise `CostExceeded` beyond the limit."""
    allocation: list[int] = frame[3]
    allocation[0] += len(value) if isinstance(value, list) else len(value) >> 3
    if allocation[0] > ALLOCATION_LIMIT:
        raise CostExceeded


def work(frame: Frame, value: Any, times: int = 1) -> None:
    """Count the nodes of nested data before it is traversed, once or several times."""
    if not isinstance(value, list | dict):
        return
    stack = [value]
    count = 0
    while stack:
        item = stack.pop()
        count += len(item) + 1
        if count * times + frame[2] > WORK_LIMIT:
            raise CostExceeded
        for child in item.values() if isinstance(item, dict) else item:
            if type(child) is dict or type(child) is list:
                stack.append(child)
    frame[2] += count * times
