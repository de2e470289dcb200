"""Stops of the containers of a simulated pod: exits, kills and the order of termination.

When a pod terminates, its main containers are stopped first and its sidecars after they have ended, in
reverse order. All have the same deadline, which a second deletion with a shorter grace period brings forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .container_state import ContainerState
from .runtime import ContainerExit

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker


class ContainerStops:
    """Stops the containers of one pod."""

    __slots__ = ("_kill_by", "_worker")

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker
        self._kill_by = 0.0

    def exit(self, container: str, result: ContainerExit) -> None:
        """Let running containers exit now; all main containers if no name is given."""
        worker = self._worker
        for each in worker.containers:
            wanted = each.name == container if container else each.kind == "main"
            if wanted and each.run is not None and each.is_running:
                worker.context.runtime.kill(each.run, result)

    def kill(self, container: ContainerState, message: str, *, grace_period: float | None = None) -> None:
        """Kill a container, for example after failed probes; it is restarted by its policy.

        Without a grace period, it has that of the pod.
        """
        worker = self._worker
        worker.context.event(worker, "Normal", "Killing", message, container.path)
        if container.run is not None:
            seconds = worker.grace_period if grace_period is None else grace_period
            worker.context.runtime.kill(container.run, ContainerExit(137, "Error"), grace_period=seconds)

    def fail(self) -> None:
        """Kill all containers of a pod that has failed; none is restarted."""
        for each in self._worker.containers:
            if each.run is not None and each.is_running:
                self._report(each)
                self._worker.context.runtime.kill(each.run, ContainerExit(137))
            elif not each.is_terminated and not each.is_running:
                each.restart_at = None

    def discard(self) -> None:
        """Kill all containers of a pod whose object was deleted."""
        for each in self._worker.containers:
            if each.run is not None and each.is_running:
                self._worker.context.runtime.kill(each.run, ContainerExit(137))

    def stop_sidecars(self) -> None:
        """Stop the sidecars after the main containers have ended."""
        worker = self._worker
        for each in reversed(worker.containers):
            run = each.run
            if each.kind == "sidecar" and run is not None and each.is_running and not run.stopping:
                self._report(each)
                worker.context.runtime.kill(run, ContainerExit(0), grace_period=worker.grace_period)
                run.stopping = True
            each.restart_at = None

    # Termination

    def terminate(self, now: float, grace: float) -> None:
        """Begin to stop all containers, within the grace period."""
        self._kill_by = now + grace
        for each in self._worker.containers:
            if each.run is not None and each.is_running:
                self._report(each)
        for each in list(self._worker.containers):
            if each.kind != "sidecar" and each.run is not None and each.is_running:
                self._worker.context.runtime.stop(each.run, grace)

    def shorten_grace(self, grace: float) -> None:
        """Bring the deadline of the termination forward, if the grace period ends earlier."""
        now = self._worker.context.clock.time()
        if now + grace >= self._kill_by:
            return
        self._kill_by = now + grace
        for each in self._worker.containers:
            if each.run is not None and each.is_running:
                self._worker.context.runtime.stop(each.run, grace)

    def continue_termination(self) -> bool:
        """Stop the sidecars when it is their turn; return whether all containers have ended."""
        context = self._worker.context
        running = [each for each in self._worker.containers if each.is_running and each.run is not None]
        if running and all(each.kind == "sidecar" for each in running):
            grace = max(0.0, self._kill_by - context.clock.time())
            for each in reversed(running):
                assert each.run is not None
                if each.run.stopping:
                    continue
                if each.run.timer is None or each.run.behaviour.exit_after is not None:
                    context.runtime.stop(each.run, grace)
        return not any(each.is_running for each in running)

    def _report(self, container: ContainerState) -> None:
        text = f"Stopping container {container.name}"
        self._worker.context.event(self._worker, "Normal", "Killing", text, container.path)
