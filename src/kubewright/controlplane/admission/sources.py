"""What admission plug-ins read: objects of the cluster whose policies they apply.

`kubewright.controlplane.informers.Informers` is the source in a control plane;
`kubewright.controlplane.cluster_admission.ClusterInformers` is that of an extension API server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kubewright.apiserver.resources.objects import Object

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Version
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.storage.contract import KeyValue


class ObjectInformer(Protocol):
    """The objects of one resource."""

    @property
    def generation(self) -> int:
        """Grows with every change."""

    @property
    def is_fresh(self) -> bool:
        """Whether the state includes every write that the source guarantees to include."""

    def list(self) -> list[Object]:
        """Return all objects, ordered by name. Do not change them."""


class ObjectSource(Protocol):
    """Namespaces and admission configuration of a cluster."""

    async def informer(self, group: str, plural: str) -> ObjectInformer | None:
        """Return the informer of a resource, or `None` if the cluster does not serve it."""

    async def list(self, group: str, plural: str) -> list[Object]:
        """Return all objects of a cluster-scoped resource, ordered by name. Do not change them."""

    async def namespace(self, name: str) -> Object | None:
        """Return a namespace; one that was just created is included."""


class ParamResource(Protocol):
    """The resource that the paramKind of a policy names."""

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""

    async def get(self, namespace: str, name: str) -> Object | None:
        """Return one object."""

    async def list(self, namespace: str) -> Sequence[Object]:
        """Return the objects of a namespace or, without one, of the cluster."""


class ParamSource(Protocol):
    """Finds the resources of paramKinds."""

    async def find(self, api_version: str, kind: str) -> ParamResource | None:
        """Return a resource, or `None` if the kind is not served."""


class StoredParams:
    """The resources that a server stores."""

    def __init__(self, server: APIServer) -> None:
        self._server = server

    async def find(self, api_version: str, kind: str) -> ParamResource | None:
        """Return a resource, or `None` if the kind is not served."""
        group, _, name = api_version.rpartition("/")
        for store in self._server.stores:
            resource = store.resource
            if resource.group == group and resource.kind == kind:
                version = resource.version(name)
                if version is not None:
                    return _StoredParamResource(store, version)
        return None


class _StoredParamResource:
    def __init__(self, store: ResourceStore, version: Version) -> None:
        self._store = store
        self._version = version

    @property
    def namespaced(self) -> bool:
        return self._store.resource.namespaced

    async def get(self, namespace: str, name: str) -> Object | None:
        item = await self._store.storage.get(self._store.key(namespace, name))
        return await self._load(item) if item is not None else None

    async def list(self, namespace: str) -> Sequence[Object]:
        page = await self._store.storage.list(self._store.range(namespace))
        return [await self._load(item) for item in page.items]

    async def _load(self, item: KeyValue) -> Object:
        return await self._store.load(item, self._version)
