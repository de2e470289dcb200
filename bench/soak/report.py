"""Results of a soak run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

GROWTH = 1.10
"""Allowed ratio of the memory at the end to the memory after the warm-up."""


@dataclass
class Report:
    """Counts of operations, of expected failures, and error messages."""

    seconds: float = 0
    cpu: float = 0
    done: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    compared: int = 0
    memory: list[float] = field(default_factory=list)
    warm: int = 0

    def add_error(self, text: str) -> None:
        """Record an error. Only the first hundred are stored."""
        if len(self.errors) < 100:
            self.errors.append(text)

    @property
    def memory_after_warm_up(self) -> float:
        """Memory of the server after the warm-up, in MB."""
        return self._around(self.memory[self.warm :][: self._window])

    @property
    def memory_at_the_end(self) -> float:
        """Memory of the server at the end, in MB."""
        return self._around(self.memory[-self._window :])

    @property
    def _window(self) -> int:
        return max(1, (len(self.memory) - self.warm) // 10)

    @staticmethod
    def _around(samples: list[float]) -> float:
        return median(samples) if samples else 0

    @property
    def flat(self) -> bool:
        """Whether memory stayed within its bounds."""
        return self.memory_at_the_end <= self.memory_after_warm_up * GROWTH

    @property
    def good(self) -> bool:
        """Whether there were no errors."""
        return not self.errors and self.flat

    def __str__(self) -> str:
        requests = sum(self.done.values())
        kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(self.done.items()))
        expected = ", ".join(f"{name} {count:,}" for name, count in sorted(self.expected.items()))
        lines = [
            f"{requests:,} operations in {self.seconds:.0f} s ({self.cpu:.0f} s CPU of the server): {kinds}",
            f"failed as expected: {expected}",
            f"compared at the end: {self.compared:,} objects",
            f"memory: {self.memory_after_warm_up:.1f} MB after warm-up, {self.memory_at_the_end:.1f} MB at "
            f"the end, {max(self.memory, default=0):.1f} MB at most"
            f"{'' if self.flat else ' (exceeds the limit)'}",
            *(f"ERROR {text}" for text in self.errors),
        ]
        return "\n".join(lines)
