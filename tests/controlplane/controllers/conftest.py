"""A small server with a garbage collector and a namespace controller, in process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import (
    AlwaysAllow,
    APIServer,
    Resource,
    StatusSubresource,
    Strategy,
    Subresource,
    Version,
)
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane.admission.namespaces import NamespaceLifecycle
from kubewright.controlplane.controllers import ControllerManager
from kubewright.controlplane.controllers.garbage_collector import GarbageCollector
from kubewright.controlplane.controllers.namespaces import NamespaceController
from kubewright.controlplane.informers import Informers
from kubewright.storage import MemoryStorage

Object = dict[str, Any]


class Namespaces(Strategy):
    """Namespaces with the fields that their controller reads."""

    status_fields = ("status",)

    def prepare_for_create(self, op: Any, obj: Object) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def before_delete(self, op: Any, obj: Object) -> None:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def may_be_removed(self, obj: Object) -> bool:
        return not (obj.get("spec") or {}).get("finalizers")


def resource(kind: str, *, group: str = "", namespaced: bool = True, **more: Any) -> Resource:
    version = more.pop("version", None) or Version(name="v1")
    return Resource(
        group=group, kind=kind, plural=kind.lower() + "s", versions=[version], namespaced=namespaced, **more
    )


@dataclass
class World:
    """A server, its controllers and a client."""

    server: APIServer
    controllers: ControllerManager
    collector: GarbageCollector
    client: PathClient

    async def make(
        self, kind: str, name: str, *, owners: Any = (), namespace: str = "ns", **meta: Any
    ) -> Object:
        plural = f"{kind.lower()}s"
        store = self.server.store("", plural)
        assert store is not None
        where = f"/namespaces/{namespace}" if store.resource.namespaced else ""
        metadata: Object = {"name": name, **meta}
        if owners:
            metadata["ownerReferences"] = list(owners)
        return await self.client.create(
            f"/api/v1{where}/{plural}", {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        )

    async def names(self, kind: str, namespace: str = "ns") -> list[str]:
        store = self.server.store("", f"{kind.lower()}s")
        assert store is not None
        where = f"/namespaces/{namespace}" if store.resource.namespaced else ""
        listed = await self.client.get(f"/api/v1{where}/{kind.lower()}s")
        return [item["metadata"]["name"] for item in listed["items"]]

    async def wait_until_idle(self) -> None:
        await self.controllers.wait_until_idle()


def owner(obj: Object, *, block: bool | None = None, **changes: Any) -> Object:
    """A reference to an object."""
    reference = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }
    if block is not None:
        reference["blockOwnerDeletion"] = block
    return {**reference, **changes}


@asynccontextmanager
async def running(*extra: Resource, storage: MemoryStorage | None = None) -> AsyncIterator[World]:
    server = APIServer(storage or MemoryStorage(), authorizer=AlwaysAllow())
    server.add(
        resource(
            "Namespace",
            namespaced=False,
            strategy=Namespaces(),
            version=Version(
                name="v1",
                subresources={"status": StatusSubresource(), "finalize": Subresource(verbs=("update",))},
            ),
        )
    )
    for kind in ("Thing", "Pod", "Event", "Secret"):
        server.add(resource(kind))
    server.add(resource("Zone", namespaced=False))
    for each in extra:
        server.add(each)
    informers = Informers(server)
    server.admission.add(NamespaceLifecycle(informers))
    async with server:
        controllers = ControllerManager(server, informers)
        collector = GarbageCollector(server, informers)
        controllers.add(collector, NamespaceController(server, informers))
        await controllers.start()
        client = PathClient(server, SYSTEM)
        world = World(server, controllers, collector, client)
        for name in ("ns", "other"):
            if not await informers.namespace(name):
                await world.make("Namespace", name)
        try:
            yield world
        finally:
            await controllers.stop()
            await informers.stop()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running() as made:
        yield made


@pytest.fixture
def start() -> Callable[..., Any]:
    """Start a separate server: `async with start(resource, storage=...)`."""
    return running


@pytest.fixture
def refer() -> Callable[..., Object]:
    """Make an owner reference."""
    return owner


@pytest.fixture
def declare() -> Callable[..., Resource]:
    """Declare a resource."""
    return resource
