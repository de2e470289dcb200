"""`PrintedEnvironments`: the variables of containers that print them (`env`, `sh -c env`).

The variables are those of a kubelet: of services, ConfigMaps, Secrets and the downward API. They
are only read for such containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kubewright.api.errors import APIError
from kubewright.cache.stores.store import ObjectKey
from kubewright.client.client import Client
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.pods.pod_worker import PodWorker
from kubewright.workloads.nodes.registration.node_state import NodeState

from .runtime import ContainerRun, ContainerStartError
from .simple_commands import simple_command


class PrintedEnvironments:
    """Reads variables in the background before such a container is started."""

    def __init__(self, client: Client, workers: Mapping[ObjectKey, PodWorker]) -> None:
        self._client = client
        self._workers = workers
        self._prepared: dict[tuple[str, str], str | ContainerStartError | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def prepare(self, pod: Object, container: Object, wake: Callable[[], None]) -> bool:
        """Whether the container can be started; otherwise `wake` is called later."""
        found = simple_command(container)
        if found is None or not found.prints_environment:
            return True
        key = (pod["metadata"]["uid"], container["name"])
        if key not in self._prepared:
            self._prepared[key] = None
            task = asyncio.create_task(self._prepare(key, pod, container, wake))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return False
        text = self._prepared[key]
        if isinstance(text, ContainerStartError):
            del self._prepared[key]
            raise text
        return text is not None

    def take(self, run: ContainerRun) -> str:
        """Return the output of a container that is started; empty for other containers."""
        text = self._prepared.pop((run.pod.uid, run.container), None)
        return text if isinstance(text, str) else ""

    async def _prepare(
        self, key: tuple[str, str], pod: Object, container: Object, wake: Callable[[], None]
    ) -> None:
        from kubewright.workloads.nodes.processes.cluster_reader import ClusterReader
        from kubewright.workloads.nodes.processes.environment import ContainerEnvironment
        from kubewright.workloads.nodes.processes.volumes.volumes import PodContext

        metadata = pod["metadata"]
        worker = self._workers.get(ObjectKey(metadata["namespace"], metadata["name"]))
        if worker is None:
            return
        context = PodContext(pod, worker.address, worker.node.internal_ip, _allocatable(worker.node))
        try:
            variables = await ContainerEnvironment(ClusterReader(self._client)).variables(context, container)
        except ContainerStartError as error:
            self._prepared[key] = error
        except (APIError, OSError) as error:
            self._prepared[key] = ContainerStartError(str(error))
        else:
            allocation = worker.plugins.allocation(container["name"]) if worker.plugins is not None else None
            variables = {
                "HOSTNAME": (pod["spec"].get("hostname") or metadata["name"])[:63],
                **(allocation.envs if allocation is not None else {}),
                **variables,
            }
            self._prepared[key] = "".join(f"{name}={value}\n" for name, value in variables.items())
        wake()

    async def close(self) -> None:
        """Stop reading."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _allocatable(node: NodeState) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in node.allocatable.items()}
