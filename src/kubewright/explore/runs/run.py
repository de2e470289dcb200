"""`run_once`: one run of a scenario with planned faults, and what it violated.

    run = run_once(make_operator, scenario, faults=parse_faults("crash-after@w3"), reference=reference)

A run without faults is a *reference run*; its final state, times and numbers of requests are what other runs
are compared with. `SimulatedRun` has the phases one by one, for `forks`, which starts many runs from one
prepared cluster.

A run violates

- an invariant of the scenario,
- `scenario`: a step failed, for example a wait that timed out,
- `convergence`: the state kept changing, or the operator sent requests without end,
- `final-state`: the state differs from that of the reference run after a quiet period,
- `exception`: the reconciler raised a programming error, or a process ended by itself,
- `reference`: without faults, nothing happens that could be explored (`reference_checks`),
- `writes`: more writes than in the reference run and the allowance.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.controller.controller import current_reconcile
from kubewright.controller.request import TemporaryError, TerminalError
from kubewright.explore.faults import Fault, plan_of
from kubewright.explore.final_state import NormalisedState, differences, normalise
from kubewright.explore.oracles.catalogue import parse_variation
from kubewright.explore.oracles.default_checks import check_fault, check_reference
from kubewright.explore.oracles.late_writes import late_write_of
from kubewright.explore.oracles.names import LATE_WRITE
from kubewright.explore.oracles.probe import Probe
from kubewright.explore.oracles.variation import VariedSteps
from kubewright.explore.scenarios.aligned_steps import AlignedSteps
from kubewright.explore.scenarios.scenarios import Scenario
from kubewright.explore.simulation.cluster import RunLimit, SimulatedCluster
from kubewright.explore.simulation.determinism import deterministic
from kubewright.explore.simulation.external import deactivate
from kubewright.explore.simulation.factories import OperatorPool
from kubewright.explore.simulation.loop import PROCESS, Livelock, ProcessState, VirtualLoop
from kubewright.explore.simulation.processes import OperatorProcess
from kubewright.explore.simulation.schedules import note_task
from kubewright.manager.elections.leader_election import LeadershipLost

from .reference_checks import reference_problems
from .run_result import Finding, Run
from .trace import Trace

if TYPE_CHECKING:
    from kubewright.explore.simulation.factories import OperatorFactory
    from kubewright.explore.state import ClusterState

    from .line_coverage import LineTracer
    from .trace import TraceEvent

EXTRA_WRITES = 20
"""Writes that a run may have in addition to twice those of the reference run, unless the scenario says."""
START_SECONDS = 1.0
"""Virtual seconds between the start of the operator and the first step."""
MAX_DIFFERENCES = 5
PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
)
"""Exceptions that no fault explains, unless the reference run raises them too."""


class _ErrorHandler(logging.Handler):
    """Collects the errors that processes of the operator log."""

    def __init__(self, run: SimulatedRun) -> None:
        super().__init__(logging.WARNING)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        error = record.exc_info[1] if record.exc_info else None
        if process is not None:
            self._run.logged(process.name, record, error)


class SimulatedRun:
    """The phases of one run in the current Python process."""

    def __init__(
        self,
        factory: OperatorFactory,
        scenario: Scenario,
        *,
        seed: int = 0,
        reference: Run | None = None,
        replicas: int = 1,
        old_factory: OperatorFactory | None = None,
        tolerances: Sequence[str] = (),
        tracer: LineTracer | None = None,
    ) -> None:
        self.scenario = scenario
        self._tracer = tracer
        self.seed = seed
        self.reference = reference
        self.replicas = replicas
        self.tolerances = (*scenario.tolerate, *tolerances)
        self.faults: tuple[Fault, ...] = ()
        self.skip: tuple[int, ...] = ()
        self.variation = ""
        self.random: tuple[str, ...] = ()
        self.periodic: tuple[str, ...] = ()
        """Tolerances for random values and periodic changes, see `oracles.control`."""
        self.random_values: tuple[str, ...] = ()
        self.time_of_day: tuple[str, ...] = ()
        """Tolerances for what depends on the time of the day, see `oracles.clock`."""
        self.findings: list[Finding] = []
        self.errors: list[str] = []
        self._seen: set[tuple[str, str]] = set()
        self.factory = factory
        self.has_old_version = old_factory is not None
        self._old_factory = old_factory
        self.loop: VirtualLoop
        self.cluster: SimulatedCluster
        self._steps: AlignedSteps
        self._limit: asyncio.Future[None]
        self._converged_at = 0.0
        self._final_state: NormalisedState | None = None

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Start the control plane, and end everything when the block ends."""
        self.loop = loop = VirtualLoop()
        handler = _ErrorHandler(self)
        root = logging.getLogger()
        with deterministic(loop, self.seed) as randomness:
            self.cluster = SimulatedCluster(
                loop,
                randomness,
                self.factory,
                self.scenario,
                replicas=self.replicas,
                old_factory=self._old_factory,
            )
            self.cluster.external.activate()
            root.addHandler(handler)
            loop.set_exception_handler(self._loop_error)
            try:
                loop.run_until_complete(self.cluster.start())
                yield
            finally:
                root.removeHandler(handler)
                deactivate()
                self._close()

    def _close(self) -> None:
        """End all tasks; what they log and send no longer counts."""
        self.cluster.on_change = self.cluster.on_point = None
        self.cluster.is_closing = True
        self.cluster.trace = Trace()
        logging.disable(logging.CRITICAL)
        try:
            self.loop.discard(self.cluster.all_processes)
        finally:
            logging.disable(logging.NOTSET)

    def execute(self, faults: Sequence[Fault] = (), *, skip: Sequence[int] = (), variation: str = "") -> Run:
        """Run the scenario, or a variation of it, and return the result."""
        self.faults, self.skip, self.variation = tuple(faults), tuple(skip), variation
        self.cluster.plan = plan_of(self.faults)
        began = time.process_time()
        if self._tracer is not None:
            self._tracer.start()
        try:
            self.loop.run_until_complete(self._main())
        except Livelock as error:
            self.find("convergence", f"the operator does not become idle: {error}")
        if self._tracer is not None:
            self._tracer.stop()
        result = self.result()
        result.cpu_seconds = time.process_time() - began
        return result

    async def _main(self) -> None:
        cluster, reference = self.cluster, self.reference
        self._limit = self.loop.create_future()
        cluster.on_limit = self._reached_limit
        cluster.on_process_error = self._process_failed
        self.loop.on_exit = self._process_exited
        self.loop.on_task = note_task
        cluster.on_change = self._changed
        if reference is not None:
            cluster.max_requests = 20 * reference.requests + 500
            self.loop.max_steps = self.loop.step + 30 * reference.switches + 500_000
        else:
            cluster.max_requests = 20_000
            self.loop.max_steps = self.loop.step + 20_000_000
        aligned_with = None if self.variation else reference
        self._steps = AlignedSteps(cluster.client, aligned_with, skip=self.skip, on_step=self._on_step)
        if self.variation:
            await self._until_limit(self._vary())
            return
        cluster.start_processes()
        await asyncio.sleep(START_SECONDS)
        if await self._until_limit(self._do_steps()):
            await self._until_limit(self._settle())
        self._finish()

    async def _until_limit(self, work: Awaitable[None]) -> bool:
        """Await one phase; return False if the run has to end."""
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, self._limit], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            error = task.exception()
            if error is not None and self.variation:
                name = self.variation.partition(":")[0]
                self.find(name, f"the variation could not be checked: {type(error).__name__}: {error}")
            return error is None
        self.find("convergence", str(self._limit.exception()))
        task.cancel()
        return False

    async def _vary(self) -> None:
        """Do the steps with those of the variation, which checks the states itself."""
        variation, probe = parse_variation(self.variation), Probe(self)
        await variation.begin(probe)
        self.cluster.start_processes()
        await asyncio.sleep(START_SECONDS)
        steps = asyncio.ensure_future(self.scenario(VariedSteps(self._steps, variation, probe)))
        interrupted = asyncio.ensure_future(variation.interrupted.wait())
        await asyncio.wait([steps, interrupted], return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if variation.interrupted.is_set():
            steps.cancel()
        else:
            try:
                await steps
            except APIError as error:
                self.cluster.record("log", "scenario", f"{type(error).__name__}: {error}")
            except TimeoutError as error:
                self.find(variation.name, f"the step `{self._steps.descriptions[-1]}` fails: {error}")
        self._steps.end_last()
        if not self.findings:
            await variation.finish(probe)
        if not self.findings:
            for name, message in check_reference(self.cluster, is_idle=False):
                self.find(name, message)

    async def _do_steps(self) -> None:
        try:
            await self.scenario(self._steps)
        except Exception as error:
            descriptions = self._steps.descriptions
            step = descriptions[-1] if descriptions else "before the first step"
            self.find("scenario", f"{step}: {type(error).__name__}: {error}")
            if self.reference is None:
                raise
        self._steps.end_last()

    async def _settle(self) -> None:
        """Wait until the state no longer changes and, after a fault, equals that of the reference run."""
        cluster, loop, scenario, reference = self.cluster, self.loop, self.scenario, self.reference
        quiet = scenario.quiet_seconds
        if reference is not None and loop.now < reference.converged_at:
            await asyncio.sleep(reference.converged_at - loop.now)
        deadline = loop.now + scenario.timeout
        converged = False
        last_changed = -1.0
        while True:
            since = max(cluster.changed_at, 0.0)
            if loop.now - since > 1.05 * quiet:
                converged = True
                if reference is None or (since != last_changed and not self._differences()):
                    break
                last_changed = since
            if loop.now >= deadline:
                break
            await asyncio.sleep(min(max(1.1 * quiet - (loop.now - since), quiet / 4), deadline - loop.now))
        if not converged:
            self.find("convergence", f"the state still changed {scenario.timeout:g} s after the last step")
            return
        self._converged_at = cluster.changed_at
        cluster.recorder.mark_converged(time=loop.now)
        await asyncio.sleep(quiet)
        if reference is not None:
            # After a fault in the quiet time, at a request that is repeated periodically.
            while cluster.changed_at != self._converged_at and self._differences():
                if loop.now >= deadline:
                    break
                await asyncio.sleep(quiet)
        converged_state = cluster.recorder.converged
        if reference is None and cluster.changed_at != self._converged_at and converged_state is not None:
            before, now = normalise(converged_state), normalise(cluster.recorder.snapshot(time=loop.now))
            changed = differences(before, now, self.tolerances)
            if changed:
                self.find("convergence", f"the state changed again without a step: {changed[0]}")

    def _differences(self) -> list[Any]:
        assert self.reference is not None
        state = self.cluster.recorder.snapshot(time=self.loop.now)
        self._final_state = normalise(state, self.cluster.external.data)
        rules = (*self.tolerances, *(each for each in self.random if ":" in each))
        if any(each.action == "skew" for each in self.faults):
            rules = (*rules, *self.time_of_day)
        return list(differences(self.reference.final_state, self._final_state, rules))

    def _finish(self) -> None:
        """Check the final state."""
        self._final_state = None
        state = self.cluster.recorder.snapshot(time=self.loop.now)
        for each in self.scenario.invariants:
            if each.when == "end":
                self._check(each, state)
        if self.reference is None:
            if not self.faults and not self.skip and not self.findings:
                problems = reference_problems(
                    self.cluster.trace,
                    self.scenario.allow,
                    blocked=self.loop.blocked_connections,
                    failing=list(self._failing()),
                )
                for problem in problems:
                    self.find("reference", problem)
                for name, message in check_reference(self.cluster):
                    self.find(name, message)
            return
        found = self._differences()
        if found:
            more = f" and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
            what = "; ".join(map(str, found[:MAX_DIFFERENCES])) + more
            late = late_write_of(self.cluster.trace, self.faults, found)
            if late:
                self.find(
                    LATE_WRITE,
                    f"a leader that was paused continues with `{late}` and replaces newer state: {what}; "
                    "send a precondition (resource_version), or update what was read",
                )
            else:
                self.find("final-state", what)
        is_paused = any(each.action == "pause" for each in self.faults)
        if self.faults:
            for name, message in check_fault(self.cluster, self.reference, is_paused=is_paused):
                self.find(name, message)
        allowed = self.scenario.extra_writes
        most = (
            2 * self.reference.writes + EXTRA_WRITES if allowed is None else self.reference.writes + allowed
        )
        writes = self._count_writes()
        if writes > most:
            self.find("writes", f"{writes} writes, and {self.reference.writes} in the reference run")

    def _failing(self) -> Iterator[str]:
        for process in self.cluster.all_processes:
            if process.dead:
                continue
            for controller in process.controllers:
                for request, error in controller.failing.items():
                    yield f"the reconcile of {controller.name} {request} still fails at the end: {error}"

    def result(self) -> Run:
        """Return what happened so far."""
        cluster, loop = self.cluster, self.loop
        state = cluster.recorder.snapshot(time=loop.now)
        return Run(
            scenario=self.scenario.name,
            seed=self.seed,
            faults=self.faults,
            missed=tuple(each for each in self.faults if each not in cluster.injected),
            skipped_steps=self.skip,
            replicas=self.replicas,
            variation=self.variation,
            random=self.random,
            periodic=self.periodic,
            random_values=self.random_values,
            findings=self.findings,
            trace=cluster.trace,
            final_state=self._final_state or normalise(state, cluster.external.data),
            step_ends=self._steps.ends,
            steps=self._steps.descriptions,
            end=loop.now,
            converged_at=self._converged_at,
            writes=self._count_writes(),
            requests=cluster.request_count,
            switches=loop.step,
            errors=sorted(set(self.errors)),
            uses_threads=loop.uses_threads,
            state=state,
            state_at_fault=cluster.state_at_fault,
            lines={} if self._tracer is None else {k: sorted(v) for k, v in self._tracer.lines.items()},
        )

    def _count_writes(self) -> int:
        return sum(each.actor == "operator" and each.is_write for each in self.cluster.requests)

    # Findings

    def find(self, name: str, message: str) -> None:
        """Record a violation, once, unless the scenario allows it."""
        if (name, message) in self._seen or name in self.scenario.allow:
            return
        self._seen.add((name, message))
        number = max(len(self.cluster.trace.events) - 1, 0)
        self.findings.append(Finding(name, message, self.loop.now, number))
        self.cluster.record("error", "", f"{name}: {message}")

    def _check(self, invariant: Any, state: ClusterState) -> None:
        try:
            problems = invariant.problems(state)
        except Exception as error:
            problems = [f"the check raised {type(error).__name__}: {error}"]
        for each in problems:
            self.find(invariant.name, each)

    def _changed(self) -> None:
        if self.variation:
            return  # they are about the steps of the scenario
        checked = [each for each in self.scenario.invariants if each.when == "always"]
        state = self.cluster.recorder.snapshot(time=self.loop.now)
        for each in checked:
            self._check(each, state)

    def _on_step(self, number: int, description: str, timeout: float) -> None:
        self.cluster.record("step", "scenario", f"{number} {description}").timeout = timeout

    def _reached_limit(self, error: Exception) -> None:
        if not self._limit.done():
            self._limit.set_exception(error)

    def logged(self, process: str, record: logging.LogRecord, error: BaseException | None) -> None:
        """Record an error that a process of the operator logged."""
        text = record.getMessage()
        if error is None:
            return
        self.errors.append(type(error).__name__)
        info = current_reconcile.get()
        where = f" ({info.controller} {info.request})" if info is not None else ""
        self.cluster.record("log", process, f"{text}: {type(error).__name__}: {error}{where}")
        is_unexpected = self._is_programming_error(error)
        if is_unexpected or (self.reference is None and _is_usage_error(error)):
            self.find("exception", f"{type(error).__name__}: {error}{_location(error)}")

    def _is_programming_error(self, error: BaseException) -> bool:
        """Whether no fault explains an error."""
        if not isinstance(error, PROGRAMMING_ERRORS) or isinstance(error, NoKindMatch):
            return False
        return self.reference is None or type(error).__name__ not in self.reference.errors

    def _process_exited(self, process: ProcessState, error: SystemExit) -> None:
        """End the process of code that called `sys.exit`."""
        assert isinstance(process, OperatorProcess)
        self.loop.kill(process)
        self.cluster.process_ended(process, error)

    def _process_failed(self, process: OperatorProcess, error: BaseException) -> None:
        self.cluster.record("log", process.name, f"process failed: {type(error).__name__}: {error}")
        if isinstance(error, LeadershipLost):
            return
        self.errors.append(type(error).__name__)
        if not self.faults or self._is_programming_error(error):
            self.find("exception", f"the process ended: {type(error).__name__}: {error}{_location(error)}")

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, RunLimit):
            self.logged("", logging.LogRecord("", logging.ERROR, "", 0, context["message"], (), None), error)


