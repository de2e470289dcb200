"""Runs in forked processes: each run continues a copy of a prepared cluster.

`Session` starts the control plane of a scenario once, in a child of the calling process. It then forks

- one child for the reference run,
- for the exploration, one child per fault **at the point of the fault**: the session executes the reference
  run again and forks at each point that has faults, so that no run repeats what comes before its fault. Up to
  `jobs` children run at the same time.

The loop of a run has no file descriptors and no threads, so a copy of the process is a copy of the cluster.
Fork also isolates runs from each other: what one leaves in module globals, or a crash of the interpreter,
does not affect another.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import random
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic as real_monotonic  # the function; the module attribute is replaced in runs
from time import process_time
from typing import Any, NamedTuple

from .faults import Fault
from .run import Run, SimulatedRun

RUN_TIMEOUT = 120.0
"""Real seconds after which a run is killed."""
_HEADER = struct.Struct("!Q")


class RunCrashed(Exception):
    """A forked process ended without a result."""


class Child(NamedTuple):
    """A forked process whose result is awaited."""

    pid: int
    pipe: int
    started: float
    data: bytearray
    fault: Fault | None


def fork(function: Callable[[int], object]) -> tuple[int, int]:
    """Fork a process that calls a function with a pipe to write to; return its id and the pipe to read."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = _fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    _exit_after(lambda: function(writing))
    raise AssertionError("unreachable")


def _fork() -> int:
    """Fork; the child continues with the same random numbers, which Python would otherwise seed again."""
    state = random.getstate()
    pid = os.fork()
    if not pid:
        random.setstate(state)
    return pid


def _exit_after(function: Callable[[], object]) -> None:
    """Call a function and end the process."""
    code = 0
    try:
        function()
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def send(pipe: int, value: Any) -> None:
    """Write one pickled value."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(_HEADER.pack(len(data)) + data)
    while view:
        view = view[os.write(pipe, view) :]


def receive(pipe: int) -> Iterator[Any]:
    """Read pickled values until the other end is closed."""
    with os.fdopen(pipe, "rb") as file:
        while header := file.read(_HEADER.size):
            data = file.read(_HEADER.unpack(header)[0])
            yield pickle.loads(data)  # noqa: S301 - written by a child of this process


def run_forked(function: Callable[[], Any]) -> Any:
    """Call a function in a forked process and return its result; raise `RunCrashed` without one."""
    pid, pipe = fork(lambda writing: send(writing, function()))
    try:
        values = list(receive(pipe))
    finally:
        status = os.waitpid(pid, 0)[1]
    if not values:
        raise RunCrashed(f"a run ended with status {os.waitstatus_to_exitcode(status)}")
    return values[0]


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
        self, faults: Sequence[Fault] = (), *, skip: Sequence[int] = (), reference: Run | None = None
    ) -> Run:
        """Run the scenario in a forked process and return the result."""

        def execute() -> Run:
            self.run.reference = reference
            return _transferable(self.run.execute(faults, skip=skip), with_trace=True)

        result: Run = run_forked(execute)
        return result

    def explore(
        self,
        reference: Run,
        faults: Mapping[str, Sequence[Fault]],
        report: Callable[[Run], None],
        *,
        is_exhausted: Callable[[], bool] = lambda: False,
    ) -> str:
        """Run the scenario once per fault and report each run; return the trace digest of the last run.

        `faults` are by point. The digest equals that of the reference run if the operator is deterministic.
        """
        run, cluster = self.run, self.run.cluster
        run.reference = reference
        if reference.uses_threads:
            return self._explore_from_start(faults, report, is_exhausted)

        def on_point(point: str) -> None:
            for fault in faults.get(point, ()):
                if is_exhausted():
                    return
                self._wait(report, self.jobs - 1)
                if self._fork(fault):
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
        faults: Mapping[str, Sequence[Fault]],
        report: Callable[[Run], None],
        is_exhausted: Callable[[], bool],
    ) -> str:
        """Fork each run before its start: a process with threads cannot be forked within a run."""
        for fault in (each for found in faults.values() for each in found):
            if is_exhausted():
                break
            self._wait(report, self.jobs - 1)
            if self._fork(fault):
                self._exit_in_child(self.run.execute((fault,)))
        self._wait(report, 0)
        return self.execute(reference=self.run.reference).trace.digest(switches=False)

    def _exit_in_child(self, result: Run) -> None:
        """Send the result and end the process, if it was forked for a run."""
        if self._own_pipe >= 0:
            result.cpu_seconds = process_time()
            _exit_after(lambda: send(self._own_pipe, _transferable(result, with_trace=not result.ok)))

    def _fork(self, fault: Fault) -> bool:
        """Fork a run with a fault at the current point; return True in the new process."""
        reading, writing = os.pipe()
        pid = _fork()
        if pid:
            os.close(writing)
            self._children[reading] = Child(pid, reading, real_monotonic(), bytearray(), fault)
            return False
        os.close(reading)
        for child in self._children.values():
            os.close(child.pipe)
        self._children.clear()
        self._own_pipe = writing
        cluster = self.run.cluster
        cluster.on_point = None
        cluster.plan = {fault.point: fault}
        self.run.faults = (fault,)
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
        if len(child.data) > _HEADER.size:
            result: Run = pickle.loads(bytes(child.data[_HEADER.size :]))  # noqa: S301 - of our own child
            return result
        run = self.run
        failed = Run(scenario=run.scenario.name, seed=run.seed, replicas=run.replicas)
        failed.faults = (child.fault,) if child.fault is not None else ()
        code = os.waitstatus_to_exitcode(status)
        reason = (
            f"was killed after {RUN_TIMEOUT:g} s" if code == -signal.SIGKILL else f"ended with status {code}"
        )
        failed.add("process", f"the Python process of the run {reason}")
        return failed


def _transferable(run: Run, *, with_trace: bool) -> Run:
    """Return a run without what is only needed to explain a violation."""
    if not with_trace:
        run.trace.events = []
        run.final_state = {}
        run.state = run.state_at_fault = None
    return run


__all__ = ["RunCrashed", "Session", "fork", "receive", "run_forked", "send"]
