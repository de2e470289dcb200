"""One run of a scenario against a program: a new control plane, a new process, planned faults.

Time is real: the program has converged when it has been idle for the quiet period (`activity`), watches what
it watches in the reference run, and the state is that of the reference run. If the state differs, the run
waits for `settle_seconds`, because the program may be about to retry. The result is a `ProgramRun`, a `Run`
like that of a simulated run without what only a simulation has.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client
from kubewright.client.wait import WaitPredicate
from kubewright.client.wait import condition as condition_is
from kubewright.controlplane import ControlPlane
from kubewright.explore.faults import Fault, plan_of
from kubewright.explore.final_state import differences, normalise
from kubewright.explore.runs.reference_checks import reference_problems
from kubewright.explore.runs.run import EXTRA_WRITES
from kubewright.explore.runs.run_result import Finding, Run
from kubewright.explore.scenarios.steps import ClientSteps, StepKind, seconds
from kubewright.explore.simulation.transport import ScenarioTransport
from kubewright.explore.state import StateRecorder, describe_change, is_ignored

from .activity import Activity
from .injector import FaultInjector
from .preloading import ProgramTemplate
from .process import CommandError, ForeignProcess

if TYPE_CHECKING:
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.explore.scenarios.scenarios import Scenario

MAX_DIFFERENCES = 5
MAX_FAILURES = 3
"""Number of times that a program may end by itself after a fault."""
START_QUIET_SECONDS = 0.4
"""Idle time after which a program that watches something has started."""
POLLING_QUIET_SECONDS = 3.0
"""Idle time after which a program that watches nothing has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOptions:
    """How a program is run."""

    command: str
    directory: Path | None = None
    """Working directory of the program."""
    quiet_seconds: float = 2.0
    """Quiet period after which the program is idle."""
    start_timeout: float = 30.0
    """Seconds within which the program must send its first request."""
    settle_seconds: float = 90.0
    """Longest wait of a step, and for the state of the reference run after the last step."""
    tolerances: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class ProgramRun(Run):
    """The result of a run, with what only runs of programs have."""

    watched_at_start: frozenset[str] = frozenset()
    """What the program watches before the first step."""
    watched: frozenset[str] = frozenset()
    """What the program watches at the end."""


IsKnown = Callable[[Finding, Run], bool]
"""Returns whether a violation is confirmed already, so that it need not be waited for."""