def run_once(
    factory: OperatorFactory,
    scenario: Scenario,
    *,
    faults: Sequence[Fault] = (),
    seed: int = 0,
    reference: Run | None = None,
    replicas: int = 1,
    skip: Sequence[int] = (),
    old_factory: OperatorFactory | None = None,
    tolerances: Sequence[str] = (),
    variation: str = "",
    on_point: Callable[[TraceEvent], None] | None = None,
) -> Run:
    """Run a scenario in this Python process and return the result.

    `skip` are numbers of steps that are left out. The state of this Python process (modules, globals of
    libraries) is shared by runs; `explore` isolates each run in its own process.
    """
    pool = factory if isinstance(factory, OperatorPool) else OperatorPool(factory)
    run = SimulatedRun(
        pool,
        scenario,
        seed=seed,
        reference=reference,
        replicas=replicas,
        old_factory=old_factory,
        tolerances=tolerances,
    )
    with run.prepared():
        run.cluster.on_point = on_point
        result = run.execute(faults, skip=skip, variation=variation)
    del run
    gc.collect()  # the cluster is full of cycles, and is larger than the rest of the process
    return result


def _is_usage_error(error: BaseException) -> bool:
    """Whether the framework reports that the operator uses it wrongly, such as `CachingNotAllowed`."""
    if isinstance(error, APIError | ConnectionFailed | TerminalError | TemporaryError | LeadershipLost):
        return False
    return type(error).__module__.startswith("kubewright.")


def _location(error: BaseException) -> str:
    """Return where an error was raised."""
    step = error.__traceback__
    if step is None:
        return ""
    while step.tb_next is not None:
        step = step.tb_next
    name = step.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f" ({name}:{step.tb_lineno})"
