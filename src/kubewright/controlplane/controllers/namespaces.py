"""The namespace controller: deletes the content of a namespace that is being deleted.

Pods are deleted first, then everything else. Conditions of the namespace report what remains; when nothing
does, the controller removes the `kubernetes` finalizer from its spec. It reconciles again when an object in
the namespace is changed or deleted.

Objects of extension API servers are deleted through the aggregator. An APIService that is not available stops
the deletion (NamespaceDeletionDiscoveryFailure): its objects are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Conflict, MethodNotAllowed, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.cache.stores.object_metadata import Metadata, metadata_of
from kubewright.controller.request import Result
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .source import all_resources_source, resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.aggregation.informers import AggregatedInformers
    from kubewright.controlplane.informers import Informers


NAMESPACES = GroupResource("", "namespaces")
DEFINITIONS = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
FINALIZER = "kubernetes"
AGGREGATED_RECHECK_SECONDS = 5.0
"""When a namespace with objects of extension API servers is reconciled again, if they cannot be watched."""

_CONDITIONS = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""The conditions in order, with reason and message of status False."""


class RemainingContent:
    """Objects that could not be deleted, and why."""

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.errors: list[str] = []
        self.discovery: list[str] = []
        self.aggregated = False
        """Whether objects of extension API servers remain."""

    def add(self, resource: Resource, finalizers: Sequence[Iterable[str]]) -> None:
        """Record the objects of a resource that remain, by the finalizers of each."""
        self.objects[f"{resource.plural}.{resource.group}"] = len(finalizers)
        for each in finalizers:
            self.finalizers.update(each)

    def problems(self) -> dict[str, tuple[str, str]]:
        """Return the condition types with status True, with reason and message."""
        found: dict[str, tuple[str, str]] = {}
        if self.discovery:
            listed = ", ".join(sorted(self.discovery))
            found["NamespaceDeletionDiscoveryFailure"] = (
                "DiscoveryFailed",
                f"Discovery failed for some groups, {len(self.discovery)} failing: unable to retrieve the "
                f"complete list of server APIs: {listed}",
            )
        if self.errors:
            found["NamespaceDeletionContentFailure"] = (
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {len(self.errors)} remaining: "
                f"{', '.join(sorted(self.errors))}",
            )
        if self.objects:
            listed = ", ".join(
                sorted(f"{what} has {count} resource instances" for what, count in self.objects.items())
            )
            found["NamespaceContentRemaining"] = (
                "SomeResourcesRemain",
                f"Some resources are remaining: {listed}",
            )
        if self.finalizers:
            listed = ", ".join(
                sorted(f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            )
            found["NamespaceFinalizersRemaining"] = (
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {listed}",
            )
        return found


class NamespaceController(Component):
    """Deletes the content of namespaces that are being deleted; a request is the name of a namespace."""

    def __init__(
        self, server: APIServer, informers: Informers, *, aggregated: AggregatedInformers | None = None
    ) -> None:
        self.server = server
        self.aggregated = aggregated
        self._informers = informers
        self.client = controller_client(server, "namespace-controller")
        self._terminating: set[str] = set()
        controller = new_controller("namespace-controller", self._reconcile, workers=4)
        controller.watch(resource_source(informers, NAMESPACES, self._namespace_changed, needs="metadata"))
        controller.watch(all_resources_source(informers, self._content_changed))
        if aggregated is not None:
            controller.watch(all_resources_source(aggregated, self._content_changed))
            aggregated.add_resource_callback(self._aggregated_resources_changed)
        self.controllers = (controller,)

    def _namespace_changed(self, change: ObjectChange) -> Iterable[str]:
        if change.type == "DELETED":
            self._terminating.discard(change.name)
        elif change.entry.metadata.deletion_timestamp is not None:
            self._terminating.add(change.name)
            yield change.name

    def _content_changed(self, resource: Resource, change: ObjectChange) -> Iterable[str]:
        return (change.namespace,) if change.namespace in self._terminating else ()

    def _aggregated_resources_changed(self) -> None:
        (controller,) = self.controllers
        if controller.queue is not None:
            for name in self._terminating:
                controller.queue.add(name)

    async def _reconcile(self, name: str) -> Result | None:
        try:
            namespace = (await self.client.get(NAMESPACES, name)).raw
        except NotFound:
            return None
        if not namespace["metadata"].get("deletionTimestamp"):
            return None
        if FINALIZER not in (namespace.get("spec", {}).get("finalizers") or ()):
            return None
        remaining = RemainingContent()
        await self._delete_content(name, remaining)
        conditions = updated_conditions(
            namespace.get("status", {}).get("conditions") or [], remaining.problems()
        )
        if conditions is not None:
            namespace["status"] = {
                **namespace.get("status", {}),
                "conditions": conditions,
                "phase": "Terminating",
            }
            try:
                await self.client.update_status(namespace)
            except NotFound:
                return None
        if remaining.errors or remaining.discovery:
            raise APIError("; ".join(remaining.errors + remaining.discovery))
        if remaining.objects:
            return Result(requeue_after=AGGREGATED_RECHECK_SECONDS) if remaining.aggregated else None
        spec = namespace.get("spec", {})
        namespace["spec"] = {
            **spec,
            "finalizers": sorted(each for each in spec.get("finalizers") or () if each != FINALIZER),
        }
        try:
            await self.client.subresource("finalize", namespace).update(Unstructured(namespace))
        except NotFound:
            pass
        return None

    async def _delete_content(self, namespace: str, remaining: RemainingContent) -> None:
        """Delete everything in a namespace and record what remains."""
        pods = self.server.store("", "pods")
        if pods is not None:
            await self._delete_resource(pods, namespace, remaining)
            if remaining.objects:
                return
        for store in list(self.server.stores):
            if store is not pods and store.resource.namespaced and "delete" in store.resource.verbs:
                await self._delete_resource(store, namespace, remaining)
        remaining.discovery += [error.message for error in self._informers.unknown(*DEFINITIONS)]
        if self.aggregated is not None:
            remaining.discovery += [
                f"{each}: stale GroupVersion discovery: {each}" for each in self.aggregated.unavailable()
            ]
            for resource in self.aggregated.resources():
                if resource.namespaced and {"delete", "list"}.issubset(resource.verbs):
                    await self._delete_aggregated(resource, namespace, remaining)

    async def _delete_aggregated(
        self, resource: Resource, namespace: str, remaining: RemainingContent
    ) -> None:
        try:
            kind = resource.api_resource()
            left = await self.client.list(kind, namespace=namespace)
            if left:
                await self._delete_objects(resource, namespace, [each.name for each in left])
                left = await self.client.list(kind, namespace=namespace)
        except APIError as error:
            remaining.errors.append(error.message)
            return
        if left:
            remaining.aggregated = True
            finalizers = [each["metadata"].get("finalizers") or () for each in left]
            remaining.add(resource, finalizers)

    async def _delete_resource(
        self, store: ResourceStore, namespace: str, remaining: RemainingContent
    ) -> None:
        try:
            found = await self._stored_objects(store, namespace)
            if not found:
                return
            try:
                await self._delete_objects(store.resource, namespace, [each.name for each in found])
            except APIError as error:
                remaining.errors.append(error.message)
            left = await self._stored_objects(store, namespace)
        except APIError as error:
            remaining.errors.append(error.message)  # an object that cannot be decoded remains
            return
        if left:
            remaining.add(store.resource, [each.finalizers or () for each in left])

    async def _stored_objects(self, store: ResourceStore, namespace: str) -> list[Metadata]:
        page = await store.storage.list(store.range(namespace))
        return [metadata_of(item.value) for item in page.items]

    async def _delete_objects(self, resource: Resource, namespace: str, names: Iterable[str]) -> None:
        kind = resource.api_resource()
        if "deletecollection" in resource.verbs:
            try:
                await self.client.delete_all(kind, namespace=namespace, propagation="Background")
                return
            except MethodNotAllowed:
                pass
        for name in names:
            try:
                await self.client.delete(kind, name, namespace=namespace, propagation="Background")
            except (NotFound, Conflict):
                continue


def updated_conditions(conditions: list[Object], problems: dict[str, tuple[str, str]]) -> list[Object] | None:
    """Return the conditions for what remains; `None` if nothing changes."""
    result, changed = [dict(condition) for condition in conditions], False
    for type_, default in _CONDITIONS.items():
        reason, message = problems.get(type_, default)
        status = "True" if type_ in problems else "False"
        old = next((condition for condition in result if condition.get("type") == type_), None)
        if old is None:
            old = {"type": type_}
            result.append(old)
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            continue
        changed = True
        if old.get("status") != status:
            old["lastTransitionTime"] = current_timestamp()
        old.update(status=status, reason=reason, message=message)
    return result if changed else None
