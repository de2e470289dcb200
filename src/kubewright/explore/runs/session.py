"""`Session`: a prepared cluster, from which runs are forked.

A session starts the control plane of a scenario once. It then forks

- one child for the reference run,
- for the exploration, one child per plan of faults **at the point of its first fault**: the session executes
  the reference run again and forks at each point that has faults, so that no run repeats what comes before
  its fault. Up to `jobs` children run at the same time.

The loop of a run has no file descriptors and no threads, so a copy of the process is a copy of the cluster.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from time import monotonic as real_monotonic  # the function; the module attribute is replaced in runs
from time import process_time
from typing import NamedTuple

from kubewright.explore.faults import Fault, Plan, plan_of

from .forks import RunCrashed, exit_after, fork_here, load_value, run_forked, send
from .run import SimulatedRun
from .run_result import Run
from .trace import TraceEvent

RUN_TIMEOUT = 120.0
"""Real seconds after which a run is killed."""


class Child(NamedTuple):
    """A forked process whose result is awaited."""

    pid: int
    pipe: int
    started: float
    data: bytearray
    plan: Plan


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Session:
    """A prepared cluster in this process, from which runs are forked."""

    def __init__(self, run: SimulatedRun, *, jobs: int = 1) -> None:
        self.run = run
        self.jobs = max(jobs, 1)
        self._children: dict[int, Child] = {}
        self._own_pipe = -1
        """The pipe to the session, in a child that was forked at a point."""

    def __enter__(self) -> Session:
        self._prepared = self.run.prepared()
        self._prepared.__enter__()
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection would copy the pages of every object in each child
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        gc.enable()
        gc.unfreeze()
        self._prepared.__exit__(None, None, None)

    def execute(
        self,
        faults: Sequence[Fault] = (),
        *,
        skip: Sequence[int] = (),
        reference: Run | None = None,
        variation: str = "",
    ) -> Run:
        """Run the scenario in a forked process and return the result."""

        def execute() -> Run:
            self.run.reference = reference
            return self.run.execute(faults, skip=skip, variation=variation)

        result: Run = run_forked(execute)
        return result

    def explore(
        self,
        reference: Run,
        plans: Mapping[str, Sequence[Plan]],
        report: Callable[[Run], None],
        *,
        is_exhausted: Callable[[], bool] = lambda: False,
    ) -> str:
        """Run the scenario once per plan and report each run; return the trace digest of the last run.

        `plans` are by the point of their first fault. The digest equals that of the reference run if the
        operator is deterministic.
        """
        run, cluster = self.run, self.run.cluster
        run.reference = reference
        if reference.uses_threads:
            return self._explore_from_start(plans, report, is_exhausted)

        def on_point(event: TraceEvent) -> None:
            for plan in plans.get(event.point, ()):
                if is_exhausted():
                    return
                self._wait(report, self.jobs - 1)
                if self._fork(plan):
                    asyncio._set_running_loop(run.loop)  # asyncio forgets the loop in a forked process
                    return

        cluster.on_point = on_point
        result = run.execute(())
        self._exit_in_child(result)
        cluster.on_point = None
        self._wait(report, 0)
        return result.trace.digest(switches=False)

    def _explore_from_start(
        self,
        plans: Mapping[str, Sequence[Plan]],
        report: Callable[[Run], None],
        is_exhausted: Callable[[], bool],
    ) -> str:
        """Fork each run before its start: a process with threads cannot be forked within a run."""
        for plan in (each for found in plans.values() for each in found):
            if is_exhausted():
                break
            self._wait(report, self.jobs - 1)
            if self._fork(plan):
                self._exit_in_child(self.run.execute(plan))
        self._wait(report, 0)
        return self.execute(reference=self.run.reference).trace.digest(switches=False)

    def _exit_in_child(self, result: Run) -> None:
        """Send the result and end the process, if it was forked for a run."""
        if self._own_pipe >= 0:
            result.cpu_seconds = process_time()
            exit_after(lambda: send(self._own_pipe, result.without_details() if result.ok else result))

    def _fork(self, plan: Plan) -> bool:
        """Fork a run with faults at the current point and later ones; return True in the new process."""
        reading, writing = os.pipe()
        pid = fork_here()
        if pid:
            os.close(writing)
            self._children[reading] = Child(pid, reading, real_monotonic(), bytearray(), plan)
            return False
        os.close(reading)
        for child in self._children.values():
            os.close(child.pipe)
        self._children.clear()
        self._own_pipe = writing
        cluster = self.run.cluster
        cluster.on_point = None
        cluster.plan = plan_of(plan)
        self.run.faults = plan
        return True

    def _wait(self, report: Callable[[Run], None], most: int) -> None:
        """Read results until at most so many children are running."""
        while len(self._children) > most:
            ready, _, _ = select.select(list(self._children), [], [], 1.0)
            for pipe in ready:
                child = self._children[pipe]
                chunk = os.read(pipe, 1 << 16)
                if chunk:
                    child.data.extend(chunk)
                    continue
                report(self._result(child))
            now = real_monotonic()
            for child in list(self._children.values()):
                if now - child.started > RUN_TIMEOUT:
                    os.kill(child.pid, signal.SIGKILL)

    def _result(self, child: Child) -> Run:
        del self._children[child.pipe]
        os.close(child.pipe)
        status = os.waitpid(child.pid, 0)[1]
        try:
            result: Run = load_value(child.data)
            return result
        except RunCrashed:
            pass
        run = self.run
        failed = Run(scenario=run.scenario.name, seed=run.seed, replicas=run.replicas, faults=child.plan)
        code = os.waitstatus_to_exitcode(status)
        reason = (
            f"was killed after {RUN_TIMEOUT:g} s" if code == -signal.SIGKILL else f"ended with status {code}"
        )
        failed.add("process", f"the Python process of the run {reason}")
        return failed
