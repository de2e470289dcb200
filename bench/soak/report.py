"""What came out of a soak."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

GROWTH = 1.10
"""How much more memory than after the warm-up may be held at the end."""


@dataclass
class Report:
    """Counts of what was done, what was refused as expected, and complaints."""

    seconds: float = 0
    cpu: float = 0
    done: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    compared: int = 0
    memory: list[float] = field(default_factory=list)
    warm: int = 0

    def complain(self, text: str) -> None:
        """Something is wrong. The first hundred complaints are kept."""
        if len(self.complaints) < 100:
            self.complaints.append(text)

    @property
    def memory_after_warm_up(self) -> float:
        """MB that the server held after the warm-up."""
        return self._around(self.memory[self.warm :][: self._window])

    @property
    def memory_at_the_end(self) -> float:
        """MB that the server held at the end."""
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
        """Whether there is nothing to complain about."""
        return not self.complaints and self.flat

    def __str__(self) -> str:
        requests = sum(self.done.values())
        kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(self.done.items()))
        refused = ", ".join(f"{name} {count:,}" for name, count in sorted(self.expected.items()))
        lines = [
            f"{requests:,} operations in {self.seconds:.0f} s ({self.cpu:.0f} s CPU of the server): {kinds}",
            f"refused as expected: {refused}",
            f"compared at the end: {self.compared:,} objects",
            f"memory: {self.memory_after_warm_up:.1f} MB after warm-up, {self.memory_at_the_end:.1f} MB at "
            f"the end, {max(self.memory, default=0):.1f} MB at most{'' if self.flat else '  GROWS'}",
            *(f"WRONG {text}" for text in self.complaints),
        ]
        return "\n".join(lines)
