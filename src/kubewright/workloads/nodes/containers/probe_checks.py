"""Probes of simulated containers: declared to succeed or fail, never sent.

The results of exec probes with simple commands are known (see `simple_commands`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.objects import Object

from .container_state import ContainerState
from .simple_commands import simple_command

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

_DEFAULTS: Final = {"periodSeconds": 10, "failureThreshold": 3, "initialDelaySeconds": 0}


class ProbeChecks:
    """Evaluates the declared results of the probes of one pod."""

    __slots__ = ("_worker",)

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker

    def check(self, container: ContainerState, now: float) -> float | None:
        """Update `started` and `ready` of a running container; return when a result changes."""
        if container.kind == "init" or container.run is None:
            return None
        behaviour = container.run.behaviour
        fail_readiness = behaviour.fail_readiness or self._exec_failure(container, "readiness")
        fail_liveness = behaviour.fail_liveness or self._exec_failure(container, "liveness")
        fail_startup = behaviour.fail_startup or self._exec_failure(container, "startup")
        started_at = container.since + self._delay(container, "startup")
        if fail_startup and ("startup" in container.probes or not container.probes):
            return self._failing(container, "startup", "Startup", fail_startup, now)
        if now < started_at:
            self._set(container, started=False, ready=False)
            return started_at
        if fail_liveness:
            due = self._failing(container, "liveness", "Liveness", fail_liveness, now)
            if not container.is_running:
                return due
        else:
            due = None
        if fail_readiness:
            self._report(container, "readiness", f"Readiness probe failed: {fail_readiness}")
            self._set(container, started=True, ready=False)
            return due
        ready_at = started_at + behaviour.ready_delay + self._delay(container, "readiness")
        if now < ready_at:
            self._set(container, started=True, ready=False)
            return ready_at if due is None else min(due, ready_at)
        if container.unhealthy == "readiness":
            container.unhealthy = ""
        self._set(container, started=True, ready=True)
        return due

    def _exec_failure(self, container: ContainerState, name: str) -> str:
        """Return how an exec probe with a simple command fails; empty if it succeeds or is not known."""
        probe = container.probes.get(name)
        if probe is None or not probe.get("exec"):
            return ""
        found = simple_command(probe["exec"])
        if found is None or found.exit_code == 0:
            return ""
        return found.output or f"command failed with exit code {found.exit_code}"

    def _delay(self, container: ContainerState, name: str) -> float:
        if not self._worker.context.settings.probe_delays or name not in container.probes:
            return 0.0
        return float(_setting(container.probes[name], "initialDelaySeconds"))

    def _failing(self, container: ContainerState, name: str, title: str, output: str, now: float) -> float:
        """Count a failing probe from the start of the container; kill the container at its threshold."""
        probe = container.probes.get(name) or {}
        period, threshold = _setting(probe, "periodSeconds"), _setting(probe, "failureThreshold")
        kill_at = container.since + _setting(probe, "initialDelaySeconds") + period * threshold
        self._report(container, name, f"{title} probe failed: {output}")
        if name == "startup":
            self._set(container, started=False, ready=False)
        if now < kill_at:
            return kill_at
        text = f"Container {container.name} failed {name} probe"
        if container.restarts_after(137):
            text += ", will be restarted"
        self._worker.stops.kill(container, text)
        return now

    def _report(self, container: ContainerState, name: str, message: str) -> None:
        if container.unhealthy != name:
            container.unhealthy = name
            path = container.path
            self._worker.context.event(self._worker, "Warning", "Unhealthy", message, path)

    def _set(self, container: ContainerState, *, started: bool, ready: bool) -> None:
        if container.kind == "ephemeral":
            return
        if (container.started, container.ready) != (started, ready):
            container.started, container.ready = started, ready
            self._worker.dirty = True


def _setting(probe: Object, name: str) -> int:
    value = probe.get(name)
    return _DEFAULTS[name] if value is None else int(value)
