"""The end of a definition: its instances are deleted first.

Instances are deleted without asking admission, as the definition's own deletion has been admitted. Those with
finalizers stay until somebody removes them; meanwhile the definition says so in its Terminating condition,
and nothing new can be created. When the last instance is gone, the definition goes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import APIError, NotFound
from kubewright.api.field_errors import aggregate
from kubewright.apiserver import ResourceStore
from kubewright.apiserver.rest.delete import delete
from kubewright.apiserver.rest.options import DeletionOptions
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.watch.cache import WatchCacheEvent
from kubewright.storage.contract import StorageError

from . import conditions
from .conditions import Definition

if TYPE_CHECKING:
    from .definitions import CustomResourceDefinitions

logger = logging.getLogger("kubewright.controlplane")

_PATIENCE: Final = 60.0
"""Seconds after which the definition says that it is still waiting."""
_LOOK_AGAIN: Final = 0.5


class Incomplete(Exception):
    """Instances are left; reason and message for the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def finalize(definitions: CustomResourceDefinitions, name: str) -> None:
    """Delete the instances of a definition that is being deleted, then let it go."""
    delay = 0.05
    while True:
        try:
            await _attempt(definitions, name)
            return
        except Incomplete as error:
            logger.info("definition %s is still being deleted: %s", name, error)
        except (APIError, StorageError) as error:
            logger.warning("deletion of definition %s failed, trying again: %s", name, error)
        await asyncio.sleep(delay)
        delay = min(delay * 2, 30.0)


async def _attempt(definitions: CustomResourceDefinitions, name: str) -> None:
    from .strategy import CLEANUP

    def begin(crd: Definition) -> None:
        text = "CustomResource deletion is in progress"
        conditions.put(crd, "Terminating", "True", "InstanceDeletionInProgress", text)

    crd = await definitions.write_status(name, begin)
    if crd is None or CLEANUP not in (crd["metadata"].get("finalizers") or ()):
        return
    reason, message = "NeverEstablished", "resource was never established"
    if conditions.is_true(crd, "Established"):
        reason, message = "InstanceDeletionCompleted", "removed all instances"
        store = definitions.store_of(name)
        if store is None:
            reason, message = (
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage",
            )
        else:
            await _empty(definitions, name, store)

    def end(crd: Definition) -> None:
        conditions.put(crd, "Terminating", "False", reason, message)
        metadata = crd["metadata"]
        metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != CLEANUP]

    await definitions.write_status(name, end)


async def _empty(definitions: CustomResourceDefinitions, name: str, store: ResourceStore) -> None:
    try:
        await _delete_all(store)
        await _wait_until_empty(definitions, name, store)
        # Whoever watches, and the garbage collector, hears of the last instance before its kind is gone.
        await store.server.dispatcher.wait_for_revision(await store.storage.revision())
    except Incomplete as error:
        reason, message = error.reason, str(error)

        def fail(crd: Definition) -> None:
            conditions.put(crd, "Terminating", "True", reason, message)

        await definitions.write_status(name, fail)
        raise


async def _delete_all(store: ResourceStore) -> None:
    from .definitions import CONTROLLER

    resource = store.resource
    version = resource.version(resource.storage_version)
    assert version is not None
    options = DeletionOptions()
    problems: list[Exception] = []
    for item in (await store.storage.list(store.prefix)).items:
        namespace, _, name = item.key[len(store.prefix) :].rpartition("/")
        op = Operation(
            verb="delete",
            resource=resource,
            version=version,
            namespace=namespace,
            name=name,
            subresource="",
            user=CONTROLLER,
            dry_run=False,
            options=options.to_object(),
            request=None,
            warnings=[],
        )
        try:
            await delete(store, op, options, admit=False)
        except NotFound:
            continue
        except APIError as error:
            problems.append(error)
    if problems:
        raise Incomplete("InstanceDeletionFailed", f"could not issue all deletes: {aggregate(problems)}")


async def _wait_until_empty(definitions: CustomResourceDefinitions, name: str, store: ResourceStore) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + _PATIENCE
    while (await store.storage.list(store.prefix, limit=1)).items:
        left = min(_LOOK_AGAIN, until - clock())
        if left <= 0:
            raise Incomplete(
                "InstanceDeletionCheck",
                "could not confirm zero CustomResources remaining: timed out waiting for the condition",
            )
        await _next_deletion(definitions.store_of(name) or store, left)


async def _next_deletion(store: ResourceStore, patience: float) -> None:
    """Wait until an instance goes, but not for long: a definition that changes gets another store."""
    gone = asyncio.Event()

    def listen(change: WatchCacheEvent) -> None:
        if change.type == "DELETED":
            gone.set()

    store.watch_cache.listeners.append(listen)
    try:
        if (await store.storage.list(store.prefix, limit=1)).items:
            async with asyncio.timeout(patience):
                await gone.wait()
    except TimeoutError:
        pass
    finally:
        store.watch_cache.listeners.remove(listen)
