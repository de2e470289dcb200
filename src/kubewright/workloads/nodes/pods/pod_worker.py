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
from typing import TYPE_CHECKING, Literal, Protocol

from kubewright.api.encoding.codec import decode, encode
from kubewright.api.values.times import parse_time
from kubewright.cache.stores.store import ObjectKey
from kubewright.workloads.nodes.containers.container_starts import (
    PULL_BACKOFF_STATUS_SECONDS,
    ContainerStarts,
)
from kubewright.workloads.nodes.containers.container_state import ContainerState, containers_of
from kubewright.workloads.nodes.containers.container_stops import ContainerStops
from kubewright.workloads.nodes.containers.resize import PodResize
from kubewright.workloads.nodes.containers.runtime import (
    ContainerExit,
    ContainerRun,
    ContainerRuntime,
    PodIdentity,
)
from kubewright.workloads.nodes.objects import TERMINAL_PHASES, LoopClock, Object
from kubewright.workloads.nodes.registration.node_state import NodeState, Rejection, host_ports, pod_requests
from kubewright.workloads.nodes.settings import SimulationSettings

from .behaviour import BehaviourResolver, ContainerBehaviour
from .pod_conditions import PodConditions
from .pod_status import (
    PodCondition,
    container_statuses,
    has_ended_mains,
    has_started_main,
    pod_conditions,
    pod_phase,
)

if TYPE_CHECKING:
    from kubewright.workloads.nodes.plugins.node_plugins import NodePlugins

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
        self.conditions = PodConditions(context.clock)
        self.resize = PodResize(self)
        self.probe_checks = context.runtime.create_probes(self)
        self.starts = ContainerStarts(self)
        self.stops = ContainerStops(self)
        self.plugins = context.plugins.for_pod(self) if context.plugins is not None else None
        self._observed_generation = 0
        self._create_at = 0.0
        self._grace: float | None = None
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
    def generation(self) -> int:
        """The generation of the pod."""
        return int(self.pod["metadata"].get("generation") or 0)

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
            self.containers = list(containers_of(spec))
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
            self.dirty = self.dirty or self.generation != self._observed_generation
        if self.stage == "running":
            self.resize.apply(spec)
            self.refresh()
        if metadata.get("deletionTimestamp") and not self.is_terminating:
            self._grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        elif self.is_terminating:
            self.stops.shorten_grace(float(metadata.get("deletionGracePeriodSeconds") or 0))

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
        self.conditions.restore(status)
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
            self._continue_termination()
            return None
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
        initialized = has_started_main(self.containers)
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

    def _sync(self, container: ContainerState, now: float) -> float | None:
        if container.is_running:
            return self.probe_checks.check(container, now)
        if container.is_terminated and not container.restarts_after(container.exit_code or 0):
            return None
        if container.kind == "sidecar" and has_ended_mains(self.containers):
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

    def fail(self, reason: str, message: str) -> None:
        """Stop all containers and set the phase to Failed."""
        self.reason, self.message = reason, message
        self.stage = "finished"
        self.stops.fail()
        self.phase = "Failed"
        self._release()
        self.dirty = True

    def evict(self, message: str) -> None:
        """Evict the pod, as a kubelet does under node pressure."""
        self.context.event(self, "Warning", "Evicted", message)
        self.conditions.set(
            "DisruptionTarget", PodCondition("True", "TerminationByKubelet", message), self.generation
        )
        self.fail("Evicted", message)
        self.context.wake(self)

    # Termination

    def _begin_termination(self, now: float, grace: float) -> None:
        if self.stage == "finished":
            self.stage = "terminated"
            return
        self.stage = "terminating"
        self.stops.terminate(now, grace)

    def _continue_termination(self) -> None:
        if not self.stops.continue_termination():
            return
        if self.plugins is not None and not self.plugins.unmount():
            return
        self.stage = "terminated"
        if self.start_time:
            self.phase = pod_phase(self.containers, terminal=True, initialized=True)
            if self.phase not in TERMINAL_PHASES:
                self.phase = "Failed"
            self.dirty = True
        self._release()

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
        self.stops.discard()
        self.context.runtime.release(self.identity)
        spec = self.pod.get("spec") or {}
        if self.address and self.node.pool is not None and not spec.get("hostNetwork"):
            self.node.pool.release(self.address)
        self.stage, self.dirty = "terminated", False

    # Status

    def _update_phase(self) -> bool:
        """Compute the phase; return whether the pod continues to run."""
        if has_ended_mains(self.containers):
            self.stops.stop_sidecars()
        phase = pod_phase(self.containers, terminal=False, initialized=has_started_main(self.containers))
        if phase in TERMINAL_PHASES:
            self.stage = "finished"
            self._release()
        if phase != self.phase:
            self.phase, self.dirty = phase, True
        return phase not in TERMINAL_PHASES

    def needs_write(self) -> bool:
        """Whether the status has to be written, also because of readiness gates."""
        found = pod_conditions(self.pod, self.containers, self.phase, sandbox=bool(self.address))
        return self.dirty or self.conditions.differ(found)

    def status_patch(self) -> Object:
        """Return the strategic merge patch of the status; call it once per write."""
        self.dirty = False
        self._observed_generation = self.generation
        status: Object = {"phase": self.phase, "observedGeneration": self.generation}
        if self.reason:
            status["reason"], status["message"] = self.reason, self.message
        if self.start_time:
            sandbox = bool(self.address) and self.phase not in TERMINAL_PHASES
            found = pod_conditions(self.pod, self.containers, self.phase, sandbox=sandbox)
            for kind, condition in found.items():
                self.conditions.set(kind, condition, self.generation)
            status["conditions"] = self.conditions.patch()
            status["startTime"] = self.start_time
            status["hostIP"] = self.node.internal_ip
            status["hostIPs"] = [{"ip": self.node.internal_ip}]
        if self.address:
            status["podIP"] = self.address
            status["podIPs"] = [{"ip": self.address}]
        status.update(container_statuses(self.containers))
        if removals := self.conditions.removals():
            status.setdefault("conditions", []).extend(removals)
        return {"metadata": {"uid": self.identity.uid}, "status": status}

    def behaviour(self, container: ContainerState) -> ContainerBehaviour:
        """Return the behaviour of a container now."""
        return self.context.resolver.behaviour(self.pod, container.name, container.kind)


def _earliest(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)
