"""One run of a scenario against a program: a new control plane, a new process, planned faults.

Time is real: the program has become idle when nothing was stored and no request was sent for
`quiet_seconds`, and `advance` waits. The result is a `Run`, like that of a simulated run, without what only a
simulation has.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client
from kubewright.client.wait import WaitPredicate
from kubewright.client.wait import condition as condition_is
from kubewright.controlplane import ControlPlane
from kubewright.explore.faults import Fault, plan_of
from kubewright.explore.final_state import differences, normalise
from kubewright.explore.run import Finding, Run
from kubewright.explore.state import StateRecorder, is_ignored
from kubewright.explore.steps import ClientSteps, StepKind, seconds

from .injector import FaultInjector
from .process import CommandError, ForeignProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.explore.scenarios import Scenario

MAX_DIFFERENCES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOptions:
    """How a program is run."""

    command: str
    directory: Path | None = None
    """Working directory of the program."""
    quiet_seconds: float = 2.0
    """Seconds without a change or request after which the program is idle."""
    start_timeout: float = 30.0
    """Seconds within which the program must start its first watch."""
    wait_timeout: float = 20.0
    """Longest wait of a step, and for the program to become idle after the last step."""
    tolerances: Sequence[str] = ()


class _RealTimeSteps(ClientSteps):
    """Steps with shorter timeouts, because time is real."""

    def __init__(self, client: Client, *, limit: float, **options: Any) -> None:
        super().__init__(client, **options)
        self._limit = limit

    async def wait(
        self,
        kind: StepKind,
        name: str,
        *,
        namespace: str | None = None,
        condition: str | WaitPredicate | None = None,
        absent: bool | None = None,
        timeout: float | str = 0.0,
    ) -> None:
        """Wait until an object has a condition or does not exist."""
        limit = min(seconds(timeout), self._limit) if timeout else self._limit
        await super().wait(kind, name, namespace=namespace, condition=condition, absent=absent, timeout=limit)


class _ForeignRun:
    """The parts of a run."""

    def __init__(
        self, plane: ControlPlane, process: ForeignProcess, scenario: Scenario, options: ForeignOptions
    ) -> None:
        self.plane = plane
        self.process = process
        self.scenario = scenario
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.revision = 0
        self.changed_at = self.loop.time()
        self.findings: list[Finding] = []
        self.recorder = StateRecorder()
        self.injector = FaultInjector(plane.server.handle, process, revision=lambda: self.revision)
        self.client = Client.from_transport(InProcessTransport(plane.server))
        self._is_recording = False
        self._seen: set[tuple[str, str]] = set()

    # Event listener of the dispatcher

    def on_resource_added(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_watch_lost(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_watch_restarted(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Record a change of the store, and check the invariants that must always hold."""
        change = event.event
        self.revision = change.revision
        if change.value is None:
            self.recorder.delete(change.key, revision=change.revision)
        else:
            self.recorder.put(
                change.key, change.value, create_revision=change.create_revision, revision=change.revision
            )
        if not self._is_recording or is_ignored(change.key):
            return
        self.changed_at = self.loop.time()
        verb = "delete" if change.value is None else "create" if change.previous is None else "update"
        self.injector.record("change", "", f"{verb} {change.key}", revision=change.revision)
        self._check("always")

    async def prepare(self) -> None:
        """Create the objects of the setup; they are not part of the state."""
        await self.recorder.read(self.plane.storage, self.plane.server.prefix)
        self.plane.server.dispatcher.listeners.append(self)
        for each in self.scenario.setup:
            made: Any = Unstructured(dict(each)) if isinstance(each, Mapping) else each
            await self.client.apply(made, force=True, field_owner="setup")
            if isinstance(made, Unstructured) and made.kind == "CustomResourceDefinition":
                await self.client.wait(made, until=condition_is("Established"), timeout=10)
        await self.plane.wait_until_idle()
        self.recorder.requests = self.injector.requests
        self.recorder.start()

    async def start(self, faults: Sequence[Fault]) -> None:
        """Start the program, and wait until it watches; its first requests are not points."""
        self.plane.server.handle = self.injector
        await self.process.start()
        deadline = self.loop.time() + self.options.start_timeout
        while not self.injector.watches or self._idle_seconds() < 0.5:
            if self.process.failures >= 2 or self.loop.time() > deadline:
                elapsed = self.loop.time() - self.injector.started
                raise CommandError(
                    f"{self.options.command} does not watch anything after {elapsed:.0f} s; its output is:\n"
                    f"{self.process.output()}"
                )
            await asyncio.sleep(0.05)
        self.injector.begin(plan_of(faults))
        self._is_recording = True

    async def do_steps(self) -> list[str]:
        """Do the steps of the scenario; return their descriptions."""
        steps = _RealTimeSteps(self.client, limit=self.options.wait_timeout, on_step=self._on_step)
        try:
            await self.scenario(steps)
        except Exception as error:
            last = steps.descriptions[-1] if steps.descriptions else "before the first step"
            self.find("scenario", f"{last}: {type(error).__name__}: {error}")
        return steps.descriptions

    async def settle(self) -> None:
        """Wait until the program is idle; after a restart, first until it watches again."""
        deadline = self.loop.time() + self.options.wait_timeout
        if not self.injector.is_watching:
            deadline += self.options.start_timeout
        while not self._is_idle():
            if self.loop.time() > deadline:
                self.find(
                    "convergence",
                    f"the program is not idle {self.options.wait_timeout:g} s after the last step",
                )
                return
            await asyncio.sleep(0.05)
        self.recorder.mark_converged(time=self.loop.time())

    def finish(self, reference: Run | None) -> None:
        """Check the final state."""
        self._is_recording = False
        self._check("end")
        if reference is None:
            return
        found = differences(
            reference.final_state,
            normalise(self.recorder.snapshot(time=0.0)),
            (*self.scenario.tolerate, *self.options.tolerances),
        )
        if found:
            more = f" and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
            self.find("final-state", "; ".join(map(str, found[:MAX_DIFFERENCES])) + more)

    def find(self, name: str, message: str) -> None:
        """Record a violation, once."""
        if (name, message) not in self._seen:
            self._seen.add((name, message))
            number = max(len(self.injector.trace.events) - 1, 0)
            self.findings.append(Finding(name, message, self.loop.time(), number))
            self.injector.record("error", "", f"{name}: {message}")

    def _is_idle(self) -> bool:
        is_ready = self.process.is_running and self.injector.is_watching
        return is_ready and self._idle_seconds() >= self.options.quiet_seconds

    def _idle_seconds(self) -> float:
        return self.loop.time() - max(self.changed_at, self.injector.last_request)

    def _on_step(self, number: int, description: str) -> None:
        self.injector.record("step", "scenario", f"{number} {description}")

    def _check(self, when: str) -> None:
        checked = [each for each in self.scenario.invariants if each.when == when]
        if not checked:
            return
        state = self.recorder.snapshot(time=self.loop.time())
        for each in checked:
            for problem in each.problems(state):
                self.find(each.name, problem)


