"""`ContainerState`: the state of one container of a simulated pod, and its status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.registration.node_object import image_id

from .runtime import ContainerExit, ContainerRun

ContainerKind = Literal["init", "sidecar", "main", "ephemeral"]

_SPEC_FIELDS: Final[dict[ContainerKind, str]] = {
    "init": "initContainers",
    "sidecar": "initContainers",
    "main": "containers",
    "ephemeral": "ephemeralContainers",
}


class ContainerState:
    """One container. `state` and `last_state` are those of its status."""

    __slots__ = (
        "backoff",
        "container_id",
        "image",
        "kind",
        "last_state",
        "name",
        "previous_run",
        "probes",
        "ready",
        "resources",
        "restart_at",
        "restart_policy",
        "restart_rules",
        "restarts",
        "run",
        "since",
        "started",
        "state",
        "unhealthy",
    )

    def __init__(self, spec: Object, kind: ContainerKind, pod_policy: str) -> None:
        self.name: str = spec["name"]
        self.kind: ContainerKind = kind
        self.image: str = spec.get("image") or ""
        self.resources: Object = spec.get("resources") or {}
        self.probes = {
            name: probe
            for name in ("startup", "readiness", "liveness")
            if (probe := spec.get(f"{name}Probe")) is not None
        }
        self.restart_policy = _restart_policy(spec, kind, pod_policy)
        self.restart_rules: list[Object] = spec.get("restartPolicyRules") or []
        self.state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self.last_state: Object = {}
        self.restarts = 0
        self.ready = False
        self.started: bool | None = None
        self.container_id = ""
        self.run: ContainerRun | None = None
        """The last run, also after its end."""
        self.previous_run: ContainerRun | None = None
        self.backoff = 0.0
        """Seconds of back-off before the next restart."""
        self.restart_at: float | None = None
        self.since = 0.0
        """Time of the event loop of the last start."""
        self.unhealthy = ""
        """The probe whose failure was reported last."""

    @property
    def path(self) -> str:
        """The field of the pod that declares the container, as in events: `spec.containers{web}`."""
        return f"spec.{_SPEC_FIELDS[self.kind]}{{{self.name}}}"

    @property
    def is_running(self) -> bool:
        """Whether the container runs."""
        return "running" in self.state

    @property
    def is_terminated(self) -> bool:
        """Whether the container has ended and was not restarted yet."""
        return "terminated" in self.state

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last run that has ended, if any."""
        ended = self.state.get("terminated") or self.last_state.get("terminated")
        return None if ended is None else int(ended.get("exitCode") or 0)

    @property
    def is_complete(self) -> bool:
        """Whether the last run has ended with exit code 0."""
        return self.is_terminated and self.exit_code == 0

    def restarts_after(self, code: int) -> bool:
        """Whether the container is restarted after an exit code."""
        for rule in self.restart_rules:
            codes = rule.get("exitCodes") or {}
            matches = code in (codes.get("values") or ())
            if matches == (codes.get("operator") != "NotIn") and rule.get("action") == "Restart":
                return True
        return self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and code != 0)

    def wait(self, reason: str, message: str = "") -> bool:
        """Set a waiting state; return whether that is a change."""
        waiting = {"reason": reason, "message": message} if message else {"reason": reason}
        if self.state.get("waiting") == waiting:
            return False
        if self.is_terminated:
            self.last_state = self.state
        self.state = {"waiting": waiting}
        self.ready, self.started = False, False if self.kind in ("main", "sidecar") else None
        return True

    def terminate(self, result: ContainerExit, stamp: str) -> None:
        """Set the state after an exit."""
        terminated: Object = {
            "exitCode": result.code,
            "reason": result.reason or ("Completed" if result.code == 0 else "Error"),
        }
        if result.message:
            terminated["message"] = result.message
        running = self.state.get("running")
        terminated["startedAt"] = (running or {}).get("startedAt")
        terminated["finishedAt"] = stamp
        terminated["containerID"] = self.container_id
        self.state = {"terminated": terminated}
        self.ready = self.kind == "init" and result.code == 0
        self.started = False

    def status(self) -> Object:
        """Return the ContainerStatus."""
        status: Object = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": self.image,
            "imageID": image_id(self.image) if self.container_id else "",
        }
        if self.container_id:
            status["containerID"] = self.container_id
        if self.started is not None or self.kind != "ephemeral":
            status["started"] = bool(self.started)
        if self.resources and self.container_id:
            requests = self.resources.get("requests")
            if requests:
                status["allocatedResources"] = requests
            status["resources"] = {
                key: value for key, value in self.resources.items() if key in ("limits", "requests")
            }
        return status

    def restore(self, status: Object) -> None:
        """Set the state from a status that was written before."""
        self.state = status.get("state") or self.state
        self.last_state = status.get("lastState") or {}
        self.restarts = int(status.get("restartCount") or 0)
        self.ready = bool(status.get("ready"))
        started = status.get("started")
        self.started = True if started is None and self.is_running and self.kind != "ephemeral" else started
        self.container_id = status.get("containerID") or ""


def containers_of(spec: Object) -> Iterator[ContainerState]:
    """Yield the containers of a pod that start with it: init containers and sidecars, main containers."""
    policy = spec.get("restartPolicy") or "Always"
    for container in spec.get("initContainers") or ():
        yield ContainerState(
            container, "sidecar" if container.get("restartPolicy") == "Always" else "init", policy
        )
    for container in spec.get("containers") or ():
        yield ContainerState(container, "main", policy)


def _restart_policy(spec: Object, kind: ContainerKind, pod_policy: str) -> str:
    if kind == "ephemeral":
        return "Never"
    if spec.get("restartPolicy"):
        return str(spec["restartPolicy"])
    if kind == "init" and pod_policy == "Always":
        return "OnFailure"
    return pod_policy
