"""Serving of custom resources: a definition is served as soon as it is established.

    definitions = CustomResourceDefinitions(server, informers, client)
    await definitions.start()        # after the server: serves the stored definitions

A write of a definition calls `definition_stored` within its request: names are accepted, conditions set, and
the resource is served before the client receives the response. A definition whose spec or names change is
served anew: watches of its instances end and clients start them again. A deleted definition has a finalizer
until its instances are deleted (see `finalization`).

Definitions that another process has stored arrive through the informer and are served the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.apiserver import APIServer, ResourceStore, User
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS
from kubewright.apiserver.http.messages import WarningRecorder
from kubewright.apiserver.resources.conversion import VersionConverter
from kubewright.apiserver.resources.objects import deep_copy
from kubewright.apiserver.resources.resource import Resource
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.webhooks.client import WebhookClient
from kubewright.storage.contract import StorageError

from . import conditions
from .conditions import Definition, NameIndex
from .conversion import WebhookConverter
from .finalization import finalize
from .serving import SERVED_VERBS, TERMINATING_VERBS, CustomResourceStrategy, resource_of_definition
from .strategy import CLEANUP, DefinitionStrategy

if TYPE_CHECKING:
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers

logger = logging.getLogger("kubewright.controlplane")

GROUP: Final = "apiextensions.k8s.io"
PLURAL: Final = "customresourcedefinitions"
CONTROLLER: Final = User("system:apiserver", (MASTERS, AUTHENTICATED))
"""The user that writes the status of definitions; its writes are recognized by identity."""
_RETRY: Final = 1.0


@dataclass(slots=True)
class Served:
    """A definition and the resource that serves its instances."""

    crd: Definition
    resource: Resource
    strategy: CustomResourceStrategy


class CustomResourceDefinitions:
    """Serves the custom resources of a server, which must serve `customresourcedefinitions`."""

    def __init__(
        self, server: APIServer, informers: Informers, client: WebhookClient, *, serves: bool = True
    ) -> None:
        """`serves`: whether requests of the server use it."""
        store = server.store(GROUP, PLURAL)
        if store is None:
            raise ValueError(f"the server does not serve {PLURAL}.{GROUP}")
        self.server = server
        self.informers = informers
        self.store: ResourceStore = store
        self._client = client
        self._version = store.resource.versions[0]
        self._known: dict[str, Definition] = {}
        self._names = NameIndex()
        self._served: dict[str, Served] = {}
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._adopting: set[asyncio.Task[None]] = set()
        """Tasks that serve what another process has written."""
        self._finalizing: set[str] = set()
        self.deletes_instances = True
        """Whether this server deletes the instances of definitions that are being deleted, as each does."""
        if serves:
            store.resource.strategy = DefinitionStrategy(self)
            store.resource.hashed_group_version = "apiextensions.k8s.io/v1beta1"

    async def start(self) -> None:
        """Serve every stored definition, and resume interrupted deletions."""
        page, errors = await self.store.storage.list_stored(self.store.prefix)
        undecodable = {error.key for error in errors}
        found = [
            await self.store.load(item, self._version) for item in page.items if item.key not in undecodable
        ]
        for crd in found:
            crd["metadata"].pop("managedFields", None)
            self._remember(crd)
            self._serve(crd)
        for crd in found:
            if not conditions.is_served(crd):
                await self._review(crd["metadata"]["name"])
            self._finish_deletion(crd)
        self.informers.add_handler(GROUP, PLURAL, self._definition_changed, needs="metadata")
        self.server.router.catch_up = self.catch_up
        await self.informers.wait_for_sync(GroupResource(GROUP, PLURAL))
        for crd in found:
            if not self.informers.contains(GROUP, PLURAL, crd["metadata"]["name"]):
                await self.definition_deleted(crd)  # between the two lists, by another server

    async def catch_up(self, group: str) -> None:
        """Serve every definition that is stored by now, before a request for `group` fails with 404.

        A client that saw `Established` through another server can send its next request to this one. Raises
        `UndecodableObject` if the resource may be that of a definition or APIService that cannot be decoded.
        """
        if "." not in group:
            return
        try:
            async with asyncio.timeout(self.server.freshness_timeout):
                await self.informers.catch_up()
                while self._adopting:
                    await asyncio.wait(set(self._adopting))
        except TimeoutError:
            logger.warning("definitions have not caught up with storage", extra={"group": group})
        for resource in ((GROUP, PLURAL), ("apiregistration.k8s.io", "apiservices")):
            for error in self.informers.unknown(*resource):
                if error.key.rpartition("/")[2].partition(".")[2] == group:
                    raise error.copy()

    @property
    def has_synced(self) -> bool:
        """Whether every definition that the informer has reported is served, or no longer served."""
        return not self._adopting

    async def stop(self) -> None:
        """Cancel background tasks."""
        self.server.router.catch_up = None
        self.informers.remove_handler(GROUP, PLURAL, self._definition_changed)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Changes of definitions

    async def definition_stored(self, op: Operation, crd: Definition) -> None:
        """Serve a definition that this process has stored."""
        metadata = {key: value for key, value in crd["metadata"].items() if key != "managedFields"}
        if self._note(deep_copy({**crd, "metadata": metadata})) and op.user is not CONTROLLER:
            await self._review(crd["metadata"]["name"])
            self._finish_deletion(crd)

    async def definition_deleted(self, crd: Definition) -> None:
        """Stop serving a deleted definition; others of its group may now get its names."""
        name = crd["metadata"]["name"]
        known = self._known.get(name)
        if known is None or known["metadata"]["uid"] != crd["metadata"]["uid"]:
            return
        del self._known[name]
        self._names.discard(name)
        self._unserve(name)
        self._run_in_background(self._review_waiting(crd["spec"]["group"]))

    def _definition_changed(self, change: ObjectChange) -> None:
        """Handle writes that did not pass through this process."""
        known = self._known.get(change.name)
        if change.type == "DELETED":
            if known is not None and known["metadata"]["uid"] == change.entry.metadata.uid:
                self._start_adopting(self.definition_deleted(known))
        elif known is None or int(known["metadata"]["resourceVersion"]) < change.entry.metadata.revision:
            self._start_adopting(self._adopt(change.name))

    def _start_adopting(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._run_in_background(work)
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    async def _adopt(self, name: str) -> None:
        try:
            crd = await self.store.get_object(self._version, "", name)
        except NotFound:
            return
        if self._note(crd):
            await self._review(name)
            self._finish_deletion(crd)

    def _note(self, crd: Definition) -> bool:
        """Record a definition, unless a newer version is known."""
        metadata = crd["metadata"]
        known = self._known.get(metadata["name"])
        if known is not None and int(known["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"]):
            return False
        self._remember(crd)
        return True

    def _remember(self, crd: Definition) -> None:
        self._known[crd["metadata"]["name"]] = crd
        self._names.put(crd)

    def known(self, name: str) -> Definition | None:
        """Return the last known version of a definition."""
        return self._known.get(name)

    def store_of(self, name: str) -> ResourceStore | None:
        """Return the store of a definition's instances while it is served."""
        served = self._served.get(name)
        if served is None:
            return None
        return self.server.store(served.resource.group, served.resource.plural)

    # Names and conditions

    async def _review(self, name: str) -> None:
        """Accept names, set conditions, serve; then review definitions that wait for a name."""
        pending = [name]
        while pending:
            name = pending.pop()
            group = await self._review_one(name)
            if group is not None:
                # Not by recursion: any number of definitions can wait.
                waiting = set(pending) | {name}
                pending += (each for each in self._names.waiting(group) if each not in waiting)

    async def _review_one(self, name: str) -> str | None:
        """Review one definition; return its group if a name that it had is free now."""
        async with self._lock:
            crd = self._known.get(name)
            if crd is None:
                return None
            group, names = crd["spec"]["group"], (crd.get("status") or {}).get("acceptedNames") or {}
            crd = await self._reviewed(crd)
            if crd is None:
                return None
            self._serve(crd)
            accepted = crd["status"]["acceptedNames"]
            return group if any(each and each != accepted.get(key) for key, each in names.items()) else None

    async def _reviewed(self, crd: Definition) -> Definition | None:
        name = crd["metadata"]["name"]
        taken = self._names.taken_by_others(crd)
        judged = deep_copy(crd)
        conditions.review(judged, taken)
        if judged["status"] == crd["status"]:
            return crd
        try:
            return await self.write_status(name, lambda live: conditions.review(live, taken))
        except (APIError, StorageError) as error:
            logger.warning(
                "cannot write definition status; retrying", extra={"definition": name, "error": str(error)}
            )
            self._run_in_background(self._try_again(name))
            return None

    async def _try_again(self, name: str) -> None:
        await asyncio.sleep(_RETRY)
        await self._review(name)

    async def _review_waiting(self, group: str) -> None:
        for name in self._names.waiting(group):
            await self._review(name)

    async def write_status(self, name: str, change: Callable[[Definition], None]) -> Definition | None:
        """Update a definition as its controller; `None` if it does not exist afterwards."""

        async def compute(live: Definition | None) -> Definition:
            new: Definition = deep_copy(live)
            change(new)
            return new

        op = Operation(
            verb="update",
            resource=self.store.resource,
            version=self._version,
            namespace="",
            name=name,
            subresource="status",
            user=CONTROLLER,
            dry_run=False,
            options={"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
            request=None,
            warnings=WarningRecorder(),
            field_manager="kube-apiserver",
        )
        try:
            crd, _ = await self.store.updater.update(op, compute)
        except NotFound:
            return None
        return self._known.get(name) and crd

    # Serving

    def _serve(self, crd: Definition) -> None:
        """Serve the current version of a definition."""
        name = crd["metadata"]["name"]
        served = self._served.get(name)
        if not conditions.is_served(crd):
            self._unserve(name)
            return
        if served is None or not _same_service(served.crd, crd):
            group, plural = crd["spec"]["group"], crd["status"]["acceptedNames"]["plural"]
            existing = self.server.store(group, plural)
            if existing is not None and (served is None or existing.resource is not served.resource):
                logger.warning(
                    "definition overlaps a built-in resource; not served", extra={"definition": name}
                )
                return
            revision = max(
                int(crd["metadata"]["resourceVersion"]), self.server.dispatcher.revision if served else 0
            )
            resource = resource_of_definition(crd, schema_revision=revision, converter=self._converter)
            strategy = resource.strategy
            assert isinstance(strategy, CustomResourceStrategy)
            served = self._served[name] = Served(crd, resource, strategy)
            self.server.add(resource)
        served.crd = crd
        terminating = conditions.is_terminating(crd)
        served.strategy.terminating = terminating
        verbs = TERMINATING_VERBS if terminating else SERVED_VERBS
        if served.resource.discovery_verbs != verbs:
            served.resource.discovery_verbs = verbs
            self.server.discovery.invalidate()

    def _unserve(self, name: str) -> None:
        served = self._served.pop(name, None)
        if served is not None:
            self.server.remove(served.resource.group, served.resource.plural)

    def _converter(self, crd: Definition) -> VersionConverter | None:
        conversion = crd["spec"].get("conversion") or {}
        return WebhookConverter(self._client, crd) if conversion.get("strategy") == "Webhook" else None

    # Deletion

    def _finish_deletion(self, crd: Definition) -> None:
        metadata = crd["metadata"]
        name = metadata["name"]
        if (
            self.deletes_instances
            and "deletionTimestamp" in metadata
            and CLEANUP in (metadata.get("finalizers") or ())
            and name not in self._finalizing
        ):
            self._finalizing.add(name)
            self._run_in_background(self._finalize(name))

    async def _finalize(self, name: str) -> None:
        try:
            await finalize(self, name)
        finally:
            self._finalizing.discard(name)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("definition controller failed", exc_info=task.exception())


def _same_service(old: Definition, new: Definition) -> bool:
    return bool(
        old["metadata"]["uid"] == new["metadata"]["uid"]
        and old["spec"] == new["spec"]
        and old["status"]["acceptedNames"] == new["status"]["acceptedNames"]
    )
