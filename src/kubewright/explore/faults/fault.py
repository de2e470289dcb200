"""`Fault`: one fault of a run, and its text form.

    crash-after@w5              the process is killed after the fifth write was stored
    error=conflict@w2           the second write gets 409 and is not stored
    hold@d7+30s                 the seventh delivery, and later ones of that watch, arrive 30 s later

The text form is what replay tokens, reports and generated tests contain. A point also has a name that
survives changes of the operator, such as `create configmaps default/a (2)` (`explore.runs.trace`). A
fault with the name of its point happens there, whatever its number is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import Trace, TraceEvent

    from .targets import FaultTarget, Timing

_PATTERN = re.compile(
    r"(?P<action>[a-z-]+)(?:=(?P<value>[^@+]+))?@(?P<point>[a-z]\d+)(?:\+(?P<seconds>\d+(?:\.\d+)?)s)?"
)

Enumerate = Callable[["Trace", "Timing"], Iterable["Fault"]]
"""Returns the faults that a reference run offers."""


class FaultError(ValueError):
    """The text of a fault is not valid."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a point. A subclass is the fault of one action, and is registered by its definition."""

    action: ClassVar[str] = ""
    points: ClassVar[str] = ""
    """Letters of the points at which it is possible."""
    sentence: ClassVar[str] = ""
    """What happens, for reports, with `{event}`, `{seconds:g}` and `{value}`."""
    families: ClassVar[Mapping[str, Enumerate]] = {}
    """The faults of this class that each family explores in addition to those of other classes."""
    needs_event_loop: ClassVar[bool] = False
    """Whether only operators that share the event loop of the exploration can have the fault."""
    is_fallback: ClassVar[bool] = False
    """Whether other faults of its family are explored first: they explain more."""
    registered: ClassVar[dict[str, type[Fault]]] = {}
    """Classes by action."""

    point: str
    value: str = ""
    seconds: float = 0.0
    """Delay, in seconds of the driver's time."""
    name: str = field(default="", compare=False)
    """Name of the point; empty if its number identifies it."""

    def __init_subclass__(cls) -> None:
        Fault.registered[cls.action] = cls

    def __post_init__(self) -> None:
        if self.point[:1] not in self.points:
            raise FaultError(f"{self.action} is not possible at the point {self.point}")
        self.check()

    def check(self) -> None:
        """Raise `FaultError` if the value is not valid."""
        if self.value:
            raise FaultError(f"{self.action} has no value")

    @staticmethod
    def create(action: str, point: str, value: str = "", seconds: float = 0.0) -> Fault:
        """Return a fault; raise `FaultError`."""
        found = Fault.registered.get(action)
        if found is None:
            expected = ", ".join(sorted(Fault.registered))
            raise FaultError(f"unknown fault {action!r}; expected one of {expected}")
        return found(point, value, seconds)

    @staticmethod
    def parse(text: str) -> Fault:
        """Return the fault of a text; raise `FaultError`."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise FaultError(
                f"{text!r} is not a fault; expected a text such as crash-after@w5 or hold@d7+30s"
            )
        return Fault.create(
            match["action"], match["point"], match["value"] or "", float(match["seconds"] or 0)
        )

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        delay = f"+{self.seconds:g}s" if self.seconds else ""
        return f"{self.action}{value}@{self.point}{delay}"

    def __reduce__(self) -> tuple[Any, ...]:
        # By action: a class can be defined anywhere.
        return _restore, (self.action, self.point, self.value, self.seconds, self.name)

    @property
    def place(self) -> str:
        """What identifies the point: its letter and name if it has a name, otherwise its number."""
        return f"{self.point[0]} {self.name}" if self.name else self.point

    def event_in(self, trace: Trace) -> TraceEvent | None:
        """Return the event at which the fault happens in a run; `None` if the run does not reach it."""
        return next((each for each in trace if self.place in (each.point, each.place)), None)

    def named_in(self, trace: Trace) -> Fault:
        """Return the fault with the name that its point has in a run."""
        found = self.event_in(trace)
        return self if found is None else replace(self, name=found.name)

    def explain(self, trace: Trace) -> str:
        """Return a sentence about what the fault does in a run."""
        found = self.event_in(trace)
        event = f"`{found.text}` ({found.point})" if found is not None else self.name or self.point
        return self.describe(event)

    def describe(self, event: str) -> str:
        """Return the sentence with the request or event that it concerns."""
        return self.sentence.format(event=event, seconds=self.seconds, value=self.value)

    # Injection

    async def before(self, target: FaultTarget) -> None:
        """Inject the fault before the request is sent, or the event is delivered."""

    async def after(self, target: FaultTarget) -> None:
        """Inject the fault after the request was completed, before its response is received."""


def _restore(action: str, point: str, value: str, seconds: float, name: str) -> Fault:
    return replace(Fault.create(action, point, value, seconds), name=name)


Plan = tuple[Fault, ...]
"""The faults of one run, in the order of their points."""


def plan_of(faults: Iterable[Fault]) -> dict[str, Fault]:
    """Return faults by `place`; raise `FaultError` if two are at the same point."""
    plan: dict[str, Fault] = {}
    for each in faults:
        if each.place in plan:
            raise FaultError(f"two faults at the point {each.point}: {plan[each.place]} and {each}")
        plan[each.place] = each
    return plan


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Return the faults of a text in which they are separated by commas."""
    return tuple(Fault.parse(each) for each in text.split(",") if each.strip())
