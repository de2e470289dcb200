"""`ProcessRuntime`: runs the containers of pods as processes of this machine.

Images are not used: a container runs its command, or the one that `images` has for its image, with the rights
of this process. A container is prepared in the background (volumes, environment, working directory) and then
started; with mount namespaces it sees its volumes at their mount paths, without them below a directory that
an environment variable names. All pods have the address of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import decode
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.streams.contract import ByteStream, ProcessStreams
from kubewright.cache.stores.store import ObjectChange
from kubewright.client.config.cluster_config import ROOT_VARIABLE
from kubewright.client.kind_types import metadata_of
from kubewright.workloads.nodes.containers.container_log import ContainerLog
from kubewright.workloads.nodes.containers.runtime import (
    ContainerExit,
    ContainerRun,
    ContainerStartError,
    ExecRequest,
    PodIdentity,
    PodProbes,
    forward_to_port,
)
from kubewright.workloads.nodes.objects import POD, LoopClock, Object

from .cluster_reader import ClusterReader, DataKind
from .container_process import ContainerProcess
from .environment import ContainerEnvironment, container_command
from .handlers import run_action
from .launch import (
    BindMount,
    LaunchSpec,
    SupervisorSpec,
    detect_namespaces,
    inherited_environment,
    uncovered,
)
from .log_files import FileLog, LogLimits
from .probes import ProcessProbes
from .state_directory import VARIABLE, StateDirectory, kill_processes
from .volumes.volumes import PodContext, PodVolumes

if TYPE_CHECKING:
    from kubewright.cache import Cache
    from kubewright.client.client import Client
    from kubewright.workloads.nodes.plugins.node_plugins import NodePlugins
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker
    from kubewright.workloads.nodes.registration.node_state import NodeState

logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 2.0
"""How long processes have to exit when the runtime is closed."""
MINIMUM_GRACE: Final = 2.0
"""Seconds to exit that remain after a preStop hook, as kubelets grant them."""
_KINDS: Final[Mapping[DataKind, GroupVersionKind]] = {
    "configmap": GroupVersionKind("", "v1", "ConfigMap"),
    "secret": GroupVersionKind("", "v1", "Secret"),
}


class ProcessRuntime:
    """A `ContainerRuntime` whose containers are local processes with the rights of this process."""

    uses_images = False
    resumes = False

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        clock: LoopClock,
        nodes: Mapping[str, NodeState],
        images: Mapping[str, list[str]] | None = None,
        directory: Path | None = None,
        namespaces: bool = True,
        plugins: NodePlugins | None = None,
        log_limits: LogLimits | None = None,
    ) -> None:
        """`images` has commands of images whose containers have none, `directory` is for state.

        Without `namespaces`, volumes are always below `KUBEWRIGHT_ROOT`.
        """
        self.pod_address = local_address()
        self.namespaces = detect_namespaces() if namespaces else ""
        """How containers get their mount namespaces; empty without."""
        self.state = StateDirectory(directory)
        self.state.remove_stale()
        self.log_limits = log_limits or LogLimits()
        self.images = dict(images or {})
        self.plugins = plugins
        self._clock = clock
        self._nodes = nodes
        self._cache = cache
        self._reader = ClusterReader(client)
        self._environment = ContainerEnvironment(self._reader)
        self._inherited = inherited_environment()
        self._volumes: dict[str, PodVolumes] = {}
        self._prepared: dict[tuple[str, str], LaunchSpec | ContainerStartError | None] = {}
        """What `prepare` has computed, by pod and container; `None` while it does."""
        self._processes: dict[str, ContainerProcess] = {}
        """Running processes by container id."""
        self._by_pod: dict[str, dict[str, ContainerProcess]] = {}
        """The last process of each container, by uid of the pod and name."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._watched: set[GroupVersionKind] = set()
        logger.info(
            "containers run as local processes",
            extra={
                "user": os.getuid(),
                "directory": str(self.state.path),
                "volumes": "mount namespaces" if self.namespaces else f"below {ROOT_VARIABLE}",
            },
        )

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the runtime is closed."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task of the process runtime failed", exc_info=error)

    def process_of(self, run: ContainerRun) -> ContainerProcess | None:
        """Return the process of a run; `None` after its end."""
        return self._processes.get(run.container_id)

    def processes_of(self, uid: str) -> Mapping[str, ContainerProcess]:
        """Return the last processes of the containers of a pod, by name."""
        return self._by_pod.get(uid, {})

    # Preparation

    def prepare(self, pod: Object, container: Object, wake: Callable[[], None]) -> bool:
        """Set up volumes and variables of a container in the background."""
        key = (pod["metadata"]["uid"], container["name"])
        if key not in self._prepared:
            self._prepared[key] = None
            self.spawn(self._prepare(key, pod, container, wake))
            return False
        found = self._prepared[key]
        if isinstance(found, ContainerStartError):
            del self._prepared[key]
            raise found
        return found is not None

    async def _prepare(
        self, key: tuple[str, str], pod: Object, container: Object, wake: Callable[[], None]
    ) -> None:
        result: LaunchSpec | ContainerStartError
        try:
            result = await self._launch_spec(pod, container)
        except ContainerStartError as error:
            result = error
        except (APIError, OSError) as error:
            result = ContainerStartError(str(error))
        except Exception as error:
            logger.exception("could not prepare container", extra={"container": container["name"]})
            result = ContainerStartError(str(error))
        if key in self._prepared:
            self._prepared[key] = result
            wake()
        else:
            await self._release(key[0])

    async def _launch_spec(self, pod: Object, container: Object) -> LaunchSpec:
        uid = pod["metadata"]["uid"]
        volumes = await self._pod_volumes(pod)
        await volumes.set_up()
        variables = await self._environment.variables(volumes.context, container)
        allocation = None
        if self.plugins is not None:
            allocation = self.plugins.allocation(pod["spec"].get("nodeName") or "", uid, container["name"])
            variables = {**(allocation.envs if allocation is not None else {}), **variables}
        folder = self.state.container(uid, container["name"])
        hostname = (pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **self._inherited,
            "HOME": str(folder),
            "HOSTNAME": hostname,
            **variables,
            VARIABLE: str(folder),
        }
        mounts = volumes.mounts(container, variables)
        if allocation is not None:
            mounts += [
                BindMount(each.host_path, each.container_path, each.read_only) for each in allocation.mounts
            ]
            mounts += [
                BindMount(each.host_path, each.container_path, "w" not in each.permissions)
                for each in allocation.devices
            ]
        message = self._message_file(uid, container["name"])
        message.write_bytes(b"")
        mounts.append(
            BindMount(str(message), container.get("terminationMessagePath") or "/dev/termination-log")
        )
        directory = container.get("workingDir") or ""
        if directory and not any((directory + "/").startswith(each.target + "/") for each in mounts):
            mounts += self._working_directory(folder, directory)
        if self.namespaces:
            shown = [*environment["PATH"].split(":"), *environment.get("PYTHONPATH", "").split(":")]
            # A Python environment or a checkout below a mount path such as /tmp would be hidden, too.
            shown += [sys.prefix, environment.get("VIRTUAL_ENV", ""), *sys.path]
            mounts += uncovered([*shown, str(folder)], mounts)
            mounts.append(BindMount(str(self._hosts_file(pod, hostname)), "/etc/hosts"))
        else:
            root = folder.with_name(f"{folder.name}.root")
            environment[ROOT_VARIABLE] = str(root)
            _link_mounts(root, mounts)
            if directory and (below := Path(str(root) + directory)).is_dir():
                directory = str(below)
        return LaunchSpec(
            command=container_command(container, variables, self.images),
            environment=environment,
            directory=directory or str(folder),
            namespaces=self.namespaces,
            mounts=mounts,
            scratch=str(self.state.scratch),
            hostname=hostname,
        )

    def _message_file(self, uid: str, container: str) -> Path:
        return self.state.pod(uid) / f"{container}.termination-log"

    def _working_directory(self, folder: Path, directory: str) -> list[BindMount]:
        """Return a mount for a working directory that does not exist: runtimes of containers create it."""
        if self.namespaces and Path(directory).is_dir():
            return []
        created = folder.with_name(f"{folder.name}.directory")
        created.mkdir(exist_ok=True)
        return [BindMount(str(created), directory)]

    def _hosts_file(self, pod: Object, hostname: str) -> Path:
        """Write the hosts file of a pod: that of the machine, with the pod and its host aliases."""
        lines = [Path("/etc/hosts").read_text(errors="replace").rstrip("\n")]
        lines.append(f"{self.pod_address}\t{hostname}")
        for alias in pod["spec"].get("hostAliases") or ():
            lines.append("\t".join([alias["ip"], *(alias.get("hostnames") or ())]))
        path = self.state.pod(pod["metadata"]["uid"]) / "etc-hosts"
        path.write_text("\n".join(lines) + "\n")
        return path

    async def _pod_volumes(self, pod: Object) -> PodVolumes:
        uid = pod["metadata"]["uid"]
        known = self._volumes.get(uid)
        if known is None:
            node = self._nodes.get((pod.get("spec") or {}).get("nodeName") or "")
            context = PodContext(
                pod,
                self.pod_address,
                node.internal_ip if node is not None else "",
                _allocatable(node) if node is not None else {},
            )
            folder = self.state.pod(uid) / "volumes"
            folder.mkdir(parents=True, exist_ok=True)
            published = None
            if self.plugins is not None:
                node_name = (pod.get("spec") or {}).get("nodeName") or ""
                published = partial(self.plugins.volume_path, node_name, uid)
            known = PodVolumes(context, self._reader, folder, self.state.path / "claims", published)
            self._volumes[uid] = known
            for kind in sorted({kind for kind, _ in known.references}):
                await self._watch(_KINDS[kind], self._data_handler(kind))
            if known.uses_pod_fields:
                await self._watch(POD, self._on_pod)
        return known

    # Updates of volumes

    async def _watch(self, kind: GroupVersionKind, handler: Callable[[ObjectChange], None]) -> None:
        if kind not in self._watched:
            self._watched.add(kind)
            informer = await self._cache.informer(kind if kind == POD else metadata_of(kind))
            informer.add_handler(handler, resync=0)

    def _data_handler(self, kind: DataKind) -> Callable[[ObjectChange], None]:
        def handle(change: ObjectChange) -> None:
            reference = (kind, change.key.name)
            for volumes in self._volumes.values():
                if reference in volumes.references and volumes.context.namespace == change.key.namespace:
                    volumes.refresh()

        return handle

    def _on_pod(self, change: ObjectChange) -> None:
        if change.new is not None and (volumes := self._volumes.get(change.new.uid)) is not None:
            volumes.update(decode(change.new.raw, dict))

    # Lifecycle

    def create_probes(self, worker: PodWorker) -> PodProbes:
        """Return probes that run commands and connect to ports."""
        return ProcessProbes(worker, self)

    def start(self, run: ContainerRun, pod: Object, container: Object) -> None:
        """Start the process of a container that was prepared."""
        spec = self._prepared.pop((run.pod.uid, run.container), None)
        if not isinstance(spec, LaunchSpec):
            raise ContainerStartError("the container was not prepared")
        supervisor = SupervisorSpec(
            command=spec,
            log=str(self.state.log(run.pod.uid, run.container, run.attempt)),
            log_size=self.log_limits.max_size,
            log_files=self.log_limits.max_files,
            cgroup=self.state.cgroup(run.container_id.rpartition("/")[2]),
        )
        # Kubelets keep the log of the run before this one.
        self.state.remove_log(run.pod.uid, run.container, run.attempt - 2)
        process = ContainerProcess(
            supervisor, container, self.log(run), self._message_file(run.pod.uid, run.container)
        )
        self._processes[run.container_id] = process
        self._by_pod.setdefault(run.pod.uid, {})[run.container] = process
        hook = (container.get("lifecycle") or {}).get("postStart")
        run.has_started = hook is None
        self.spawn(self._run(run, process))
        if hook is not None:
            self.spawn(self._post_start(run, process, hook))

    async def _run(self, run: ContainerRun, process: ContainerProcess) -> None:
        result = ContainerExit(128, "StartError", "the process could not be started")
        try:
            result = await process.run()
        except OSError as error:
            result = ContainerExit(128, "StartError", str(error))
        finally:
            if not process.is_contained:
                # The supervisor was killed.
                folder = self.state.container(run.pod.uid, run.container)
                await asyncio.to_thread(kill_processes, folder)
            self._processes.pop(run.container_id, None)
            if not run.ended:
                run.exited(result)

    async def _post_start(self, run: ContainerRun, process: ContainerProcess, hook: Object) -> None:
        await process.started.wait()
        result = await run_action(hook, process, None)
        if run.ended:
            return
        if result.succeeded:
            run.has_started = True
            run.wake()
            return
        run.report("Warning", "FailedPostStartHook", "PostStartHook failed")
        run.stopping = True
        await self._stop(run, process, MINIMUM_GRACE, hook=None)

    def stop(self, run: ContainerRun, grace_period: float) -> None:
        """Run the preStop hook, send SIGTERM, and SIGKILL after the grace period."""
        process = self.process_of(run)
        if process is None:
            if not run.ended:
                run.exited(ContainerExit(137))
            return
        hook = (process.container.get("lifecycle") or {}).get("preStop") if not run.stopping else None
        run.stopping = True
        if (earlier := self._stops.pop(run.container_id, None)) is not None:
            earlier.cancel()
        task = self.spawn(self._stop(run, process, grace_period, hook=hook))
        self._stops[run.container_id] = task
        task.add_done_callback(lambda _: self._stops.pop(run.container_id, None))

    async def _stop(
        self, run: ContainerRun, process: ContainerProcess, grace_period: float, *, hook: Object | None
    ) -> None:
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + grace_period
        if hook is not None and grace_period > 0:
            result = await run_action(hook, process, grace_period)
            if not result.succeeded:
                run.report("Warning", "FailedPreStopHook", "PreStopHook failed")
            kill_at = max(kill_at, loop.time() + MINIMUM_GRACE)
        await process.started.wait()
        process.signal(_stop_signal(process.container))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(kill_at):
                await process.ended.wait()
        process.kill()

    def kill(self, run: ContainerRun, result: ContainerExit, *, grace_period: float = 0.0) -> None:
        """Kill a container and report the result, or stop it with a grace period."""
        if grace_period > 0:
            self.stop(run, grace_period)
            return
        if (process := self.process_of(run)) is not None:
            process.kill()
        if not run.ended:
            run.exited(result)

    def release(self, pod: PodIdentity) -> None:
        """Delete the files of a pod, after its processes have ended."""
        for key in [key for key in self._prepared if key[0] == pod.uid]:
            del self._prepared[key]
        self.spawn(self._release(pod.uid, *self._by_pod.pop(pod.uid, {}).values()))

    async def _release(self, uid: str, *processes: ContainerProcess) -> None:
        for process in processes:
            await process.ended.wait()
        volumes = self._volumes.pop(uid, None)
        if volumes is not None:
            await volumes.close()
        await asyncio.to_thread(self.state.remove_pod, uid)

    async def close(self) -> None:
        """End all processes and delete all files."""
        processes = list(self._processes.values())
        for process in processes:
            process.signal(signal.SIGTERM)
        if processes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.gather(*(process.ended.wait() for process in processes))
        for process in processes:
            process.kill()
        for volumes in self._volumes.values():
            await volumes.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.state.close)

    # Access

    def log(self, run: ContainerRun) -> ContainerLog:
        """Return the log of a run."""
        if run.log is None:
            run.log = FileLog(self.state.log(run.pod.uid, run.container, run.attempt))
        return run.log

    async def exec(self, run: ContainerRun, request: ExecRequest) -> int:
        """Run a command in the environment and the mount namespace of a container."""
        process = self.process_of(run)
        if process is None:
            raise ConnectionError("container is not running")
        return await process.exec(request.command, request.streams)

    async def attach(self, run: ContainerRun, streams: ProcessStreams) -> int:
        """Connect to the streams of the main process."""
        process = self.process_of(run)
        return await process.attach(streams) if process is not None else 0

    async def port_forward(self, pod: Object, port: int, stream: ByteStream) -> None:
        """Connect to a port of this machine."""
        try:
            await forward_to_port(port, stream)
        except OSError as error:
            if error.errno != errno.ECONNREFUSED:
                raise
            raise ConnectionError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused") from None


def _stop_signal(container: Object) -> int:
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal, name, signal.SIGTERM))


def _link_mounts(root: Path, mounts: list[BindMount]) -> None:
    """Show volumes at their mount paths below a directory, as links."""
    for each in sorted(mounts, key=lambda mount: len(mount.target)):
        link = root / each.target.lstrip("/")
        if link.is_symlink() or link.is_file():
            link.unlink()
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(each.source)


def _allocatable(node: NodeState) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in node.allocatable.items()}


def local_address() -> str:
    """Return the address of this machine that other programs can connect to, as the address of pods.

    Endpoints do not accept loopback addresses; without a network, 127.0.0.1 is returned nevertheless.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        try:
            # No packet is sent: this selects the route.
            connection.connect(("198.51.100.1", 9))
            return str(connection.getsockname()[0])
        except OSError:
            return "127.0.0.1"