class _RealTimeSteps(ClientSteps):
    """Steps with shorter timeouts, because time is real; `advance` ends when the program is idle."""

    def __init__(
        self,
        client: Client,
        *,
        limit: float,
        wait_until_idle: Callable[[float], Awaitable[None]],
        **options: Any,
    ) -> None:
        super().__init__(client, **options)
        self._limit = limit
        self._wait_until_idle = wait_until_idle

    async def advance(self, duration: float | str) -> None:
        """Wait until the program is idle, at most for the duration."""
        delay = seconds(duration)
        if self._begin(f"advance {duration if isinstance(duration, str) else f'{delay:g}s'}"):
            await self._wait_until_idle(delay)

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
        self,
        plane: ControlPlane,
        process: ForeignProcess,
        scenario: Scenario,
        options: ForeignOptions,
        *,
        reference: ProgramRun | None,
        plan: Mapping[str, Fault],
        is_known: IsKnown,
    ) -> None:
        self.plane = plane
        self.process = process
        self.scenario = scenario
        self.options = options
        self.reference = reference
        self.loop = asyncio.get_running_loop()
        self.revision = 0
        self.findings: list[Finding] = []
        self.recorder = StateRecorder()
        self.activity = Activity()
        self.injector = FaultInjector(
            process,
            self.activity,
            revision=lambda: self.revision,
            plan=plan,
        )
        self.client = Client.from_transport(ScenarioTransport(plane.server, self.injector))
        self.watched_at_start: frozenset[str] = frozenset()
        self._is_known = is_known
        self._tolerances = (*scenario.tolerate, *options.tolerances)
        self._is_recording = False
        self._checked_revision = 0
        self._checked: list[tuple[str, str]] = []
        self._seen: set[tuple[str, str]] = set()
        process.on_start = self._started
        process.on_exit = self._exited

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
        self.recorder.record(change)
        if not self._is_recording or is_ignored(change.key):
            return
        self.activity.changed()
        self.injector.changed_at[str(cache.resource)] = change.revision
        recorded = self.injector.record("change", "", describe_change(change), revision=change.revision)
        recorded.resource = str(cache.resource)
        for name, problem in self._problems("always"):
            self.find(name, problem)

    # Events of the program

    def _started(self) -> None:
        if self._is_recording:
            self.injector.record("start", self.process.name, "start")
            self.activity.changed()

    def _exited(self) -> None:
        if self._is_recording:
            self.injector.streams.clear()
            self.injector.record("stop", self.process.name, f"ends by itself with {self.process.exit_text}")
            self.activity.changed()

    # Phases

    async def prepare(self) -> None:
        """Create the objects of the setup; they are not part of the state."""
        await self.recorder.read(self.plane.storage, self.plane.server.prefix)
        self.plane.server.dispatcher.listeners.append(self)
        for each in self.scenario.setup:
            made: Any = Unstructured(dict(each)) if isinstance(each, Mapping) else each
            await self.client.apply(made, force=True, field_manager="setup")
            if isinstance(made, Unstructured) and made.kind == "CustomResourceDefinition":
                await self.client.wait(made, until=condition_is("Established"), timeout=60)
        await self.plane.wait_until_idle()
        self.recorder.requests = self.injector.requests
        self.recorder.start()

    async def start(self) -> None:
        """Start the program, and wait until it is idle and watches what it watches in the reference run."""
        self.plane.server.add_middleware(self.injector.wrap)
        self._is_recording = True
        await self.process.start()
        deadline = self.loop.time() + self.options.start_timeout
        expected = self.reference.watched_at_start if self.reference is not None else frozenset()
        while True:
            await self.activity.poll(self.process.pid)
            quiet = START_QUIET_SECONDS if self.injector.streams else POLLING_QUIET_SECONDS
            if self._is_ready(expected) and self.activity.idle_seconds >= quiet:
                break
            if self.process.failures and self.reference is None:
                raise CommandError(
                    f"{self.options.command} ended with {self.process.exit_text} before the first step; "
                    f"its output is:\n{self.process.output()}"
                )
            if self.process.failures >= MAX_FAILURES:
                break
            if self.loop.time() > deadline:
                if self.injector.has_requests or self.reference is not None:
                    break  # the run goes on, and reports what does not converge
                raise CommandError(
                    f"{self.options.command} sent no request to the API server within "
                    f"{self.options.start_timeout:g} s; it must use the kubeconfig in KUBECONFIG; its output "
                    f"is:\n{self.process.output()}"
                )
        self.watched_at_start = self.injector.watched

    async def do_steps(self, skip: Sequence[int]) -> list[str]:
        """Do the steps of the scenario; return their descriptions."""
        steps = _RealTimeSteps(
            self.client,
            limit=self.options.settle_seconds,
            wait_until_idle=self._wait_until_idle,
            skip=skip,
            on_step=self._on_step,
        )
        try:
            await self.scenario(steps)
        except Exception as error:
            last = steps.descriptions[-1] if steps.descriptions else "before the first step"
            self.find("scenario", f"{last}: {type(error).__name__}: {error}")
        return steps.descriptions

    async def _wait_until_idle(self, seconds: float) -> None:
        expected = self.reference.watched_at_start if self.reference is not None else frozenset()
        deadline = self.loop.time() + seconds
        self.activity.restart()
        while self.loop.time() < deadline:
            await self.activity.poll(self.process.pid)
            if self.activity.idle_seconds >= self.options.quiet_seconds and self._is_ready(expected):
                return

    async def settle(self) -> None:
        """Wait until the program is idle, watches again, and the state is that of the reference run."""
        options, process = self.options, self.process
        expected = self.reference.watched if self.reference is not None else frozenset()
        self.activity.restart()
        deadline = self.loop.time() + options.settle_seconds
        while True:
            await self.activity.poll(process.pid)
            is_idle = self.activity.idle_seconds >= options.quiet_seconds
            is_ready = self._is_ready(expected)
            if process.failures >= MAX_FAILURES:
                self.find("exception", self._describe_exit(f" {process.failures} times, the last time"))
                return
            if is_idle and self.findings and not self.injector.pending:
                break
            if is_idle and is_ready and (self._is_expected() or self.loop.time() > deadline):
                break
            if self.injector.pending:
                deadline = self.loop.time() + options.settle_seconds
            if self.loop.time() > deadline:
                self.find("convergence", self._describe_unsettled(expected, is_idle=is_idle))
                return
        self.recorder.mark_converged(time=self.loop.time() - self.injector.started)

    def finish(self, *, is_whole: bool) -> None:
        """Check the final state, unless something else was violated before: the run has ended early then.

        `is_whole`: whether no steps were left out, so that a reference run can be expected to do something.
        """
        if self.findings:
            return
        for name, problem in self._final_problems():
            self.find(name, problem)
        reference = self.reference
        if reference is None:
            if self.process.failures:
                self.find("exception", self._describe_exit(""))
            if is_whole:
                for problem in reference_problems(self.injector.trace, self.scenario.allow):
                    self.find("reference", problem)
            return
        allowed = self.scenario.extra_writes
        most = 2 * reference.writes + EXTRA_WRITES if allowed is None else reference.writes + allowed
        writes = self.count_writes()
        if writes > most:
            self.find("writes", f"{writes} writes, and {reference.writes} in the reference run")

    def count_writes(self) -> int:
        """Return the number of writes of the program."""
        return sum(each.actor == "operator" and each.is_write for each in self.injector.requests)

    def find(self, name: str, message: str) -> None:
        """Record a violation, once."""
        if (name, message) not in self._seen:
            self._seen.add((name, message))
            number = max(len(self.injector.trace.events) - 1, 0)
            time = self.loop.time() - self.injector.started
            self.findings.append(Finding(name, message, time, number))
            self.injector.record("error", "", f"{name}: {message}")

    def _is_ready(self, expected: frozenset[str]) -> bool:
        injector = self.injector
        return (
            self.process.is_running
            and injector.has_requests
            and not injector.pending
            and expected <= injector.watched
        )

    def _is_expected(self) -> bool:
        """Whether nothing is wrong with the current state, or only what is known and confirmed."""
        if self.reference is None:
            return True
        if self._checked_revision != self.revision:
            self._checked_revision, self._checked = self.revision, self._final_problems()
        found = self._checked
        if found and self.activity.idle_seconds >= 2 * self.options.quiet_seconds:
            run = Run(scenario=self.scenario.name, seed=0, trace=self.injector.trace)
            return all(self._is_known(Finding(name, text), run) for name, text in found)
        return not found

    def _final_problems(self) -> list[tuple[str, str]]:
        """Return the invariants that do not hold at the end, and the differences to the reference run."""
        problems = self._problems("end")
        if self.reference is not None:
            state = normalise(self.recorder.snapshot(time=self.loop.time() - self.injector.started))
            found = differences(self.reference.final_state, state, self._tolerances)
            if found:
                more = f" and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
                problems.append(("final-state", "; ".join(map(str, found[:MAX_DIFFERENCES])) + more))
        return problems

    def _describe_unsettled(self, expected: frozenset[str], *, is_idle: bool) -> str:
        after = f"{self.options.settle_seconds:g} s after the last step"
        missing = sorted(expected - self.injector.watched)
        if not self.process.is_running:
            return f"the program does not run {after}"
        if missing:
            return f"the program does not {missing[0]} again, {after}"
        return f"the program {'is idle and sends no requests' if is_idle else 'is not idle'} {after}"

    def _describe_exit(self, times: str) -> str:
        lines = [each for each in self.process.output().splitlines() if each.strip()]
        last = f": {lines[-1].strip()}" if lines else ""
        return f"the program ended by itself{times} with {self.process.exit_text}{last}"

    def _on_step(self, number: int, description: str, timeout: float) -> None:
        self.injector.record("step", "scenario", f"{number} {description}")

    def _problems(self, when: str) -> list[tuple[str, str]]:
        checked = [each for each in self.scenario.invariants if each.when == when]
        if not checked:
            return []
        state = self.recorder.snapshot(time=self.loop.time() - self.injector.started)
        found: list[tuple[str, str]] = []
        for each in checked:
            try:
                found += [(each.name, problem) for problem in each.problems(state)]
            except Exception as error:
                found.append((each.name, f"the check raised {type(error).__name__}: {error}"))
        return found


