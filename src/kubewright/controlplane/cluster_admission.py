"""Admission of a cluster for the resources of an extension API server.

    async with Client.connect() as cluster:
        access = await Delegation.read(cluster)
        server = APIServer(storage, authenticator=access.authenticator, authorizer=access.authorizer)
        server.add(resource_of(Pizza))
        async with ClusterAdmission(cluster, server), serve(server, ...):
            ...

Writes pass the plug-ins that extension API servers in Go have by default: NamespaceLifecycle (no objects in
namespaces that do not exist or are being deleted), MutatingAdmissionPolicy, MutatingAdmissionWebhook,
ValidatingAdmissionPolicy and ValidatingAdmissionWebhook, with the policies and webhook configurations of the
cluster. Those are watched, so a new policy takes effect a moment after it was created. The plug-ins of the
server itself run after NamespaceLifecycle and before the policies.

Required permissions: `get`, `list` and `watch` of namespaces and of the resources of
`admissionregistration.k8s.io`; `get` and `list` of the parameters of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from kubewright.api.errors import NotFound, internal_error
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.resources.objects import Object
from kubewright.client.errors import ConnectionFailed, NoKindMatch

from .admission import arranged
from .admission.namespaces import NamespaceLifecycle
from .webhooks import DNSResolver, MutatingWebhooks, ValidatingWebhooks, WebhookClient

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.informers.informer import Informer
    from kubewright.client import Client
    from kubewright.client.discovery.api_resource import APIResource
    from kubewright.client.kind_types import AnyKind

    from .admission.sources import ObjectInformer, ParamResource


PLUGINS = (
    "NamespaceLifecycle",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)
_GROUP = "admissionregistration.k8s.io"
_RESOURCES = (
    ("", "namespaces"),
    (_GROUP, "mutatingadmissionpolicies"),
    (_GROUP, "mutatingadmissionpolicybindings"),
    (_GROUP, "mutatingwebhookconfigurations"),
    (_GROUP, "validatingadmissionpolicies"),
    (_GROUP, "validatingadmissionpolicybindings"),
    (_GROUP, "validatingwebhookconfigurations"),
)
_KINDS: Mapping[tuple[str, str], AnyKind] = {
    (group, plural): f"{plural}.{group}" if group else plural for group, plural in _RESOURCES
}
_SINCE_1_36 = frozenset({"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"})
"""What older clusters do not serve in v1: they have no such policies. All others have to be readable."""


class ClusterAdmission:
    """The admission plug-ins of a cluster on an extension API server; use it with `async with`.

    `disable` has names of plug-ins that are not added. `resolve` maps `name.namespace` of a webhook's service
    to `https://host:port`; other services are reached by their DNS name.
    """

    def __init__(
        self,
        cluster: Client,
        server: APIServer,
        *,
        disable: Iterable[str] = (),
        resolve: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self.informers = ClusterInformers(cluster)
        self._disabled = frozenset(disable)
        unknown = sorted(self._disabled.difference(PLUGINS))
        if unknown:
            raise ValueError(f"unknown admission plug-ins {unknown}; known are {', '.join(PLUGINS)}")
        self._params = ClusterParams(cluster)
        self._webhooks = WebhookClient(DNSResolver(resolve))

    async def start(self) -> None:
        """Add the plug-ins; return when namespaces and configuration have been listed."""
        from .admission.policies.mutating_policies import MutatingPolicies
        from .admission.policies.validating_policies import ValidatingPolicies

        await self.informers.start()
        server, informers = self.server, self.informers
        own = server.admission.plugins
        plugins = [
            *own,
            NamespaceLifecycle(informers),
            MutatingPolicies(server, informers, params=self._params),
            MutatingWebhooks(server, self._webhooks, informers),
            ValidatingPolicies(server, informers, params=self._params),
            ValidatingWebhooks(server, self._webhooks, informers),
        ]
        names = {each.name for each in own}
        for name in names:
            server.admission.remove(name)
        for plugin in arranged(plugins, enable=names, disable=self._disabled - names):
            server.admission.add(plugin)

    async def stop(self) -> None:
        """Remove the plug-ins and stop watching the cluster."""
        for name in PLUGINS:
            if name not in self._disabled:
                self.server.admission.remove(name)
        await self.informers.stop()
        await self._webhooks.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()


class ClusterInformers:
    """Namespaces and admission configuration of a cluster, from a cache; an `ObjectSource`."""

    def __init__(self, cluster: Client) -> None:
        from kubewright.cache import Cache, KindOptions, SharedEntry

        self._cluster = cluster
        kinds = {
            kind: KindOptions(form=SharedEntry.of, optional=plural in _SINCE_1_36)
            for (_, plural), kind in _KINDS.items()
        }
        self._cache = Cache(cluster, kinds=kinds, resync=0)
        self._informers: dict[tuple[str, str], Informer] = {}

    async def start(self) -> None:
        """Watch the resources; return when those that the cluster serves have been listed."""
        await self._cache.start()
        for (group, plural), kind in _KINDS.items():
            self._informers[group, plural] = await self._cache.informer(kind)
        await self._cache.wait_for_sync()

    async def stop(self) -> None:
        """Stop watching."""
        await self._cache.stop()

    async def informer(self, group: str, plural: str) -> ObjectInformer | None:
        """Return the informer of a resource, or `None` if the cluster does not serve it."""
        return self._informers.get((group, plural))

    async def list(self, group: str, plural: str) -> list[Object]:
        """Return all objects of a resource, ordered by name. Do not change them."""
        found = self._informers.get((group, plural))
        return found.list() if found is not None else []

    async def namespace(self, name: str) -> Object | None:
        """Return a namespace; one that is not known yet is requested."""
        found = self._informers["", "namespaces"].get(name)
        if found is not None:
            return found
        try:
            requested: Object = (await self._cluster.get("namespaces", name)).raw
        except NotFound:
            return None
        except ConnectionFailed as error:
            raise internal_error(f"cannot get namespace {name} from the cluster: {error}") from None
        return requested


class ClusterParams:
    """Parameters of policies, requested from the cluster; a `ParamSource`."""

    def __init__(self, cluster: Client) -> None:
        self._cluster = cluster

    async def find(self, api_version: str, kind: str) -> ParamResource | None:
        """Return a resource, or `None` if the kind is not served."""
        try:
            found = await self._cluster.mapper.resource_for(
                GroupVersionKind.from_api_version(api_version, kind)
            )
        except NoKindMatch:
            return None
        return _ClusterParamResource(self._cluster, found)


class _ClusterParamResource:
    def __init__(self, cluster: Client, resource: APIResource) -> None:
        self._cluster = cluster
        self._resource = resource

    @property
    def namespaced(self) -> bool:
        return self._resource.namespaced

    async def get(self, namespace: str, name: str) -> Object | None:
        try:
            found = await self._cluster.get(self._resource.gvk, name, namespace=namespace or None)
        except NotFound:
            return None
        raw: Object = found.raw
        return raw

    async def list(self, namespace: str) -> Sequence[Object]:
        found = await self._cluster.list(self._resource.gvk, namespace=namespace or None)
        return [each.raw for each in found]
