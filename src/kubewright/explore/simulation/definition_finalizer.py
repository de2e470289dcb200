"""`DefinitionFinalizer`: the deletion of CustomResourceDefinitions as a program to explore.

Every API server deletes the instances of a definition that is being deleted, and then the definition
(`kubewright.controlplane.crds.finalization`). The program does it in a process of its own, with the code of
the control plane, which leaves it to the program meanwhile. Its writes do not pass the request pipeline: an
update of the status of a definition and the deletion of an instance are points, nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from multidict import CIMultiDict

from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client.errors import ConnectionFailed
from kubewright.client.rest.request import APIRequest
from kubewright.client.rest.rest_client import error_from_response
from kubewright.client.transport.interface import APIResponse
from kubewright.controlplane.crds.definitions import CONTROLLER, GROUP, PLURAL, CustomResourceDefinitions
from kubewright.controlplane.informers import Informers
from kubewright.storage.contract import StorageError

from .replica import ReplicaDispatcher, ReplicaServer, ReplicaStore
from .transport import OperatorTransport

if TYPE_CHECKING:
    from kubewright.apiserver.resources.strategy import Operation
    from kubewright.apiserver.rest.options import DeletionOptions
    from kubewright.client import Client
    from kubewright.controlplane.crds.conditions import Definition

    from .processes import OperatorProcess

T = TypeVar("T")


class DefinitionFinalizer:
    """Deletes the instances of definitions that are being deleted."""

    name = "definition-finalizer"
    controllers: frozenset[str] = frozenset()

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        from .loop import PROCESS
        from .processes import OperatorProcess

        process = PROCESS.get()
        assert isinstance(process, OperatorProcess), "the program runs in a simulated process"
        process.cluster.plane.definitions.deletes_instances = False
        dispatcher = ReplicaDispatcher(process)
        server: Any = ReplicaServer(process, dispatcher, lists=False)
        dispatcher.informers = informers = Informers(server)
        await dispatcher.start()
        definitions = ReplicaDefinitions(process, ReplicaServer(process, dispatcher), informers)
        await definitions.start()
        await stop.wait()
        await dispatcher.stop()


class ReplicaDefinitions(CustomResourceDefinitions):
    """The definitions as one process sees them. It serves no requests: another replica does."""

    def __init__(self, process: OperatorProcess, server: ReplicaServer, informers: Informers) -> None:
        self._process = process
        self._replica = server
        plane = process.cluster.plane
        self._plane = plane.definitions
        super().__init__(plane.server, informers, plane.webhook_client, serves=False)

    async def start(self) -> None:
        """Continue interrupted deletions, and begin with new ones."""
        found, _ = await self.store.list_objects(self._version)
        for crd in found:
            self._remember(crd)
            self._finish_deletion(crd)
        self.informers.add_handler(GROUP, PLURAL, self._definition_changed, needs="metadata")

    async def _review(self, name: str) -> None:
        """Do nothing: the other replica writes the conditions."""

    def store_of(self, name: str) -> Any:
        """Return the store of a definition's instances while it is served."""
        found = self._plane.store_of(name)
        if found is None:
            return None
        return _InstanceStore(self._process, self._replica, found)

    async def write_status(self, name: str, change: Callable[[Definition], None]) -> Definition | None:
        """Update a definition; a point."""
        return await _run_write(
            self._process,
            "PUT",
            f"/apis/{GROUP}/v1/{PLURAL}/{name}/status",
            lambda: self._plane.write_status(name, change),
        )


class _InstanceStore(ReplicaStore):
    """The store of the instances of a definition, whose deletions are points."""

    def __init__(self, process: OperatorProcess, server: ReplicaServer, store: Any) -> None:
        super().__init__(server, store)
        self.deleter = SimpleNamespace(delete=self._delete)
        self._process = process

    async def _delete(self, op: Operation, options: DeletionOptions, *, admit: bool) -> Any:
        resource = op.resource
        where = f"namespaces/{op.namespace}/" if op.namespace else ""
        return await _run_write(
            self._process,
            "DELETE",
            f"/apis/{resource.group}/{resource.storage_version}/{where}{resource.plural}/{op.name}",
            lambda: self.store.deleter.delete(op, options, admit=admit),
        )


async def _run_write(
    process: OperatorProcess, method: str, path: str, operation: Callable[[], Awaitable[T]]
) -> T:
    """Run an operation of the control plane as a write, with the fault that is planned for it."""
    server = _OperationServer(process, operation)
    try:
        response = await OperatorTransport(process, server=server).send(method, path)
    except ConnectionFailed as error:
        raise StorageError(str(error)) from error
    if response.status >= 400:
        raise error_from_response(response, APIRequest("update", method, path))
    return server.results[0]


class _OperationServer(InProcessTransport, Generic[T]):
    """Runs an operation of the control plane instead of a request."""

    def __init__(self, process: OperatorProcess, operation: Callable[[], Awaitable[T]]) -> None:
        super().__init__(process.cluster.plane.server, CONTROLLER)
        self._operation = operation
        self.results: list[T] = []

    async def send(self, *arguments: object) -> APIResponse:
        written = await self._operation()
        self.results.append(written)
        metadata = written.get("metadata") if isinstance(written, dict) else None
        body = {"metadata": {"resourceVersion": (metadata or {}).get("resourceVersion", "")}}
        return APIResponse(200, CIMultiDict(), msgspec.json.encode(body))