def _nothing_known(finding: Finding, run: Run) -> bool:
    return False


async def run_command(
    options: ForeignOptions,
    scenario: Scenario,
    *,
    faults: Sequence[Fault] = (),
    reference: ProgramRun | None = None,
    skip: Sequence[int] = (),
    is_known: IsKnown = _nothing_known,
    template: ProgramTemplate | None = None,
) -> ProgramRun:
    """Run a scenario against a program with planned faults; raise `CommandError` if it does not start.

    A fault without the name of its point is at the point that has its number in the reference run. With
    `template`, the program does not import its libraries again.
    """
    if reference is not None:
        faults = [each if each.name else each.named_in(reference.trace) for each in faults]
    async with _running(
        options, scenario, template, reference=reference, plan=plan_of(faults), is_known=is_known
    ) as run:
        await run.prepare()
        await run.start()
        steps = await run.do_steps(skip)
        await run.settle()
        run.finish(is_whole=not skip)
        state = run.recorder.snapshot(time=run.loop.time() - run.injector.started)
        injector = run.injector
        return ProgramRun(
            scenario=scenario.name,
            seed=0,
            faults=tuple(faults),
            missed=tuple(each for each in faults if each not in injector.injected),
            skipped_steps=tuple(skip),
            findings=run.findings,
            trace=injector.trace,
            final_state=normalise(state),
            steps=steps,
            end=run.loop.time() - injector.started,
            writes=run.count_writes(),
            requests=len(injector.requests),
            state=state,
            watched_at_start=run.watched_at_start,
            watched=injector.watched,
            output=run.process.output(lines=2000),
        )


@asynccontextmanager
async def _running(
    options: ForeignOptions, scenario: Scenario, template: ProgramTemplate | None, **values: Any
) -> AsyncIterator[_ForeignRun]:
    with tempfile.TemporaryDirectory(prefix="kubewright-explore-") as scratch:
        kubeconfig = template.kubeconfig if template is not None else Path(scratch) / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        process = ForeignProcess(
            options.command,
            kubeconfig=kubeconfig,
            log=Path(scratch) / "output.log",
            directory=options.directory,
            template=template,
        )
        nodes = scenario.nodes or (1 if scenario.controllers else 0)
        async with ControlPlane(port=0, store="memory:", kubeconfig=kubeconfig, nodes=nodes) as plane:
            if plane.workloads is not None and plane.workloads.registration is not None:
                await plane.workloads.start_nodes()
            try:
                yield _ForeignRun(plane, process, scenario, options, **values)
            finally:
                await process.stop()
