"""Starts and restarts of the containers of a simulated pod: images, runtime errors and back-off.

Validation of `subPathExpr` of volume mounts, whose value is known when a container is started.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.pods.behaviour import ContainerBehaviour
from kubewright.workloads.nodes.registration.node_object import image_size
from kubewright.workloads.nodes.settings import CRASH_BACKOFF_RESET_SECONDS

from .container_state import ContainerState
from .runtime import ContainerRun, ContainerStartError

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

PULL_BACKOFF_STATUS_SECONDS: Final = 1.0
"""From ErrImagePull to ImagePullBackOff."""


class ContainerStarts:
    """Starts the containers of one pod."""

    __slots__ = ("_worker",)

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker

    def schedule_restart(self, container: ContainerState, now: float) -> None:
        """Set when a container that has ended is restarted, with back-off."""
        if now - container.since >= CRASH_BACKOFF_RESET_SECONDS:
            container.backoff = 0.0
        delay = container.backoff
        container.restart_at = now + (delay or self._worker.behaviour(container).start_delay)
        self._next_backoff(container)
        if delay:
            pod = (
                f"{self._worker.identity.name}_{self._worker.identity.namespace}({self._worker.identity.uid})"
            )
            container.wait(
                "CrashLoopBackOff",
                f"back-off {format_delay(delay)} restarting failed container={container.name} pod={pod}",
            )
            self._worker.context.event(
                self._worker,
                "Warning",
                "BackOff",
                f"Back-off restarting failed container {container.name} in pod {pod}",
                container.path,
            )
        self._worker.dirty = True

    def show_pull_backoff(self, container: ContainerState, now: float) -> None:
        """Change ErrImagePull to ImagePullBackOff when it is due."""
        if container.unhealthy != "pull" or now < container.since + PULL_BACKOFF_STATUS_SECONDS:
            return
        container.unhealthy = ""
        error = (container.state.get("waiting") or {}).get("message") or ""
        text = f'Back-off pulling image "{container.image}"'
        container.wait("ImagePullBackOff", f"{text}: ErrImagePull: {error}")
        self._worker.context.event(self._worker, "Normal", "BackOff", text, container.path)
        self._worker.context.event(
            self._worker, "Warning", "Failed", "Error: ImagePullBackOff", container.path
        )
        self._worker.dirty = True

    def start(self, container: ContainerState, now: float) -> float | None:
        """Start a container, or report why it cannot start; return when to continue."""
        behaviour = self._worker.behaviour(container)
        path = container.path
        worker = self._worker
        pull_error = behaviour.image_pull_error
        if not pull_error and worker.context.runtime.uses_images and self._is_missing(container.image):
            pull_error = f"failed to resolve image: {container.image}: not found"
        if pull_error:
            worker.dirty = True
            return self._fail_pull(container, pull_error, now)
        try:
            check_sub_paths(self._container_spec(container.name))
            if worker.plugins is not None and not worker.plugins.prepare_container(container.name):
                return None
            if not worker.context.runtime.prepare(
                worker.pod, self._container_spec(container.name), lambda: worker.context.wake(worker)
            ):
                return None
        except ContainerStartError as error:
            return self._fail_start(container, error, now)
        worker.dirty = True
        restarted = container.exit_code is not None
        if restarted:
            container.restarts += 1
            if container.is_terminated:
                container.last_state = container.state
        if worker.context.runtime.uses_images:
            self._report_image(container, path)
        try:
            self.run(container, behaviour)
        except ContainerStartError as error:
            container.run = None
            return self._fail_start(container, error, now)
        if worker.plugins is not None:
            worker.plugins.container_started(container.name)
        container.state = {"running": {"startedAt": self._worker.context.clock.stamp()}}
        container.since, container.restart_at, container.unhealthy = now, None, ""
        container.ready, container.started = False, container.kind != "ephemeral" or None
        self._worker.context.event(self._worker, "Normal", "Created", "Container created", path)
        self._worker.context.event(self._worker, "Normal", "Started", "Container started", path)
        return self._worker.probe_checks.check(container, now)

    def run(self, container: ContainerState, behaviour: ContainerBehaviour) -> None:
        """Let the runtime start a container; raises `ContainerStartError`."""
        context = self._worker.context
        container.container_id = f"kubewright://{context.rng.getrandbits(256):064x}"
        run = ContainerRun(
            self._worker.identity,
            container.name,
            container.restarts,
            container.container_id,
            behaviour,
            lambda result: self._worker.exited(container, result),
            kubelet=_RunOwner(self._worker, container),
        )
        if self._worker.plugins is not None:
            run.allocation = self._worker.plugins.allocation(container.name)
        container.previous_run, container.run = container.run, run
        context.runtime.start(run, self._worker.pod, self._container_spec(container.name))

    def _fail_start(self, container: ContainerState, error: ContainerStartError, now: float) -> float:
        """Show why a container cannot be started; return when to try again."""
        worker = self._worker
        worker.dirty = True
        if error.event == "Failed":
            container.wait(error.reason, str(error))
            worker.context.event(worker, "Warning", "Failed", f"Error: {error}", container.path)
        else:
            worker.context.event(worker, "Warning", error.event, str(error))
        delay = error.retry_after if error.retry_after is not None else self._next_backoff(container)
        container.restart_at = now + delay
        return container.restart_at

    def _container_spec(self, name: str) -> Object:
        spec = self._worker.pod.get("spec") or {}
        for field in ("containers", "initContainers", "ephemeralContainers"):
            for one in spec.get(field) or ():
                if one.get("name") == name:
                    found: Object = one
                    return found
        return {"name": name}

    def _is_missing(self, image: str) -> bool:
        if self._worker.node.has_image(image):
            return False
        return any(fnmatchcase(image, pattern) for pattern in self._worker.context.settings.missing_images)

    def _fail_pull(self, container: ContainerState, error: str, now: float) -> float:
        path, image = container.path, container.image
        message = f'failed to pull and unpack image "{image}": {error}'
        self._worker.context.event(self._worker, "Normal", "Pulling", f'Pulling image "{image}"', path)
        self._worker.context.event(
            self._worker, "Warning", "Failed", f'Failed to pull image "{image}": {message}', path
        )
        self._worker.context.event(self._worker, "Warning", "Failed", "Error: ErrImagePull", path)
        container.wait("ErrImagePull", message)
        container.since, container.unhealthy = now, "pull"
        container.restart_at = now + self._next_backoff(container)
        return min(container.restart_at, now + PULL_BACKOFF_STATUS_SECONDS)

    def _next_backoff(self, container: ContainerState) -> float:
        """Double the back-off of a container, up to the limit; return it."""
        settings = self._worker.context.settings
        container.backoff = min(
            settings.crash_backoff_limit,
            container.backoff * 2 if container.backoff else settings.crash_backoff,
        )
        return container.backoff

    def _report_image(self, container: ContainerState, path: str) -> None:
        image = container.image
        if self._worker.node.pull(image):
            text = f'Container image "{image}" already present on machine'
            self._worker.context.event(self._worker, "Normal", "Pulled", text, path)
            return
        self._worker.context.event(self._worker, "Normal", "Pulling", f'Pulling image "{image}"', path)
        text = (
            f'Successfully pulled image "{image}" in 50ms (50ms including waiting). '
            f"Image size: {image_size(image)} bytes."
        )
        self._worker.context.event(self._worker, "Normal", "Pulled", text, path)


class _RunOwner:
    """Receives the reports of a run."""

    __slots__ = ("_container", "_worker")

    def __init__(self, worker: PodWorker, container: ContainerState) -> None:
        self._worker = worker
        self._container = container

    def wake(self) -> None:
        self._worker.context.wake(self._worker)

    def report(self, kind: str, reason: str, message: str) -> None:
        path = self._container.path
        self._worker.context.event(self._worker, kind, reason, message, path)


def format_delay(seconds: float) -> str:
    """Format seconds as Go formats durations: `10s`, `2m40s`, `5m0s`."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"


RETRY_SECONDS: Final = 10.0
_VARIABLE: Final = re.compile(r"\$\((\w+)\)")


def check_sub_paths(container: Object) -> None:
    """Raise `ContainerStartError` for a sub-path that leaves its volume. Only literal variables are known."""
    for mount in container.get("volumeMounts") or ():
        if not mount.get("subPathExpr"):
            continue
        path = _expand(mount["subPathExpr"], container)
        if path.startswith("/"):
            raise _error(f"error SubPath `{path}` must not be an absolute path")
        if ".." in path.split("/"):
            raise _error(f"unable to provision SubPath `{path}`: must not contain '..'")


def _expand(text: str, container: Object) -> str:
    values = {each["name"]: str(each["value"]) for each in container.get("env") or () if each.get("value")}
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def _error(message: str) -> ContainerStartError:
    return ContainerStartError(message, reason="CreateContainerConfigError", retry_after=RETRY_SECONDS)
