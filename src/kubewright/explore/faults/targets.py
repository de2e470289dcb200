"""`FaultTarget`: what a fault can do at its point; `Timing`: how long it lasts.

Each driver has a target for each kind of point: requests and deliveries of a simulated process, calls of
external systems, reads of the storage, and requests that a program sends over the network. Methods that end a
request do not return: they raise what the transport, or the handler of the server, turns into a response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .fault import FaultError

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import TraceEvent

    from .error_responses import ErrorResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Delays of the faults of a driver, in seconds."""

    is_virtual: bool
    """Whether time passes only while nothing else happens: delays can then be chosen by what they hide."""
    long_seconds: float
    """A long delay: of a watch event, or of an unreachable server."""
    lag_seconds: float
    """How far an API server lags."""
    gap_seconds: float
    """Longest time for which a watch cannot be started."""
    slow_seconds: float
    """Longest delay of a request."""
    pause_seconds: float
    """Pause of a leader, longer than its Lease and the retry periods of the other replica."""


VIRTUAL = Timing(
    is_virtual=True,
    long_seconds=120.0,
    lag_seconds=30.0,
    gap_seconds=600.0,
    slow_seconds=300.0,
    pause_seconds=120.0,
)
"""Timing of a simulated cluster."""
REAL = Timing(
    is_virtual=False,
    long_seconds=2.0,
    lag_seconds=5.0,
    gap_seconds=2.0,
    slow_seconds=1.0,
    pause_seconds=0.0,
)
"""Timing of a program: every second is waited for."""


class FaultTarget:
    """The process, and the request or event, that a fault concerns."""

    event: TraceEvent

    def _impossible(self) -> FaultError:
        return FaultError(f"the fault is not possible at {self.event.text}")

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        raise self._impossible()

    # Requests

    async def respond(self, error: ErrorResponse) -> None:
        """End the request with an error response."""
        raise self._impossible()

    async def time_out(self) -> None:
        """End the request without a response."""
        raise self._impossible()

    async def disconnect(self, seconds: float) -> None:
        """Make the API server unreachable for the process; its watches and the request fail."""
        raise self._impossible()

    async def make_stale(self) -> None:
        """Let a list return the state before the last change of its resource."""
        raise self._impossible()

    async def fail_application(self, how: str, seconds: float) -> None:
        """Let the application that is called fail for some time: `how` is a value of `application`."""
        raise self._impossible()

    # Watches

    async def break_watch(self) -> None:
        """Break the connection of the watch; it can resume."""
        raise self._impossible()

    async def expire_watch(self, seconds: float = 0.0) -> None:
        """End the watch with 410 Gone; with `seconds` it breaks, and expires when it is started later."""
        raise self._impossible()

    # Processes

    async def crash(self, *, lag: float = 0.0) -> None:
        """Kill the process; with `lag`, the API server of the next one lags, as of before the request."""
        raise self._impossible()

    async def upgrade(self) -> None:
        """Kill the process, and start the new version of the operator."""
        raise self._impossible()

    async def pause(self, seconds: float) -> None:
        """Stop the process, and continue it later."""
        raise self._impossible()

    async def lose_lease(self, seconds: float) -> None:
        """Fail requests for Leases."""
        raise self._impossible()

    async def set_clock(self, seconds: float) -> None:
        """Set the clock of the process forward, or back."""
        raise self._impossible()

    async def set_priorities(self, seed: int) -> None:
        """Give the tasks of reconciles random priorities."""
        raise self._impossible()

    async def defer(self) -> None:
        """Reconcile other requests first."""
        raise self._impossible()