async def run_command(
    options: ForeignOptions,
    scenario: Scenario,
    *,
    faults: Sequence[Fault] = (),
    reference: Run | None = None,
) -> Run:
    """Run a scenario against a program with planned faults; raise `CommandError` if it does not start."""
    async with _running(options, scenario) as run:
        await run.prepare()
        await run.start(faults)
        steps = await run.do_steps()
        await run.settle()
        run.finish(reference)
        state = run.recorder.snapshot(time=run.loop.time())
        return Run(
            scenario=scenario.name,
            seed=0,
            faults=tuple(faults),
            findings=run.findings,
            trace=run.injector.trace,
            final_state=normalise(state),
            steps=steps,
            writes=len(state.writes()),
            requests=len(run.injector.requests),
            state=state,
        )


@asynccontextmanager
async def _running(options: ForeignOptions, scenario: Scenario) -> AsyncIterator[_ForeignRun]:
    with tempfile.TemporaryDirectory(prefix="kubewright-explore-") as scratch:
        kubeconfig = Path(scratch) / "kubeconfig"
        nodes = scenario.nodes or (1 if scenario.controllers else 0)
        async with ControlPlane(port=0, store="memory:", kubeconfig=kubeconfig, nodes=nodes) as plane:
            if plane.workloads is not None and plane.workloads.registration is not None:
                await plane.workloads.start_nodes()
            process = ForeignProcess(
                options.command,
                kubeconfig=kubeconfig,
                log=Path(scratch) / "output.log",
                directory=options.directory,
            )
            try:
                yield _ForeignRun(plane, process, scenario, options)
            finally:
                await process.stop()


OnRun = Callable[[Run], None]

__all__ = ["ForeignOptions", "OnRun", "run_command"]
