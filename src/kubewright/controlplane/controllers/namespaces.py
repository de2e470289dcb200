"""The namespace controller: what is in a namespace goes with it.

A namespace that is being deleted is emptied (pods first, then everything else), its conditions say what is
left, and when nothing is left the `kubernetes` finalizer is taken off its spec, which lets it go. Nothing
is polled: the controller looks again when something in the namespace changes or goes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, Conflict, MethodNotAllowed, NotFound
from kubewright.apiserver.objects import current_timestamp

from .changes import Changes, ObjectChange, metadata_of
from .loop import Loop
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]

FINALIZER = "kubernetes"

_FINE = {
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
"""The conditions in order, with reason and message where there is no problem."""


class Remains:
    """What could not be removed, and why."""

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.errors: list[str] = []
        self.discovery: list[str] = []

    def problems(self) -> dict[str, tuple[str, str]]:
        """Condition types that are true, with reason and message."""
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


class NamespaceController:
    """Empties namespaces that are being deleted."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.requests = Requests(server, controller_user("namespace-controller"))
        self.loop: Loop[str] = Loop("namespace controller", self._reconcile, workers=4)
        self.loops = (self.loop,)
        self._terminating: set[str] = set()
        changes.follow("", "namespaces", self._namespace_changed)
        changes.follow_all(self._content_changed)

    def _namespace_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self._terminating.discard(change.name)
        elif change.metadata.deletion_timestamp is not None:
            self._terminating.add(change.name)
            self.loop.add(change.name)

    def _content_changed(self, change: ObjectChange) -> None:
        if self._terminating and change.namespace in self._terminating:
            self.loop.add(change.namespace)

    async def _reconcile(self, name: str) -> None:
        store = self.server.store("", "namespaces")
        if store is None:
            return
        path = resource_path(store.resource, name=name)
        try:
            namespace = await self.requests.get(path)
        except NotFound:
            return
        if not namespace["metadata"].get("deletionTimestamp"):
            return
        if FINALIZER not in (namespace.get("spec", {}).get("finalizers") or ()):
            return
        remains = Remains()
        await self._empty(name, remains)
        conditions = updated(namespace.get("status", {}).get("conditions") or [], remains.problems())
        if conditions is not None:
            namespace["status"] = {
                **namespace.get("status", {}),
                "conditions": conditions,
                "phase": "Terminating",
            }
            try:
                namespace = await self.requests.update(f"{path}/status", namespace)
            except NotFound:
                return
        if remains.errors or remains.discovery:
            raise APIError("; ".join(remains.errors + remains.discovery))
        if remains.objects:
            return
        spec = namespace.get("spec", {})
        namespace["spec"] = {
            **spec,
            "finalizers": sorted(each for each in spec.get("finalizers") or () if each != FINALIZER),
        }
        try:
            await self.requests.update(f"{path}/finalize", namespace)
        except NotFound:
            return

    async def _empty(self, namespace: str, remains: Remains) -> None:
        """Delete everything in a namespace; `remains` says what is still there afterwards."""
        pods = self.server.store("", "pods")
        if pods is not None:
            await self._empty_of(pods, namespace, remains)
            if remains.objects:
                return
        for store in list(self.server.stores):
            if store is not pods and store.resource.namespaced and "delete" in store.resource.verbs:
                await self._empty_of(store, namespace, remains)

    async def _empty_of(self, store: ResourceStore, namespace: str, remains: Remains) -> None:
        resource = store.resource
        page = await store.storage.list(store.range(namespace), limit=1)
        if not page.items:
            return
        try:
            await self._delete_all(store, namespace)
        except APIError as error:
            remains.errors.append(error.message)
        left = [metadata_of(item.value) for item in (await store.storage.list(store.range(namespace))).items]
        if not left:
            return
        remains.objects[f"{resource.plural}.{resource.group}"] = len(left)
        for metadata in left:
            remains.finalizers.update(metadata.finalizers or ())

    async def _delete_all(self, store: ResourceStore, namespace: str) -> None:
        resource = store.resource
        collection = resource_path(resource, namespace)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if "deletecollection" in resource.verbs:
            try:
                await self.requests.send("DELETE", collection, options)
                return
            except MethodNotAllowed:
                pass
        for item in (await store.storage.list(store.range(namespace))).items:
            try:
                await self.requests.delete(
                    resource_path(resource, namespace, metadata_of(item.value).name), propagation="Background"
                )
            except (NotFound, Conflict):
                continue


def updated(conditions: list[Object], problems: dict[str, tuple[str, str]]) -> list[Object] | None:
    """The conditions after a look at the content; `None` if nothing changes."""
    result, changed = [dict(condition) for condition in conditions], False
    for type_, fine in _FINE.items():
        reason, message = problems.get(type_, fine)
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
