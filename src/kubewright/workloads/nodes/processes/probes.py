"""`ProcessProbes`: startup, readiness and liveness probes of containers that are processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.containers.container_state import ContainerState
from kubewright.workloads.nodes.containers.runtime import ContainerRun
from kubewright.workloads.nodes.objects import Object

from .handlers import ActionResult, run_action

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

    from .runtime import ProcessRuntime

_DEFAULTS: Final = {
    "initialDelaySeconds": 0,
    "periodSeconds": 10,
    "timeoutSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def _setting(probe: Object, name: str) -> int:
    value = probe.get(name)
    return _DEFAULTS[name] if value is None else int(value)


class _RunProbes:
    """Results of the probes of one run of a container."""

    def __init__(self, run: ContainerRun, probes: dict[str, Object]) -> None:
        self.run = run
        self.started = "startup" not in probes
        self.ready = "readiness" not in probes
        self.task: asyncio.Task[None] | None = None


class ProcessProbes:
    """Runs the probes of the containers of one pod."""

    def __init__(self, worker: PodWorker, runtime: ProcessRuntime) -> None:
        self._worker = worker
        self._runtime = runtime
        self._runs: dict[str, _RunProbes] = {}

    def check(self, container: ContainerState, now: float) -> float | None:
        """Update `started` and `ready` from the last results; the first call starts the probes."""
        run = container.run
        if run is None or container.kind == "init":
            return None
        state = self._runs.get(container.name)
        if state is None or state.run is not run:
            state = self._runs[container.name] = _RunProbes(run, container.probes)
            if container.probes:
                state.task = self._runtime.spawn(self._probe_all(container, state))
        if container.kind == "ephemeral":
            return None
        ready = state.started and state.ready and run.has_started and not run.behaviour.fail_readiness
        started = state.started and run.has_started
        if (container.started, container.ready) != (started, ready):
            container.started, container.ready = started, ready
            self._worker.dirty = True
        return None

    async def _probe_all(self, container: ContainerState, state: _RunProbes) -> None:
        """Run the startup probe until it succeeds, then the others until the container ends."""
        process = self._runtime.process_of(state.run)
        if process is None:
            return
        await process.started.wait()
        if "startup" in container.probes:
            await self._probe(container, state, "startup")
        others = [name for name in ("readiness", "liveness") if name in container.probes]
        async with asyncio.TaskGroup() as group:
            for name in others:
                group.create_task(self._probe(container, state, name))

    async def _probe(self, container: ContainerState, state: _RunProbes, name: str) -> None:
        """Run one probe periodically, until the container ends or a startup probe has succeeded."""
        probe, run = container.probes[name], state.run
        await asyncio.sleep(_setting(probe, "initialDelaySeconds"))
        successes = failures = 0
        while not self._is_over(run):
            result = await self._run_once(run, probe)
            if self._is_over(run):
                return
            if result.succeeded:
                successes, failures = successes + 1, 0
                if successes >= _setting(probe, "successThreshold"):
                    self._set(state, name, succeeded=True)
                    if name == "startup":
                        return
            else:
                successes, failures = 0, failures + 1
                run.report("Warning", "Unhealthy", f"{name.capitalize()} probe failed: {result.output}")
                if failures >= _setting(probe, "failureThreshold"):
                    self._set(state, name, succeeded=False)
                    if name != "readiness":
                        self._kill(container, run, name)
                        return
            await asyncio.sleep(_setting(probe, "periodSeconds"))

    def _is_over(self, run: ContainerRun) -> bool:
        return run.ended or run.stopping

    async def _run_once(self, run: ContainerRun, probe: Object) -> ActionResult:
        process = self._runtime.process_of(run)
        if process is None:
            return ActionResult(False, "container is not running")
        return await run_action(probe, process, _setting(probe, "timeoutSeconds"))

    def _set(self, state: _RunProbes, name: str, *, succeeded: bool) -> None:
        if name == "startup":
            state.started = succeeded
        elif name == "readiness":
            state.ready = succeeded
        self._worker.context.wake(self._worker)

    def _kill(self, container: ContainerState, run: ContainerRun, name: str) -> None:
        text = f"Container {container.name} failed {name} probe"
        if container.restarts_after(137):
            text += ", will be restarted"
        grace = container.probes[name].get("terminationGracePeriodSeconds")
        self._worker.stops.kill(container, text, grace_period=None if grace is None else float(grace))
