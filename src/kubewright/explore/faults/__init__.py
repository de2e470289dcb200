"""Faults: what happens at which point of a run, one class per fault with the families that enumerate it.

    class SlowRequest(Fault):
        action = "slow-request"
        points = "w"
        sentence = "{event} reaches the API server {seconds:g} s later"
        families = {"reorder": overtaken}

        async def before(self, target: FaultTarget) -> None:
            await target.wait(self.seconds)

A module of this package with a subclass of `Fault` is a new fault: its action can be parsed, its families are
explored by both drivers, and reports explain it. It is injected through a `FaultTarget`, what a driver can do
at a point: in the event loop of a simulated cluster, or in front of the API server of a program.

- `fault`: `Fault` and its text form, such as `crash-after@w5` or `hold@d7+30s`
- `error_responses`: `ERRORS`, the error responses of an API server
- `targets`: `FaultTarget` and `Timing`, the delays of a driver
- `events`: what several faults look for in a trace
- `crash`: `crash-before`, `crash-after`: the process is killed before a request or its response
- `stale`: `stale`: killed, and served by a lagging API server; or a list is old
- `hold`: `hold`: this and later deliveries of the watch are late
- `gap`: `gap`: the watch breaks, cannot be started, and then gets 410 Gone
- `error`: `error=NAME`: an error response; the request has no effect
- `lost`: `lost-request`, `lost-response`: a timeout, without or with the effect
- `outage`: `outage`: the API server is unreachable; `application=HOW`: a fake application is slow, rejects
  connections, lies, or loses data
- `broken_watch`: `reset`, `expired`: the watch breaks, or ends with 410 Gone
- `skew`: `skew=SECONDS`: the clock of the process is changed
- `preempt`: `preempt`: other reconciles run before a task continues after an await
- `priorities`: `priorities=SEED`: tasks of reconciles have random priorities
- `defer`: `defer`: requests that are ready are reconciled first
- `slow`: `slow-request`, `slow-response`: request or response are delayed
- `pause`: `pause`: the process is stopped, and continues later
- `lease_lost`: `lease-lost`: requests for Leases fail
- `upgrade`: `upgrade`: the new version of the operator starts
"""

from __future__ import annotations

import importlib
import pkgutil

from .error_responses import ERRORS, ErrorResponse
from .fault import Fault, FaultError, Plan, parse_faults, plan_of
from .targets import REAL, VIRTUAL, FaultTarget, Timing

for _module in sorted(each.name for each in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "ERRORS",
    "REAL",
    "VIRTUAL",
    "ErrorResponse",
    "Fault",
    "FaultError",
    "FaultTarget",
    "Plan",
    "Timing",
    "parse_faults",
    "plan_of",
]
