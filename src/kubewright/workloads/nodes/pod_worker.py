"""`PodWorker`: the lifecycle of one pod on a simulated node.

    new -> creating -> running -> finished
                 \\        \\__________/
                  \\__ terminating -> terminated (the kubelet deletes the object)

`advance` makes all transitions that are due and returns the time of the next one. It sets `dirty` when the
status has to be written; the kubelet then sends `status_patch`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kubewright.api.codec import decode, encode
from kubewright.api.times import parse_time
from kubewright.cache.store import ObjectKey

from .behaviour import BehaviourResolver, ContainerBehaviour
from .container_starts import PULL_BACKOFF_STATUS_SECONDS, ContainerStarts
from .container_state import ContainerKind, ContainerState
from .node_state import NodeState, Rejection, host_ports, pod_requests
from .objects import TERMINAL_PHASES, LoopClock, Object
from .pod_status import pod_conditions, pod_phase
from .resize import PodResize
from .runtime import ContainerExit, ContainerRun, ContainerRuntime, PodIdentity
from .settings import SimulationSettings

if TYPE_CHECKING:
    from .plugins.node_plugins import NodePlugins

Stage = Literal["new", "creating", "running", "finished", "terminating", "terminated"]


class WorkerContext(Protocol):
    """The parts of the kubelet that a worker uses."""

    clock: LoopClock
    rng: random.Random
    runtime: ContainerRuntime
    resolver: BehaviourResolver
    settings: SimulationSettings
    plugins: NodePlugins | None
    """Device plug-ins and CSI drivers of the nodes, if they are enabled."""

    def event(self, worker: PodWorker, kind: str, reason: str, message: str, container: str = "") -> None:
        """Record an event about a pod or one of its containers."""

    def wake(self, worker: PodWorker) -> None:
        """Call `advance` of a worker soon."""


class PodWorker:
    """The simulated execution of one pod."""

    def __init__(
        self, context: WorkerContext, node: NodeState, pod: Object, raw: bytes | None = None
    ) -> None:
        """`raw` is the encoded pod; with it, the decoded one is not held in memory between transitions."""
        metadata = pod["metadata"]
        self.context = context
        self.node = node
        self.identity = PodIdentity(
            metadata.get("namespace") or "", metadata["name"], metadata.get("uid") or "", node.name
        )
        self.key = ObjectKey(self.identity.namespace, self.identity.name)
        self.stage: Stage = "new"
        self.phase = "Pending"
        self.reason = ""
        self.message = ""
        self.dirty = False
        self.writing = False
        self.deadline: float | None = None
        self.start_time = ""
        self.address = ""
        self.containers: list[ContainerState] = []
        self.requests: dict[str, int] = {}
        self.conditions: dict[str, tuple[str, str, str, str, int]] = {}
        """Status, reason, message, transition time and observed generation, by type."""
        self.resize = PodResize(self)
        self.probe_checks = context.runtime.create_probes(self)
        self.starts = ContainerStarts(self)
        self.plugins = context.plugins.for_pod(self) if context.plugins is not None else None
        self._observed_generation = 0
        self._create_at = 0.0
        self._grace: float | None = None
        self._kill_by = 0.0
        self._pod: Object | None = None
        self._raw: bytes | None = None
        self.signature: object = None
        """What `update` depends on; the kubelet ignores versions of the pod with the same signature."""
        self.due: float | None = None
        self.update(pod, raw)
        if (pod.get("status") or {}).get("startTime"):
            self._adopt(pod)

    @property
    def pod(self) -> Object:
        """The pod, decoded when it is used."""
        if self._pod is None:
            assert self._raw is not None
            self._pod = decode(self._raw, dict)
        return self._pod

    @property
    def encoded(self) -> bytes:
        """The pod as JSON."""
        return self._raw if self._raw is not None else encode(self.pod)

    def compact(self) -> None:
        """Release the decoded pod until it is used again."""
        if self._raw is not None:
            self._pod = None

    @property
    def is_finished(self) -> bool:
        """Whether no container runs or will run."""
        return self.stage in ("finished", "terminated")

    @property
    def is_terminating(self) -> bool:
        """Whether the deletion of the pod was processed."""
        return self.stage in ("terminating", "terminated")

    @property
    def grace_period(self) -> float:
        """Seconds that containers have to exit."""
        seconds = (self.pod.get("spec") or {}).get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    def find(self, container: str) -> ContainerState | None:
        """Return the container of a name."""
        return next((each for each in self.containers if each.name == container), None)

    # Changes of the object

    def update(self, pod: Object, raw: bytes | None = None) -> None:
        """Store a newer version of the pod: deletion, ephemeral containers, resources and annotations."""
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        self._pod, self._raw = pod, raw
        if not self.containers and self.stage == "new":
            self.containers = list(_containers(spec))
            if any(each.kind in ("init", "sidecar") for each in self.containers):
                for each in self.containers:
                    each.state = {"waiting": {"reason": "PodInitializing"}}
            self.requests = pod_requests(spec)
        known = {each.name for each in self.containers}
        for container in spec.get("ephemeralContainers") or ():
            if container["name"] not in known:
                self.containers.append(ContainerState(container, "ephemeral", "Never"))
        if self.start_time and not self.is_finished and not self.is_terminating:
            self._set_deadline(spec)
            self.dirty = self.dirty or self._generation != self._observed_generation
        if self.stage == "running":
            self.resize.apply(spec)
            self.refresh()
        if metadata.get("deletionTimestamp") and not self.is_terminating:
            self._grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        elif self.is_terminating:
            self._shorten_grace(float(metadata.get("deletionGracePeriodSeconds") or 0))

    def refresh(self) -> None:
        """Apply changed annotations and rules to the running containers."""
        for each in self.containers:
            if each.run is not None and not each.run.ended:
                self._rearm(each, each.run)
        self.context.wake(self)

    def _rearm(self, container: ContainerState, run: ContainerRun) -> None:
        behaviour = self.behaviour(container)
        before, run.behaviour = run.behaviour, behaviour
        if behaviour.exit_after == before.exit_after and behaviour.exit_code == before.exit_code:
            return
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        if behaviour.exit_after is not None:
            result = ContainerExit(behaviour.exit_code, behaviour.exit_reason, behaviour.exit_message)
            elapsed = self.context.clock.time() - container.since
            delay = max(0.0, behaviour.exit_after - elapsed)
            run.timer = asyncio.get_running_loop().call_later(delay, self.context.runtime.kill, run, result)

    def _adopt(self, pod: Object) -> None:
        """Continue a pod that another process has started."""
        status, spec = pod.get("status") or {}, pod.get("spec") or {}
        now = self.context.clock.time()
        self._observed_generation = int(status.get("observedGeneration") or 0)
        self.phase = status.get("phase") or "Pending"
        self.reason, self.message = status.get("reason") or "", status.get("message") or ""
        self.start_time, self.address = status["startTime"], status.get("podIP") or ""
        for one in status.get("conditions") or ():
            self.conditions[one["type"]] = (
                one.get("status") or "",
                one.get("reason") or "",
                one.get("message") or "",
                one.get("lastTransitionTime") or self.start_time,
                one.get("observedGeneration") or 0,
            )
        known = {
            one["name"]: one
            for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            for one in status.get(field) or ()
        }
        if self.phase in TERMINAL_PHASES:
            self.stage = "finished"
        else:
            self.stage = "running" if self.address else "creating"
            self._create_at = now
            self._reserve(spec)
            if self.node.pool is not None and self.address:
                self.node.pool.reserve(self.address)
            self._set_deadline(spec)
        for each in self.containers:
            if each.name in known:
                each.restore(known[each.name])
                each.since = now
                if not each.is_running or self.stage != "running":
                    continue
                if not self.context.runtime.resumes:
                    each.terminate(ContainerExit(255, "Unknown"), self.context.clock.stamp())
                    self.dirty = True
                else:
                    known_id = each.container_id
                    self.starts.run(each, self.behaviour(each))
                    each.container_id = known_id or each.container_id

    def _set_deadline(self, spec: Object) -> None:
        seconds = spec.get("activeDeadlineSeconds")
        if seconds is not None:
            clock = self.context.clock
            elapsed = (clock.date() - parse_time(self.start_time)).total_seconds()
            self.deadline = clock.time() + max(0.0, float(seconds) - elapsed)

    # Transitions

    def advance(self, now: float) -> float | None:
        """Make all transitions that are due; return when the next one is."""
        if self._grace is not None:
            grace, self._grace = self._grace, None
            self._begin_termination(now, grace)
        if self.stage == "terminating":
            return self._continue_termination()
        if self.is_finished:
            return None
        if self.stage == "new" and not self._admit(now):
            return None
        if self.deadline is not None and now >= self.deadline:
            self.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            return None
        if not self._has_sandbox:
            if now < self._create_at:
                return _earliest(self._create_at, self.deadline)
            if self.plugins is not None and not self.plugins.mount():
                return self.deadline
            self._create_sandbox()
        due = self._sync_containers(now)
        return _earliest(due, self.deadline) if self._update_phase() else None

    def _admit(self, now: float) -> bool:
        if self.plugins is None or not self.plugins.is_admitting:
            rejection = self.node.admit(self.pod, self.requests)
            if rejection is not None:
                self._reject(rejection)
                return False
            self._reserve(self.pod.get("spec") or {})
        if self.plugins is not None:
            admitted = self.plugins.admit()
            if isinstance(admitted, Rejection):
                self._release()
                self._reject(admitted)
                return False
            if not admitted:
                return False
        self.start_time = self.context.clock.stamp()
        self._set_deadline(self.pod.get("spec") or {})
        behaviours = [self.behaviour(each) for each in self.containers]
        evicted = next((each.evict for each in behaviours if each.evict), "")
        delay = max((each.start_delay for each in behaviours), default=0.0)
        jitter = self.context.settings.start_jitter
        delay += self.context.rng.uniform(0, jitter) if jitter else 0.0
        self.stage, self._create_at = "creating", now + delay
        self.dirty = self.dirty or delay > 0
        if evicted:
            self.evict(evicted)
            return False
        return True

    def _reject(self, rejection: Rejection) -> None:
        self.context.event(self, "Warning", rejection.reason, rejection.message)
        self.phase, self.reason = "Failed", rejection.reason
        self.message = f"Pod was rejected: {rejection.message}"
        self.containers = []
        self.stage, self.dirty = "finished", True

    @property
    def _has_sandbox(self) -> bool:
        return self.stage != "creating"

    def allocate_address(self) -> str:
        """Return the address of the pod, allocated with the first call."""
        if not self.address:
            host = (self.pod.get("spec") or {}).get("hostNetwork")
            self.address = self.context.runtime.pod_address or (
                self.node.internal_ip if host else self.node.allocate_address()
            )
        return self.address

    def _create_sandbox(self) -> None:
        self.allocate_address()
        self.stage, self.dirty = "running", True

    def _sync_containers(self, now: float) -> float | None:
        """Start, restart and check the containers; return when to continue."""
        due: float | None = None
        initialized = self._has_started_main
        blocked = False
        for each in self.containers:
            if each.kind == "init" and (each.is_complete or initialized):
                continue
            if blocked and each.kind != "ephemeral":
                continue
            due = _earliest(due, self._sync(each, now))
            if not initialized and (
                (each.kind == "init" and not each.is_complete)
                or (each.kind == "sidecar" and not each.started)
            ):
                blocked = True
        return due

    @property
    def _has_started_main(self) -> bool:
        return any(
            each.kind == "main" and (each.is_running or each.exit_code is not None)
            for each in self.containers
        )

    @property
    def _has_ended_mains(self) -> bool:
        """Whether all main containers have ended and are not restarted."""
        return all(
            each.is_terminated and not each.restarts_after(each.exit_code or 0)
            for each in self.containers
            if each.kind == "main"
        )

    def _sync(self, container: ContainerState, now: float) -> float | None:
        if container.is_running:
            return self.probe_checks.check(container, now)
        if container.is_terminated and not container.restarts_after(container.exit_code or 0):
            return None
        if container.kind == "sidecar" and self._has_ended_mains:
            return None
        if container.restart_at is None and container.exit_code is not None:
            self.starts.schedule_restart(container, now)
        if container.restart_at is not None and now < container.restart_at:
            self.starts.show_pull_backoff(container, now)
            if container.unhealthy == "pull":
                return min(container.restart_at, container.since + PULL_BACKOFF_STATUS_SECONDS)
            return container.restart_at
        return self.starts.start(container, now)

    # Exits

    def exited(self, container: ContainerState, result: ContainerExit) -> None:
        """Called when a run of a container has ended."""
        container.terminate(result, self.context.clock.stamp())
        container.restart_at = None
        self.dirty = True
        self.context.wake(self)

    def exit(self, container: str, result: ContainerExit) -> None:
        """Let running containers exit now; all main containers if no name is given."""
        for each in self.containers:
            wanted = each.name == container if container else each.kind == "main"
            if wanted and each.run is not None and each.is_running:
                self.context.runtime.kill(each.run, result)

    def kill(self, container: ContainerState, message: str, *, grace_period: float | None = None) -> None:
        """Kill a container, for example after failed probes; it is restarted by its policy.

        Without a grace period, it has that of the pod.
        """
        self.context.event(self, "Normal", "Killing", message, self._path(container))
        if container.run is not None:
            seconds = self.grace_period if grace_period is None else grace_period
            self.context.runtime.kill(container.run, ContainerExit(137, "Error"), grace_period=seconds)

    def fail(self, reason: str, message: str) -> None:
        """Stop all containers and set the phase to Failed."""
        self.reason, self.message = reason, message
        self.stage = "finished"
        self._stop_all(kill=True)
        self.phase = "Failed"
        self._release()
        self.dirty = True

    def evict(self, message: str) -> None:
        """Evict the pod, as a kubelet does under node pressure."""
        self.context.event(self, "Warning", "Evicted", message)
        self._set_condition("DisruptionTarget", "True", "TerminationByKubelet", message)
        self.fail("Evicted", message)
        self.context.wake(self)

    def _stop_all(self, *, kill: bool) -> None:
        for each in self.containers:
            if each.run is not None and each.is_running:
                self.context.event(
                    self, "Normal", "Killing", f"Stopping container {each.name}", self._path(each)
                )
                if kill:
                    self.context.runtime.kill(each.run, ContainerExit(137))
            elif not each.is_terminated and not each.is_running:
                each.restart_at = None

    # Termination

    def _begin_termination(self, now: float, grace: float) -> None:
        """Stop the containers: main containers first, then sidecars."""
        if self.stage == "finished":
            self.stage = "terminated"
            return
        started = self.stage in ("running",)
        self.stage, self._kill_by = "terminating", now + grace
        if not started:
            return
        for each in self.containers:
            if each.run is not None and each.is_running:
                self.context.event(
                    self, "Normal", "Killing", f"Stopping container {each.name}", self._path(each)
                )
        for each in list(self.containers):
            if each.kind != "sidecar" and each.run is not None and each.is_running:
                self.context.runtime.stop(each.run, grace)

    def _shorten_grace(self, grace: float) -> None:
        now = self.context.clock.time()
        if now + grace >= self._kill_by:
            return
        self._kill_by = now + grace
        for each in self.containers:
            if each.run is not None and each.is_running:
                self.context.runtime.stop(each.run, grace)

    def _continue_termination(self) -> float | None:
        running = [each for each in self.containers if each.is_running and each.run is not None]
        if running and all(each.kind == "sidecar" for each in running):
            grace = max(0.0, self._kill_by - self.context.clock.time())
            for each in reversed(running):
                assert each.run is not None
                if each.run.stopping:
                    continue
                if each.run.timer is None or each.run.behaviour.exit_after is not None:
                    self.context.runtime.stop(each.run, grace)
            running = [each for each in running if each.is_running]
        if running:
            return None
        if self.plugins is not None and not self.plugins.unmount():
            return None
        self.stage = "terminated"
        if self.start_time:
            self.phase = pod_phase(self.containers, terminal=True, initialized=True)
            if self.phase not in TERMINAL_PHASES:
                self.phase = "Failed"
            self.dirty = True
        self._release()
        return None

    def _reserve(self, spec: Object) -> None:
        self.node.reserve(self.identity.uid, self.requests)
        if ports := host_ports(spec):
            self.node.host_ports[self.identity.uid] = ports

    def _release(self) -> None:
        self.node.host_ports.pop(self.identity.uid, None)
        self.node.release(self.identity.uid, self.requests)
        if self.plugins is not None:
            self.plugins.unmount()

    def discard(self) -> None:
        """Release the resources of a pod whose object was deleted."""
        self._release()
        for each in self.containers:
            if each.run is not None and each.is_running:
                self.context.runtime.kill(each.run, ContainerExit(137))
        self.context.runtime.release(self.identity)
        spec = self.pod.get("spec") or {}
        if self.address and self.node.pool is not None and not spec.get("hostNetwork"):
            self.node.pool.release(self.address)
        self.stage, self.dirty = "terminated", False

    # Status

    def _update_phase(self) -> bool:
        """Compute the phase; return whether the pod continues to run."""
        if self._has_ended_mains:
            self._stop_sidecars()
        phase = pod_phase(self.containers, terminal=False, initialized=self._has_started_main)
        if phase in TERMINAL_PHASES:
            self.stage = "finished"
            self._release()
        if phase != self.phase:
            self.phase, self.dirty = phase, True
        return phase not in TERMINAL_PHASES

    def _stop_sidecars(self) -> None:
        """Stop the sidecars after the main containers have ended."""
        for each in reversed(self.containers):
            run = each.run
            if each.kind == "sidecar" and run is not None and each.is_running and not run.stopping:
                text = f"Stopping container {each.name}"
                self.context.event(self, "Normal", "Killing", text, self._path(each))
                self.context.runtime.kill(run, ContainerExit(0), grace_period=self.grace_period)
                run.stopping = True
            each.restart_at = None

    def _set_condition(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        old = self.conditions.get(kind)
        since = old[3] if old is not None and old[0] == status else self.context.clock.stamp()
        self.conditions[kind] = (status, reason, message, since, self._generation)

    @property
    def _generation(self) -> int:
        return int(self.pod["metadata"].get("generation") or 0)

    def remove_condition(self, kind: str) -> bool:
        """Remove a condition; return whether it was set."""
        return self.conditions.pop(kind, None) is not None

    set_condition = _set_condition

    def needs_write(self) -> bool:
        """Whether the status has to be written, also because of readiness gates."""
        found = pod_conditions(self.pod, self.containers, self.phase, sandbox=bool(self.address))
        return self.dirty or any(
            self.conditions.get(kind, ("",))[:3] != tuple(condition) for kind, condition in found.items()
        )

    def status_patch(self) -> Object:
        """Return the strategic merge patch of the status; call it once per write."""
        self.dirty = False
        self._observed_generation = self._generation
        status: Object = {"phase": self.phase, "observedGeneration": self._generation}
        if self.reason:
            status["reason"], status["message"] = self.reason, self.message
        if self.start_time:
            sandbox = bool(self.address) and self.phase not in TERMINAL_PHASES
            for kind, found in pod_conditions(self.pod, self.containers, self.phase, sandbox=sandbox).items():
                self._set_condition(kind, *found)
            status["conditions"] = [
                _condition(kind, *values) for kind, values in self.conditions.items() if self._owns(kind)
            ]
            status["startTime"] = self.start_time
            status["hostIP"] = self.node.internal_ip
            status["hostIPs"] = [{"ip": self.node.internal_ip}]
        if self.address:
            status["podIP"] = self.address
            status["podIPs"] = [{"ip": self.address}]
        for field, kinds in _STATUS_FIELDS:
            statuses = [each.status() for each in self.containers if each.kind in kinds]
            if statuses:
                status[field] = statuses
        for kind in self.resize.removed_conditions():
            status.setdefault("conditions", []).append({"type": kind, "$patch": "delete"})
        return {"metadata": {"uid": self.identity.uid}, "status": status}

    def _owns(self, kind: str) -> bool:
        return kind in _OWNED_CONDITIONS

    def behaviour(self, container: ContainerState) -> ContainerBehaviour:
        """Return the behaviour of a container now."""
        return self.context.resolver.behaviour(self.pod, container.name, container.kind)

    def _path(self, container: ContainerState) -> str:
        return f"spec.{_SPEC_FIELDS[container.kind]}{{{container.name}}}"

    container_path = _path


_SPEC_FIELDS: Final[dict[ContainerKind, str]] = {
    "init": "initContainers",
    "sidecar": "initContainers",
    "main": "containers",
    "ephemeral": "ephemeralContainers",
}
_STATUS_FIELDS: Final = (
    ("initContainerStatuses", ("init", "sidecar")),
    ("containerStatuses", ("main",)),
    ("ephemeralContainerStatuses", ("ephemeral",)),
)
_OWNED_CONDITIONS: Final = frozenset(
    (
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "DisruptionTarget",
        "PodResizePending",
        "PodResizeInProgress",
    )
)


def _containers(spec: Object) -> Iterable[ContainerState]:
    policy = spec.get("restartPolicy") or "Always"
    for container in spec.get("initContainers") or ():
        yield ContainerState(
            container, "sidecar" if container.get("restartPolicy") == "Always" else "init", policy
        )
    for container in spec.get("containers") or ():
        yield ContainerState(container, "main", policy)


def _condition(kind: str, status: str, reason: str, message: str, since: str, generation: int) -> Object:
    # Null removes what an earlier status has set; a missing field would keep it.
    condition: Object = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "reason": reason or None,
        "message": message or None,
    }
    if generation:
        condition["observedGeneration"] = generation
    return condition


def _earliest(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)


__all__ = ["PodWorker", "WorkerContext"]
